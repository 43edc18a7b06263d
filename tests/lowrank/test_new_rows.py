"""Scores of new rows whose prior variances are uncertain, against written-out sums."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca import BayesianPCA
from bayespca.lowrank.axes import WEIGHTS, Axes, variances_along
from bayespca.lowrank.new_rows import NewRows, more_variance
from bayespca.lowrank.recognising import FEW_CELLS, digests_of_few

W = np.array([[1.0, 0.3], [0.2, 1.0], [0.5, -0.4]])
S2, D = 0.7, np.array([3.0, 1.5])


def row_given(variances, x):
    """Mean and covariance of scores a in x = Wa + noise, under the prior N(0, diag(variances))."""
    cov = np.linalg.inv(W.T @ W / S2 + np.diag(1 / variances))
    return cov @ W.T @ x / S2, cov


def test_one_variance_that_is_not_known_changes_scores_as_if_each_were_tried():
    x, T, points = np.array([1.0, -2.0, 0.5]), np.array([0.4, -0.9]), np.geomspace(0.5, 9.0, 9)
    mean, cov = row_given(D, x)
    variances = np.vstack([points / D[0], np.ones(9)])
    known = NewRows(D, variances, np.zeros((2, 2)))
    found = more_variance(cov[None], mean[None], (mean - T)[None], known)[0]
    tried = [row_given(np.array([first, D[1]]), x) for first in points]
    squares = [(m - T) ** 2 + np.diag(C - cov) for m, C in tried]
    np.testing.assert_allclose(found, WEIGHTS @ np.array(squares), rtol=1e-10)


def test_rows_with_one_diagonal_covariance_are_those_with_matrices():
    rng = np.random.default_rng(0)
    own, mean, off = rng.random(3), rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
    known = NewRows(np.ones(3), rng.random((3, 9)), 0.1 * (1 - np.eye(3)))
    alone = more_variance(own, mean, off, known)
    np.testing.assert_allclose(more_variance(np.diag(own)[None], mean, off, known), alone)


def test_scores_that_may_go_together_move_each_other():
    """To first order in a small covariance Δ₁₂, against draws of it."""
    rng, x, size = np.random.default_rng(1), np.array([1.0, -2.0, 0.5]), 0.05
    mean, cov = row_given(D, x)
    between = size**2 * (1 - np.eye(2)) / D.prod()
    known = NewRows(D, np.ones((2, 9)), between)
    found = more_variance(np.diag(np.diag(cov))[None], mean[None], np.zeros((1, 2)), known)[0]
    # With a diagonal posterior covariance the two terms do not mix.
    moved = [np.diag(cov) * (e / D.prod()) * mean[::-1] for e in size * rng.normal(size=20_000)]
    np.testing.assert_allclose(found, np.square(moved).mean(axis=0), rtol=0.03)


def test_new_rows_vary_more_along_the_weaker_of_two_axes_than_those_fitted():
    """Variances of the population along axes that 30 rows of 2 columns determine only roughly."""
    rng, n, true = np.random.default_rng(2), 30, np.array([16.0, 6.0])
    seen, along = [], []
    for _ in range(4000):
        X = rng.normal(size=(n, 2)) * np.sqrt(true)
        found, axes = np.linalg.eigh(X.T @ X / n)
        seen.append(found[::-1])
        along.append((axes**2 * true[:, None]).sum(axis=0)[::-1])
    usual = np.mean(seen, axis=0)
    axes = Axes(np.eye(2), usual, np.empty((0, 2)), np.full(2, float(n)), float(n))
    expected = np.median(variances_along(axes), axis=1)
    assert np.mean(along, axis=0)[1] > 1.1 * usual[1]
    np.testing.assert_allclose(expected, np.mean(along, axis=0), rtol=0.03)


@pytest.mark.parametrize("holes", [0.0, 0.1])
def test_scores_of_rows_that_were_fitted_and_of_new_ones_hold_what_they_promise(holes):
    """In 40×90 data, directions lean towards the noise of the rows they were fitted to."""
    inside = {"fitted": [], "new": []}
    for seed in range(12):
        rng = np.random.default_rng((seed, 5))
        axes = np.linalg.qr(rng.normal(size=(90, 3)))[0].T
        signal = (rng.normal(size=(140, 3)) * np.sqrt([30.0, 23.0, 15.0])) @ axes
        X = signal + rng.normal(size=signal.shape)
        X[rng.random(X.shape) < holes] = np.nan
        model = BayesianPCA(noise="isotropic").fit(X[:40])
        for name, rows in (("fitted", slice(40)), ("new", slice(40, None))):
            T, std = model.transform(X[rows], return_std=True)
            truth = (signal[rows] - model.mean_) @ model.components_.T
            inside[name].append(np.mean(np.abs(T - truth) < 1.96 * std))
    assert {k: 0.935 < np.mean(v) < 0.96 for k, v in inside.items()} == dict.fromkeys(inside, True)


@pytest.mark.parametrize("unit", [1e-120, 1e120])
def test_standard_deviations_have_the_units_of_the_data(unit):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 2)) @ rng.normal(size=(2, 8)) * 3 + rng.normal(size=(30, 8))
    new = np.where(rng.random((5, 8)) < 0.3, np.nan, rng.normal(size=(5, 8)))
    one, other = (BayesianPCA().fit(X * size) for size in (1.0, unit))
    for rows in (X + 1, new):
        std, scaled = (
            model.transform(rows * size, return_std=True)[1]
            for model, size in ((one, 1.0), (other, unit))
        )
        np.testing.assert_allclose(scaled / unit, std, rtol=1e-6)


def test_rows_of_large_tables_are_not_recognised():
    assert digests_of_few(np.zeros((FEW_CELLS // 10, 10))).size == FEW_CELLS // 10
    assert not digests_of_few(np.zeros((FEW_CELLS // 10 + 1, 10))).size
