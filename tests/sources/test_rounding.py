"""Precision of numbers that repeat."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca import BayesianPCA
from bayespca.sources.rounding import rounding_variances, with_known_numbers


def of_column(values):
    return rounding_variances(np.asarray(values, dtype=np.float64)[:, None])[0]


@pytest.mark.parametrize("step", [1.0, 0.01, 2.5])
def test_equally_likely_numbers_on_a_grid(step):
    """s²·exp(−2H) with s² = (D² − 1)·δ²/12 and H = log D."""
    D = 20
    found = of_column(step * np.tile(np.arange(D), 10))
    assert found == pytest.approx(step**2 / 12 * (1 - 1 / D**2), rel=1e-12)


def test_rounded_normal_numbers():
    x = np.round(5 * np.random.default_rng(0).normal(size=1000))
    assert 1 / 18 < of_column(x) < 1 / 12


def test_numbers_that_come_once_are_exact():
    x = np.random.default_rng(0).normal(size=300)
    assert of_column(x) == 0
    x[:100] = 0
    assert of_column(x) == 0


@pytest.mark.parametrize("rare", [[10.0], [4.0, 10.0], [np.pi, 4.0, 10.0]])
def test_a_column_that_is_nearly_always_the_same(rare):
    """Nearly all its variance is unpredictable, for gaps of any size, on a grid or not."""
    x = np.zeros(500)
    x[: len(rare)] = rare
    assert 0.8 * x.var() < of_column(x) < x.var()


def test_many_zeros_among_numbers_on_a_fine_grid():
    """The non-zero numbers may be exact."""
    rng = np.random.default_rng(0)
    x = np.where(rng.random(500) < 0.8, 0.0, np.round(rng.random(500), 2))
    assert of_column(x) == pytest.approx(0.01**2 / 12, rel=1e-9)


def test_holes_and_units():
    rng = np.random.default_rng(0)
    x = rng.poisson(1.0, 200).astype(float)
    plain, holes = of_column(x), np.insert(x, [0, 50, 200], np.nan)
    assert of_column(holes) == pytest.approx(plain, rel=1e-12)
    assert of_column(1e6 * x + 3) == pytest.approx(1e12 * plain, rel=1e-9)
    assert of_column(np.full(5, np.nan)) == of_column(np.ones(5)) == 0


@pytest.mark.parametrize("holes", [False, True])
def test_zeros_are_no_evidence(holes):
    """In unstructured data with 95 % zeros, no noise model may gain from the zeros."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((300, 20)) < 0.05, rng.exponential(size=(300, 20)), 0.0)
    if holes:
        X[rng.random(X.shape) < 0.1] = np.nan
    found = BayesianPCA().fit(X)
    assert found.n_components_ == 0
    assert max(found.noise_evidence_.values()) < X.size


@pytest.mark.parametrize("rare", [1, 3, 200])
def test_rare_numbers_are_looked_for_in_all_rows(rare):
    """Whatever the order of the rows: a column that seems to be constant has no exact numbers."""
    rng, found = np.random.default_rng(0), []
    x = np.zeros((6000, 1))
    x[:rare] = 1.0
    for _ in range(4):
        found.append(rounding_variances(rng.permutation(x)))
    assert found[0] > 0
    assert found == pytest.approx(found[0] * np.ones((4, 1)), rel=1e-9)


def test_holes_of_coarse_columns_get_numbers_that_occur():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 5, 200), rng.normal(size=200), np.repeat([0.0, 7.0], 100)])
    holes = rng.random(X.shape) < 0.2
    Y = np.where(holes, np.nan, X)
    drawn = np.where(holes, rng.normal(2.0, 3.0, X.shape), X)
    found = with_known_numbers(drawn, Y)
    np.testing.assert_array_equal(found[~holes], X[~holes])
    np.testing.assert_array_equal(found[:, 1], drawn[:, 1])
    for j in (0, 2):
        known = np.unique(X[:, j])
        nearest = np.abs(drawn[:, j, None] - known).argmin(axis=1)
        np.testing.assert_array_equal(found[:, j], known[nearest])
