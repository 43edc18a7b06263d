"""Columns of tables: codes, sticks of categories, sizes of rows, likelihoods of whole numbers."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.discrete import reading
from bayespca.discrete.columns import (
    TableColumn,
    as_cells,
    coded,
    from_sticks,
    level_probabilities,
    likelihood_of_whole,
    log_sizes,
    places,
)

COLOURS = TableColumn("colour", "categorical", ("red", "blue", "green", "grey"))
COLUMNS = [
    TableColumn("smokes", "bernoulli", (False, True)),
    TableColumn("height", "normal", center=170.0, scale=10.0),
    COLOURS,
    TableColumn("visits", "poisson", center=2.0),
    TableColumn("weight", "normal", center=70.0, scale=15.0),
]


def test_categories_are_questions_asked_in_turn():
    found = coded(np.array([0.0, 1.0, 2.0, 3.0, np.nan]), COLOURS)
    none = np.nan
    wanted = [[1, none, none], [0, 1, none], [0, 0, 1], [0, 0, 0], [none] * 3]
    np.testing.assert_array_equal(found, wanted)
    full = np.nan_to_num(found[:4])
    assert from_sticks(full).tolist() == [0, 1, 2, 3]


def test_probabilities_of_levels_are_those_of_their_sticks():
    sticks = np.array([[0.5, 0.2, 0.9], [0.1, 0.0, 1.0]])
    found = level_probabilities(sticks)
    assert found.sum(axis=1) == pytest.approx(1)
    assert found[0] == pytest.approx([0.5, 0.5 * 0.2, 0.5 * 0.8 * 0.9, 0.5 * 0.8 * 0.1])
    rng = np.random.default_rng(0)
    drawn = from_sticks((rng.random((100_000, 3)) < sticks[0]).astype(float))
    shares = np.bincount(drawn.astype(int), minlength=4) / len(drawn)
    assert shares == pytest.approx(found[0], abs=0.01)


def test_the_log_likelihood_of_a_category_is_that_of_its_level():
    """The cells of a category sum to the logarithm of its probability."""
    z = np.array([[0.3, -1.0, 0.8]])
    probabilities = level_probabilities(1 / (1 + np.exp(-z)))[0]
    for code in range(4):
        cells = as_cells(np.array([[float(code)]]), [COLOURS])
        total = cells.sites(z, np.zeros_like(z)).log_likelihood.sum()
        assert total == pytest.approx(np.log(probabilities[code]), abs=1e-7)


def test_columns_have_their_places():
    found = places(COLUMNS)
    assert [place.matrix for place in found] == [
        *(slice(2, 3), slice(0, 1), slice(3, 6), slice(6, 7), slice(1, 2))
    ]
    names = ["height", "weight", "smokes", "colour=red", "colour=blue", "colour=green", "visits"]
    assert reading.cell_names(COLUMNS) == names
    codes = np.array([[1.0, 180.0, 2.0, 3.0, np.nan]])
    cells = as_cells(codes, COLUMNS)
    assert cells.shape == (1, 7)
    assert cells.groups[0].values.tolist() == [[1.0, 0.0]]
    assert cells.seen.tolist() == [[True, False, True, True, True, True, True]]


def test_sizes_of_rows_are_sums_over_what_is_usual():
    columns = [TableColumn(f"gene{j}", "poisson", center=c) for j, c in enumerate((4.0, 16.0))]
    none = np.nan
    codes = np.array([[4.0, 16.0], [40.0, 160.0], [none, 16.0], [0.0, 0.0], [none, none]])
    sizes = np.exp(log_sizes(codes, columns))
    assert sizes == pytest.approx([1.0, 10.0, 1.0, 0.5 / 20, 1.0])


@pytest.mark.parametrize(
    ("draw", "wanted"),
    [
        (lambda rng: rng.poisson(1.5, 500), "poisson"),
        (lambda rng: rng.negative_binomial(1, 0.1, 500), "negative-binomial"),
        (lambda rng: rng.negative_binomial(0.3, 0.01, 500), "negative-binomial"),
        (lambda rng: np.round(rng.normal(45, 12, 500)).clip(0), "normal"),
        (lambda rng: rng.integers(1950, 2020, 500), "normal"),
        (lambda rng: rng.choice([1, 2, 3, 4, 5], 500, p=[0.1, 0.2, 0.4, 0.2, 0.1]), "ordinal"),
        (lambda rng: rng.choice([0, 1, 2, 3], 500, p=[0.1, 0.4, 0.1, 0.4]), "ordinal"),
        (lambda rng: rng.choice([1, 2, 3, 4, 5], 500, p=[0.4, 0.1, 0.0, 0.1, 0.4]), "ordinal"),
    ],
)
def test_whole_numbers_are_what_describes_them_best(draw, wanted):
    for seed in range(5):
        assert likelihood_of_whole(draw(np.random.default_rng(seed)).astype(float)) == wanted
