"""New rows of point-estimated models, and nearly linear data, where functions vary far more than
the noise.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from bayespca import GPLVM, BayesianPCA
from bayespca.nonlinear import new_rows, posterior
from bayespca.nonlinear.kernels import Latent
from bayespca.nonlinear.new_rows import PointRows
from oracles import gplvm as oracle


def curve(n=40, noise=0.05, seed=0):
    rng = np.random.default_rng(seed)
    t = rng.uniform(-2, 2, n)
    X = np.stack([t, np.sin(2 * t), np.cos(t), t**2], axis=1)
    return X + noise * rng.normal(size=X.shape)


def fitted(kernel="squared-exponential", q=1, **options):
    X = curve()
    model = GPLVM(q, "map", kernel=kernel, max_iter=20, **options).fit(X[:30])
    new = X[30:].copy()
    new[0, 1] = new[3, :2] = np.nan
    return model.posterior_, new


@pytest.mark.parametrize("q", [1, 2])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize(
    "kernel", ["squared-exponential", "linear", "squared-exponential+linear+bias+white"]
)
def test_gradients(kernel, center, q):
    found, Y = fitted(kernel, q, center=center)
    rows, every = PointRows(found, Y), np.arange(len(Y))
    x = np.random.default_rng(1).normal(size=(len(Y), q)) * np.sqrt(found.prior)
    h = 1e-5 * np.sqrt(found.prior)
    for one in np.eye(q):
        up, down = (rows.at(x + sign * h * one, every)[0] for sign in (1, -1))
        np.testing.assert_allclose(
            rows.at(x, every)[1] @ one * (h @ one), (up - down) / 2, rtol=1e-4, atol=1e-6
        )


def test_places_and_densities_are_those_on_a_grid():
    found, Y = fitted()
    rows = PointRows(found, Y)
    modes = new_rows.placed(found, Y)
    grid = np.linspace(-8, 8, 8001) * np.sqrt(found.prior[0])
    for i in range(len(Y)):
        every = np.full(grid.size, i)
        logs = -rows.at(grid[:, None], every)[0]
        density = np.exp(logs - logs.max())
        density /= density.sum()
        mean = density @ grid
        std = np.sqrt(density @ (grid - mean) ** 2)
        step = grid[1] - grid[0]
        if modes.weights[:, i].max() > 0.99:
            np.testing.assert_allclose(modes.best.mean[i, 0], mean, atol=0.3 * std)
            np.testing.assert_allclose(np.sqrt(modes.best.variance[i, 0]), std, rtol=0.25)
        energy = -np.log(np.exp(logs - logs.max()).sum() * step) - logs.max()
        best = min(rows.descended(one)[1][i] for one in modes.places)
        np.testing.assert_allclose(best, energy, atol=0.7)
    assert (modes.weights.max(axis=0) > 0.99).sum() > len(Y) / 2


def plane(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(120, 2)) @ rng.normal(size=(2, 8)) * 10 + rng.normal(size=(120, 8))
    return X[:60], X[60:]


def test_predictions_for_nearly_linear_data_keep_their_digits():
    X, _ = plane(0)
    model = GPLVM(2, "map").fit(X)
    found = model.posterior_
    assert found.signal[0] > 1e6 * found.noise[0]
    new = np.random.default_rng(0).normal(size=(5, 2)) * np.sqrt(found.prior)
    noise = found.noise[0] / found.signal[0]
    expected = oracle.variances_of_points(new, found.mean, found.w, noise)
    _, std = model.inverse_transform(new, return_std=True)
    np.testing.assert_allclose(std[:, 0] ** 2 / found.signal[0], expected, rtol=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_new_rows_of_nearly_linear_data_are_filled_as_by_a_plane(seed):
    X, new = plane(seed)
    holes = np.random.default_rng(seed).random(new.shape) < 0.15
    H = np.where(holes, np.nan, new)
    model, linear = GPLVM(2, "map").fit(X), BayesianPCA(noise="isotropic").fit(X)
    filled, std = model.impute(H, return_std=True)
    error, by_plane = ((one - new)[holes] for one in (filled, linear.impute(H)))
    assert np.sqrt(np.mean(error**2)) < 1.1 * np.sqrt(np.mean(by_plane**2))
    # Point estimates take some of the noise for signal, so intervals are somewhat short.
    assert 0.85 < (np.abs(error) < 1.96 * std[holes]).mean() <= 1
    assert 0.8 < np.median(std[holes]) < 1.6


def test_averages_over_draws_are_exact_for_straight_lines():
    found, _ = fitted("linear", 2)
    latent = Latent(found.mean[:4], np.tile(0.3 * found.prior, (4, 1)))
    mean, spread = posterior.averaged(found, latent)
    expected = oracle.averaged(latent.mean, latent.variance, partial(posterior.predicted, found))
    np.testing.assert_allclose(mean, expected[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(spread, expected[1], rtol=1e-9)


@pytest.mark.parametrize("q", [1, 3, 16, 40])
def test_draws_have_unit_covariance_for_any_number_of_dimensions(q):
    z = posterior._unit_draws(q)
    np.testing.assert_allclose(z.T @ z / len(z), np.eye(q), atol=1e-10)
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-12)
