"""Distances of components from the axes of the population, against many data sets."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ive
from tests.oracles.axes import information_of_angle, squared_distances

from bayespca import BayesianPCA, VariationalPCA
from bayespca.lowrank.axes import Axes, standard_deviations, turns
from bayespca.lowrank.intervals import _counts


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
