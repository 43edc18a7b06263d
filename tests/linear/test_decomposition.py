"""Refined components, and products with the data, find what a decomposition of a copy finds."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca import BayesianPCA
from bayespca.datasets import noisy
from bayespca.linear.scaled import cells
from bayespca.linear.scaled.data import Whitening
from bayespca.linear.scaled.decomposition import near_to, one_row_less
from bayespca.linear.scaled.reading import noisy_table
from bayespca.linear.scaled.step import state_near, state_of
from bayespca.lowrank.scales import given
from bayespca.spectrum.forms import ClosedForm
from bayespca.spectrum.records import Spectrum

KINDS = pytest.mark.parametrize("kind", ["columns", "both"])
NAMES = {"columns": "per-feature", "rows": "per-sample", "both": "both"}
SHAPES = pytest.mark.parametrize("shape", [(900, 100), (200, 300)])
CENTRED = pytest.mark.parametrize("center", [True, False])


@pytest.fixture
def few_are_many(monkeypatch):
    monkeypatch.setattr(cells, "MANY_CELLS", 1000)
    monkeypatch.setattr(cells, "FEW", 6)


def whitening(rng, shape, kind):
    n, p = shape
    rows = given(rng.lognormal(0, 0.1, n)).at_unit_scale() if kind == "both" else None
    return Whitening(given(rng.lognormal(0, 0.1, p)).at_unit_scale(), rows)


@KINDS
@SHAPES
@CENTRED
def test_a_pass_finds_what_a_decomposition_finds(few_are_many, kind, shape, center):
    rng, form = np.random.default_rng(0), ClosedForm()
    X = noisy("white", *shape, 4, strength=2.0, random_state=0).X + 5
    table = cells_of(X, center)
    one, other = whitening(rng, shape, kind), whitening(rng, shape, kind)
    begin, exact = state_of(one, table, form), state_of(other, table, form)
    found = begin
    for _ in range(12):
        found = state_near(other, table, form, near_to(found.found, found.whitening.columns))
        assert found.found.basis is not None
        assert found.energy >= exact.energy - 1e-9 * abs(exact.energy)
    assert found.energy == pytest.approx(exact.energy, rel=1e-9)
    assert found.found.solution.rank == exact.found.solution.rank
    for name in ("squares", "location", "cross"):
        mine, theirs = (np.abs(getattr(state.found, name)) for state in (found, exact))
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5 * theirs.max() + 1e-12)
    if kind == "both":
        mine, theirs = found.found.rows, table.scored(exact.found, other).rows
        np.testing.assert_allclose(
            mine.squares - mine.explained, theirs.squares - theirs.explained, rtol=1e-4
        )
        np.testing.assert_allclose(mine.leverage, theirs.leverage, rtol=1e-3, atol=1e-6)


def cells_of(X, center):
    table = noisy_table(X, center=center, rows=True)
    assert isinstance(table, cells.CellTable)
    return table


@pytest.mark.parametrize("strength", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("kind", ["columns", "rows", "both"])
def test_a_fit_ends_where_it_would_without(kind, strength, monkeypatch):
    """Wide data, so that a Gram matrix does not suffice for noise of columns."""
    X = noisy(kind, 150, 250, 4, strength=strength, random_state=0).X
    plain = BayesianPCA(noise=NAMES[kind]).fit(X)
    monkeypatch.setattr(cells, "MANY_CELLS", 1000)
    monkeypatch.setattr(cells, "FEW", 6)
    found = BayesianPCA(noise=NAMES[kind]).fit(X)
    assert found.n_components_ == plain.n_components_
    assert found.free_energy_ == pytest.approx(plain.free_energy_, rel=1e-7)
    np.testing.assert_allclose(
        found.feature_noise_variance_, plain.feature_noise_variance_, rtol=1e-2
    )


def test_rounded_numbers(few_are_many):
    X = np.rint(2 * noisy("white", 300, 100, 3, strength=1.0, random_state=0).X)
    table, form = cells_of(X, True), ClosedForm()
    assert table.rounding.any()
    noise = whitening(np.random.default_rng(0), X.shape, "both")
    exact = found = state_of(noise, table, form)
    for _ in range(12):
        found = state_near(noise, table, form, near_to(found.found, noise.columns))
    assert found.found.basis is not None
    assert found.energy == pytest.approx(exact.energy, rel=1e-9)


# --- products with the data ---------------------------------------------------------------------


def table_of(X, center=True):
    return noisy_table(X, center=center, rows=True)


def slightly_uneven(shape, rows=True):
    rng, (n, p) = np.random.default_rng(0), shape
    own = given(rng.lognormal(0, 0.05, n)).at_unit_scale() if rows else None
    return Whitening(given(rng.lognormal(0, 0.05, p)).at_unit_scale(), own)


def both_ways(monkeypatch, table, noise):
    copied = state_of(noise, table, ClosedForm())
    monkeypatch.setattr(cells, "is_for_products", lambda values: True)
    return copied, state_of(noise, table, ClosedForm())


@CENTRED
@pytest.mark.parametrize("rows", [True, False])
def test_without_a_copy(monkeypatch, center, rows):
    X = noisy("white", 900, 1000, 3, strength=3.0, random_state=0).X + 5 * center
    table = table_of(X, center)
    copied, found = both_ways(monkeypatch, table, slightly_uneven(X.shape, rows))
    assert (copied.found.engine, found.found.engine) == ("gram", "randomized")
    assert found.found.solution.rank == copied.found.solution.rank == 3
    assert found.energy == pytest.approx(copied.energy, rel=1e-12)
    for name in ("squares", "location", "cross"):
        mine, theirs = (np.abs(getattr(state.found, name)) for state in (found, copied))
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-7 * (theirs.max() + 1e-6))


def test_a_mean_far_from_zero(monkeypatch):
    """Products lose digits to a large mean, so a copy is made after all."""
    X = noisy("white", 900, 1000, 3, strength=3.0, random_state=0).X
    noise = slightly_uneven(X.shape)
    copied, found = both_ways(monkeypatch, table_of(X + 1e8), noise)
    assert found.found.engine == copied.found.engine == "gram"
    assert found.energy == pytest.approx(state_of(noise, table_of(X), ClosedForm()).energy)


def test_a_spectrum_that_cannot_be_cut_off(monkeypatch):
    X = noisy("white", 300, 400, 80, strength=3.0, random_state=0).X
    copied, found = both_ways(monkeypatch, table_of(X), slightly_uneven(X.shape))
    assert found.found.engine == copied.found.engine == "gram"
    assert found.energy == copied.energy


def test_a_value_that_leaves_room_only_with_the_row_that_follows_from_the_others():
    """The rest of the squares fits into seven values below the last one, but not into six."""
    squares = np.array([9.0, 1.44, 0.98])
    whole = Spectrum(np.sqrt(squares), (20, 10), squares.sum() + 7 * 0.98)
    less = one_row_less(whole)
    assert less.singular_values.tolist() == pytest.approx([3.0, 1.2])
    assert less.sum_of_squares == pytest.approx(whole.sum_of_squares)
