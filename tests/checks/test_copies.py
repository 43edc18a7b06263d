"""Copies of rows differ from rows that are equal by chance."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris

from bayespca.checks.copies import copied_rows, replicates


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


@pytest.mark.parametrize("n_columns", [15, 60, 300])
def test_replicates(rng, n_columns):
    X = np.repeat(rng.normal(size=(40, n_columns)), 2, axis=0)
    again = X + 0.1 * rng.normal(size=X.shape)
    np.testing.assert_array_equal(replicates(again, n_columns), np.arange(80))


@pytest.mark.parametrize("n_columns", [2, 5, 20, 100])
def test_independent_rows_are_no_replicates(n_columns):
    for seed in range(50):
        rng = np.random.default_rng(seed)
        R = rng.normal(size=(100, n_columns))
        assert not replicates(R, n_columns).size
        assert not replicates(rng.standard_t(3, size=R.shape), n_columns).size


def test_smooth_noise_is_no_replicate(rng):
    x = np.arange(80)
    root = np.linalg.cholesky(np.exp(-0.5 * ((x[:, None] - x) / 5) ** 2) + 1e-9 * np.eye(80))
    assert not replicates(rng.normal(size=(150, 80)) @ root.T, 80).size
