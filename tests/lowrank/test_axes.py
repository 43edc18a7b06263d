"""Distances of components from the axes of the population, against many data sets."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ive
from tests.oracles.axes import information_of_angle, squared_distances

from bayespca import BayesianPCA, VariationalPCA
from bayespca.lowrank.axes import (
    WEIGHTS,
    Axes,
    NewRows,
    more_variance,
    standard_deviations,
    turns,
    variances_along,
)
from bayespca.lowrank.intervals import _counts
from bayespca.lowrank.recognising import FEW_CELLS, digests_of_few


def axes(strengths, n, p, *, counts=None, left_out=()):
    counts = np.full(p, float(n)) if counts is None else counts
    pairs = np.reshape(np.array(left_out, dtype=float), (-1, 2))
    return Axes(np.eye(len(strengths), p), np.array(strengths), pairs, counts, float(n))


@pytest.mark.parametrize(
    ("strengths", "n", "p"),
    [((8.0, 3.0, 1.0), 300, 20), ((20.0, 8.0), 40, 60), ((2.0, 1.2), 500, 10)],
)
def test_axes_of_simulated_data_are_as_far_off_as_they_say(strengths, n, p):
    """Errors out of the subspace and within it match those of simulated data."""
    k = len(strengths)
    variance = standard_deviations(axes(strengths, n, p)) ** 2
    truth = squared_distances(strengths, n, p, sets=600)
    within = ~np.eye(k, dtype=bool)
    np.testing.assert_allclose(variance[:, k:].sum(1), truth[:, k:].sum(1), rtol=0.08)
    np.testing.assert_allclose(variance[:, :k][within], truth[:, :k][within], rtol=0.25)


def test_equal_strengths_tell_nothing_of_the_angle():
    found = turns(np.array([3.0]), np.array([3.0, 3.0001]), axes((3.0,), 100, 5))
    np.testing.assert_allclose(found, 0.5, atol=1e-3)


@pytest.mark.parametrize("share", [1.0, 0.6, 0.3])
def test_rows_with_holes_tell_the_information_of_their_likelihood(share):
    rng = np.random.default_rng(0)
    n, p, strengths = 200, 150, np.array([30.0, 12.0, 6.0])
    W = np.linalg.qr(rng.normal(size=(p, 3)))[0].T
    seen = rng.random((n, p)) < share
    known = information_of_angle(strengths, (0, 1), seen, W)
    given = axes(strengths, n, p, counts=np.full(p, n * share))
    # ⟨sin²θ⟩ is 1/information if the information is large.
    found = 1 / turns(strengths[:1], strengths[1:2], given)[0, 0]
    assert found == pytest.approx(known, rel=0.06)


@pytest.mark.parametrize(("p", "share"), [(12, 0.5), (12, 0.7), (20, 0.3), (30, 0.5)])
def test_few_cells_of_a_row_tell_less_than_their_share(p, share):
    """Ignoring this would overstate the information by 6 to 25 %."""
    strengths, n, total = np.array([14.0, 7.0, 4.0]), 200, 0.0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        W = np.linalg.qr(rng.normal(size=(p, 3)))[0].T
        total += information_of_angle(strengths, (0, 1), rng.random((n, p)) < share, W) / (10 * n)
    # With so many rows, strengths are certain.
    given = axes(strengths, 1e6, p, counts=np.full(p, 1e6 * share))
    found = 1e-6 / turns(strengths[:1], strengths[1:2], given)[0, 0]
    assert found == pytest.approx(total, rel=0.06)


def test_holes_make_strengths_and_with_them_angles_uncertain():
    """Agrees with an average over drawn strengths; a stronger component is better known."""
    rng, both, n, p, share = np.random.default_rng(0), np.array([8.0, 5.0]), 30, 12, 0.5
    given = axes(both, n, p, counts=np.full(p, n * share))

    def known(strengths):
        return given.share * strengths / (1 + given.share * strengths)

    errors = np.sqrt(2 / n * (1 / known(both) ** 2 - (1 + 1 / both) ** 2))
    z = rng.normal(size=(20000, 2))
    size = np.minimum(np.abs(z) * np.log1p(errors), np.log1p(np.abs(z) * errors))
    moved = both * np.exp(np.sign(z) * size)
    certain = known(np.maximum(moved, both)).prod(axis=1)
    kappa = 2 * n * certain * np.sinh(np.log(moved[:, 0] / moved[:, 1]) / 2) ** 2
    expected = np.mean(0.5 * (1 - ive(1, kappa / 2) / ive(0, kappa / 2)))
    found = turns(both[:1], both[1:], given)[0, 0]
    assert found == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("weak", [1e-8, 1e-6, 1e-4, 1e-2])
@pytest.mark.parametrize("strong", [1e3, 1e7])
def test_what_cannot_be_seen_does_not_turn_what_is_far_stronger(weak, strong):
    """With holes its strength might be 0.1, but never that of the stronger component."""
    given = axes((strong,), 1500, 18, counts=np.full(18, 1350.0))
    found = turns(np.array([strong]), np.array([weak]), given)[0, 0]
    assert found < 1 / strong


def test_what_is_hardly_there_does_not_turn_a_strong_axis():
    given = axes((200.0,), 150, 8, counts=np.full(8, 80.0), left_out=[(0.1, 1.0), (0.8, 1.0)])
    assert standard_deviations(given)[0, 1] < 0.02


def test_what_was_left_out_turns_an_axis():
    alone, beside = axes((5.0,), 100, 10), axes((5.0,), 100, 10, left_out=[(3.0, 0.5)])
    more = standard_deviations(beside)[0, 1:] ** 2 - standard_deviations(alone)[0, 1:] ** 2
    turn = turns(np.array([5.0]), np.array([3.0]), alone)[0, 0]
    np.testing.assert_allclose(more, 0.5 * turn / 10, rtol=1e-10)


@pytest.mark.parametrize("estimator", [BayesianPCA(noise="isotropic"), VariationalPCA()])
def test_the_precision_of_a_mean_counts_the_cells_of_its_column(estimator):
    rng = np.random.default_rng(1)
    X = 3 * rng.normal(size=(80, 2)) @ rng.normal(size=(2, 8)) + rng.normal(size=(80, 8))
    X[rng.random(X.shape) < np.linspace(0.05, 0.6, 8)] = np.nan
    model = estimator.fit(X)
    counts = (~np.isnan(X)).sum(axis=0)
    np.testing.assert_allclose(_counts(model.posterior_, 80.0), counts, rtol=0.03)


def test_intervals_hold_the_axes_where_two_are_close():
    """Without rotations within the subspace, intervals would hold fewer than 70 %."""
    inside = []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        W = np.linalg.qr(rng.normal(size=(12, 2)))[0].T
        X = rng.normal(size=(120, 2)) * [3.0, 2.3] @ W + rng.normal(size=(120, 12))
        model = BayesianPCA(n_components="evb", noise="isotropic").fit(X)
        signs = np.sign(np.sum(model.components_ * W, axis=1))[:, None]
        error = np.abs(model.components_ - signs * W)
        inside.append(np.mean(error < 1.959964 * model.components_std_))
    assert 0.92 <= np.mean(inside) <= 0.98


def test_data_without_noise_and_constant_columns_have_standard_deviations():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(30, 2)) @ rng.normal(size=(2, 6))
    X[:, 3] = 7.0
    std = BayesianPCA(noise="isotropic").fit(X).components_std_
    assert np.isfinite(std).all()
    assert (std[:, 3] == 0).all()


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
