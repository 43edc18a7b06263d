"""Copies of rows differ from rows that are equal by chance."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris

from bayespca import BayesianPCA
from bayespca.checks.copies import copied_rows, replicates
from bayespca.estimators._redundant import means_of_rows


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def one_hot(codes):
    """One column for each level of each code but the first."""
    return np.hstack([np.eye(4)[code][:, 1:] for code in codes.T])


@pytest.mark.parametrize("times", [2, 3, 10])
@pytest.mark.parametrize("digits", [None, 2])
def test_a_table_several_times(rng, times, digits):
    X = rng.normal(size=(40, 8))
    X = X if digits is None else X.round(digits)
    order = rng.permutation(40 * times)
    copied = copied_rows(np.vstack([X] * times)[order])
    first = [np.flatnonzero(order % 40 == row)[0] for row in order % 40]
    np.testing.assert_array_equal(copied, first)


def test_holes_count_by_their_places(rng):
    X = rng.normal(size=(40, 8))
    X[rng.random((40, 8)) < 0.2] = np.nan
    assert np.unique(copied_rows(np.vstack([X, X]))).size == 40
    # Rows without values are not copies of one another.
    X[:20] = np.nan
    assert np.unique(copied_rows(np.vstack([X, X]))).size == 40 + 20


@pytest.mark.parametrize("p", [3, 6, 12])
@pytest.mark.parametrize("share", [0.5, 0.2, 0.05, 0.01])
def test_flags_are_samples(rng, p, share):
    assert copied_rows((rng.random((400, p)) < share).astype(float)) is None


@pytest.mark.parametrize("k", [2, 4])
def test_categories_and_answers_are_samples(rng, k):
    assert copied_rows(one_hot(rng.integers(0, 4, size=(400, k)))) is None
    answers = np.clip(np.round(rng.normal(size=(400, 1)) + rng.normal(size=(400, k))), -2, 2)
    assert copied_rows(answers) is None
    assert copied_rows(rng.poisson(0.05, size=(500, 10)).astype(float)) is None


def test_tables_that_repeat_a_few_rows_by_chance():
    iris, digits = load_iris().data, load_digits().data
    assert len(np.unique(iris, axis=0)) < len(iris)
    assert copied_rows(iris) is None
    assert copied_rows(digits) is None


def test_rows_of_one_value_are_no_copies(rng):
    X = rng.normal(size=(60, 5))
    X[:30] = 0.0
    assert copied_rows(X) is None


def test_real_duplicates(load_data):
    X = load_data("segment")["X"]
    assert np.unique(copied_rows(X)).size == len(np.unique(X, axis=0)) == 2310 - 224


# --- repeated measurements ---------------------------------------------------------------------


def repeated(rng, n, p, k, times, spread):
    """Samples with k factors, and as many measurements of each."""
    factors = 3 * rng.normal(size=(n, k)) @ rng.normal(size=(k, p)) / np.sqrt(max(k, 1))
    samples = factors + rng.normal(size=(n, p))
    X = np.repeat(samples, times, axis=0)
    return samples, X + spread * rng.normal(size=X.shape)


@pytest.mark.parametrize("spread", [0.05, 0.3])
@pytest.mark.parametrize(
    ("n", "p", "k", "times"), [(40, 60, 3, 3), (60, 100, 3, 4), (50, 40, 0, 2)]
)
def test_repeated_measurements_count_once(rng, n, p, k, times, spread):
    samples, X = repeated(rng, n, p, k, times, spread)
    np.testing.assert_array_equal(replicates(X), np.repeat(np.arange(n) * times, times))
    model = BayesianPCA().fit(X)
    assert (model.n_components_, model.n_samples_) == (k, n * times)
    assert f"repeated measurements of {n} samples" in str(model.status_)
    other = BayesianPCA().fit(samples)
    assert model.noise_variance_ == pytest.approx(other.noise_variance_, rel=0.1)
    assert model.transform(X).shape == (n * times, k)


def test_rows_of_hardly_any_cells_are_no_replicates(rng):
    X = rng.normal(size=(150, 12))
    X[rng.random(X.shape) < 0.9] = np.nan
    assert replicates(X) is None


def test_the_order_of_replicates_does_not_matter(rng):
    _, X = repeated(rng, 40, 60, 3, 3, 0.2)
    order = rng.permutation(120)
    first, mixed = replicates(X), replicates(X[order])
    same = np.equal.outer(first, first)
    np.testing.assert_array_equal(np.equal.outer(mixed, mixed), same[np.ix_(order, order)])


def test_a_sample_is_the_mean_of_its_known_cells(rng):
    _, X = repeated(rng, 40, 60, 3, 3, 0.2)
    X[1, 4] = np.nan
    means = means_of_rows(X, np.repeat(np.arange(40) * 3, 3))
    np.testing.assert_allclose(means[0, 4], (X[0, 4] + X[2, 4]) / 2)
    np.testing.assert_allclose(means[7], X[21:24].mean(axis=0))
    model = BayesianPCA().fit(X)
    assert model.n_components_ == 3


def test_known_noise_is_of_single_measurements(rng):
    """With known errors, nothing is averaged."""
    _, X = repeated(rng, 40, 60, 3, 3, 0.2)
    model = BayesianPCA().fit(X, error_std=np.full((1, 60), 1.0))
    assert "repeated measurements" not in str(model.status_)
    model = BayesianPCA(noise_variance=1.0).fit(X)
    assert "repeated measurements" not in str(model.status_)


@pytest.mark.parametrize("n_columns", [4, 5, 20, 100])
def test_independent_rows_are_no_replicates(n_columns):
    for seed in range(50):
        rng = np.random.default_rng(seed)
        R = rng.normal(size=(100, n_columns))
        assert replicates(R) is None
        assert replicates(rng.standard_t(3, size=R.shape)) is None
        assert (
            replicates(R + 3 * rng.normal(size=(100, 2)) @ rng.normal(size=(2, n_columns))) is None
        )


def test_smooth_noise_is_no_replicate(rng):
    x = np.arange(80)
    root = np.linalg.cholesky(np.exp(-0.5 * ((x[:, None] - x) / 5) ** 2) + 1e-9 * np.eye(80))
    assert replicates(rng.normal(size=(150, 80)) @ root.T) is None


@pytest.mark.parametrize("step", [0.05, 0.3, 1.0])
def test_a_series_is_no_replicate(rng, step):
    assert (
        replicates(step * rng.normal(size=(200, 50)).cumsum(axis=0) + rng.normal(size=50)) is None
    )


@pytest.mark.parametrize("name", ["metabolite", "tobamovirus", "segment", "glass", "letter"])
def test_near_neighbours_in_real_tables_are_no_replicates(load_data, name):
    assert replicates(load_data(name)["X"][:1000].astype(float)) is None
