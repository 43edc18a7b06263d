"""Each check speaks up where it should, and nowhere else."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets
from sklearn.decomposition import PCA

from bayespca import BayesianPCA
from bayespca.checks.rows import dominating_row, ordered_rows, sorted_rows
from bayespca.checks.values import of_values
from bayespca.datasets import noisy
from bayespca.lowrank.noise_models import NOISES
from bayespca.lowrank.posterior import left_of_some, reconstruct, scores

pytestmark = pytest.mark.filterwarnings("ignore::bayespca.estimators.pca.RankWarning")

CODES = (
    *("zero-one", "counts", "dependent-columns", "repeated-rows", "replicates"),
    *("ordered-rows", "sorted-rows", "dominating-row", "series"),
)


def said(X, **options):
    status = BayesianPCA(**options).fit(X).status_
    return {item.code: item.text for item in status.advice if item.code in CODES}


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def table():
    return pd.DataFrame(noisy("white", 100, 6, 2, random_state=0).X, columns=list("abcdef"))


# --- columns -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "made", "words"),
    [
        ("bp2", lambda t: t.a, "'bp2' equals 'a'"),
        ("k", lambda t: 3 - 2.5 * t.b, "'k' is a multiple of 'b'"),
        ("total", lambda t: t.c + t.d + t.e, "'total' is the sum of"),
        ("mix", lambda t: t.c + 2 * t.d - 0.5 * t.e, "follows from"),
    ],
)
@pytest.mark.parametrize("noise", ["auto", "isotropic", "per-feature"])
@pytest.mark.parametrize("unit", [1.0, 1e-30, 1e30])
def test_columns_that_follow_from_others_are_named(table, name, made, words, noise, unit):
    table[name] = made(table)
    assert words in said(table * unit, noise=noise)["dependent-columns"]


def test_a_sum_is_named_whatever_its_place(table):
    table.insert(0, "total", table.c + table.d + table.e)
    text = said(table)["dependent-columns"]
    parts = text.split("'total' is the sum of ")[1].split(". They")[0]
    assert sorted(parts.replace(" and ", ", ").split(", ")) == ["'c'", "'d'", "'e'"]


def test_columns_without_names_have_numbers():
    X = noisy("white", 60, 5, 1, random_state=0).X
    X[:, 3] = X[:, 1]
    assert "'feature 3' equals 'feature 1'" in said(X)["dependent-columns"]


def test_copies_are_found_where_there_are_few_rows_or_holes(table):
    table["copy"] = table.a
    assert "'copy' equals 'a'" in said(table.iloc[:9])["dependent-columns"]
    table.iloc[3, 2] = np.nan
    assert "'copy' equals 'a'" in said(table)["dependent-columns"]


def test_nearly_equal_is_not_equal(rng):
    X = rng.normal(size=(50, 4))
    X[:, 3] = X[:, 2] + 1e-4 * rng.normal(size=50)
    assert "dependent-columns" not in said(X)


def test_maximum_likelihood_with_a_given_number_keeps_all_columns(table):
    table["total"] = table.c + table.d
    model = BayesianPCA(method="ml", n_components=2).fit(table)
    other = PCA(2).fit(table)
    assert "leave them out" in str(model.status_)
    np.testing.assert_allclose(model.explained_variance_, other.explained_variance_)


# --- rows --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(300, 30), (60, 200), (100, 10)])
def test_random_walks_are_a_series(shape, rng):
    walk = np.cumsum(rng.normal(size=shape), axis=0)
    assert "like a time series" in said(walk, noise="per-feature")["ordered-rows"]
    found = said(walk)
    assert "Rows form a series" in found["series"]
    assert "ordered-rows" not in found


def test_some_of_many_columns_tell_a_series(rng):
    walk = np.cumsum(rng.normal(size=(60, 8000)), axis=0)
    assert "look like a time series" in said(walk, noise="isotropic")["ordered-rows"]
    assert "ordered-rows" not in said(noisy("white", 60, 8000, 3, random_state=0).X)


def test_some_columns_leave_what_all_leave(rng):
    X = noisy("white", 50, 3000, 3, strength=2.0, random_state=0).X + 4
    posterior = BayesianPCA(noise="isotropic").fit(X).posterior_
    columns = np.arange(0, 3000, 4)
    left = left_of_some(posterior, X, columns)
    whole = (X - reconstruct(posterior, scores(posterior, X)))[:, columns]
    assert np.sqrt(np.mean((left - whole) ** 2)) < 0.1


def test_sorted_groups_are_no_series(rng):
    centres = 5 * rng.normal(size=(4, 12))
    X = np.repeat(centres, 50, axis=0) + rng.normal(size=(200, 12))
    assert "ordered-rows" not in said(X)
    assert "Sorted rows do no harm" in said(X)["sorted-rows"]
    assert "sorted-rows" not in said(rng.permutation(X))
    assert ordered_rows(np.zeros((20, 3))) is None
    assert ordered_rows(rng.normal(size=(5, 3)).cumsum(axis=0)) is None


def series(rng, n, *, correlation=0.97):
    """Two autoregressive components in white noise."""
    steps = rng.normal(size=(n, 2)) * np.sqrt(1 - correlation**2)
    scores = [rng.normal(size=2)]
    for step in steps[1:]:
        scores.append(correlation * scores[-1] + step)
    return np.array(scores) @ (3 * rng.normal(size=(2, 12))) + rng.normal(size=(n, 12))


@pytest.mark.parametrize("noise", ["auto", "isotropic", "student"])
def test_slow_scores_in_white_noise_are_a_series(noise, rng):
    X = series(rng, 300)
    found = said(X, noise=noise)
    assert "or ordered in time" in found["sorted-rows"]
    assert "ordered-rows" not in found
    assert not said(rng.permutation(X), noise=noise)


def test_slow_scores_are_noticed_nearly_always(rng):
    noticed = ["sorted-rows" in said(series(rng, 150), noise="isotropic") for _ in range(50)]
    assert np.mean(noticed) > 0.9


def test_the_component_in_order_is_named(rng):
    scores = rng.normal(size=(100, 3))
    scores[:, 1].sort()
    assert sorted_rows(scores, 20).text.startswith("Component 2 follows the order of the rows")


def test_outlying_neighbours_are_no_order(rng):
    scores = rng.normal(size=(60, 2))
    scores[30:33, 0] = 1e3
    assert sorted_rows(scores, 20) is None


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "diabetes", "digits"])
def test_shuffled_tables_are_in_no_order(name, rng):
    X = getattr(sklearn.datasets, f"load_{name}")().data
    scores = BayesianPCA(noise="isotropic").fit_transform(X)
    alarms = [sorted_rows(rng.permutation(scores), 20) is not None for _ in range(200)]
    assert np.mean(alarms) <= 0.01
    # These two are sorted by class; the others are not.
    assert (sorted_rows(scores, 20) is not None) == (name in ("iris", "wine"))


def test_frames_of_a_video_are_in_order(load_data):
    X = load_data("freyfaces")["X"][:500].astype(float)
    assert sorted_rows(BayesianPCA(noise="isotropic").fit_transform(X), X.shape[1]) is not None


@pytest.mark.parametrize("noise", ["auto", *NOISES])
@pytest.mark.parametrize("shape", [(80, 10), (60, 200)])
def test_a_row_that_is_a_component_is_said_once_under_every_noise(shape, noise):
    """In wide data components explain all of it, so that its own noise is like that of others."""
    X = noisy("white", *shape, 2, random_state=1).X
    _, _, axes = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    X[7] += 30 * (X[7] - X.mean(axis=0)) @ axes[:2].T @ axes[:2]
    advice = BayesianPCA(noise=noise).fit(X).status_.advice
    about = [one for one in advice if one.code in ("dominating-row", "outlying-rows")]
    assert len(about) == 1
    assert "Row 7 " in about[0].text or "(7, counting from 0)" in about[0].text


def test_rows_that_are_named_are_not_named_again(rng):
    scores = rng.normal(size=(40, 2))
    scores[3, 0], scores[5, 1] = 30.0, 50.0
    assert dominating_row(scores).text.startswith("Row 5 ")
    assert dominating_row(scores, [5]).text.startswith("Row 3 ")
    assert dominating_row(scores, [3, 5]) is None


def test_a_row_that_is_a_component(rng):
    X = noisy("white", 80, 10, 2, random_state=0).X
    X[7] += 100
    text = said(X, noise="isotropic")["dominating-row"]
    assert text.startswith("Row 7 (counting from 0) makes up 9")
    assert "of component 1" in text
    # The default gives it less weight, and describes it in other words.
    model = BayesianPCA().fit(X)
    assert "dominating-row" not in model.status_
    assert "1 of 80 rows is outlying (7, counting from 0): its noise" in str(model.status_)


def test_few_rows_dominate_by_chance(rng):
    assert dominating_row(rng.normal(size=(5, 1)) * [[9], [1], [1], [1], [1]]) is None
    assert dominating_row(np.empty((30, 0))) is None


# --- values ------------------------------------------------------------------------------------


def test_yes_or_no(rng):
    X = (rng.random((100, 10)) < 0.3).astype(float)
    assert "BinaryPCA" in said(X)["zero-one"]
    X[3, 4] = np.nan
    assert "BinaryPCA" in said(X)["zero-one"]


def test_counts(rng):
    X = rng.poisson(np.exp(rng.normal(size=12)), size=(200, 12)).astype(float)
    assert "look like counts" in said(X, noise="isotropic")["counts"]
    # Noise that varies with rows and columns already describes counts.
    assert "counts" not in said(X, noise="both")


def test_whole_numbers_that_are_no_counts(rng):
    scores = rng.integers(1, 6, size=(200, 10)).astype(float)
    years = np.round(1900 + 100 * rng.random((200, 10)))
    negative = rng.poisson(3, size=(50, 6)) - 2.0
    for X in (scores, years, negative, rng.normal(size=(50, 6)), np.full((3, 3), np.nan)):
        assert of_values(X) is None


# --- nothing to say ----------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(20, 5), (30, 40), (60, 12), (200, 20)])
def test_clean_data_are_left_alone(shape):
    """1,500 data sets of five shapes, under three noise models, gave no false alarm."""
    for seed in range(15):
        strength = (0.0, 0.1, 0.3, 0.6)[seed % 4]
        X = noisy("white", *shape, seed % 4, strength=strength, random_state=seed).X
        assert not said(X, noise="isotropic")
