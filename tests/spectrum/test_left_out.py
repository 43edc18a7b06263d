"""Strengths and probabilities of components that were not kept."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

from bayespca import BayesianPCA
from bayespca.lowrank import imputing
from bayespca.spectrum import Spectrum, posterior_of_rank
from bayespca.spectrum.left_out import below_the_limit, left_out, strengths
from bayespca.spectrum.strengths import MEAN, SCALES


@pytest.mark.parametrize("shape", [(20, 300), (300, 20), (50.0, 49.5)])
def test_strengths_invert_what_large_matrices_show(shape):
    p, n = shape
    true = np.sqrt(p / n) * np.array([30.0, 5.0, 1.5])
    gamma = np.sqrt(4.0 * n * (1 + true) * (1 + p / (n * true)))
    np.testing.assert_allclose(strengths(gamma, 4.0, shape), true, rtol=1e-10)
    # Below the detection limit nothing is known.
    np.testing.assert_allclose(strengths(gamma[-1:] / 3, 4.0, shape), np.sqrt(p / n), rtol=1e-7)


def test_what_is_below_the_limit_is_an_integral_over_the_prior():
    density = lambda u: 1 / (1 + (u / SCALES[0]) ** 2)  # noqa: E731
    below = quad(lambda u: u * density(u), 0, 1)[0]
    assert below_the_limit() == pytest.approx(MEAN * below / quad(density, 1, np.inf)[0], rel=1e-8)


def spectrum(sizes, n=200, p=20, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, len(sizes))) * np.sqrt(sizes) @ np.eye(len(sizes), p)
    gamma = np.linalg.svd(X + rng.normal(size=(n, p)), compute_uv=False)
    return Spectrum(gamma, (p, n))


def test_what_a_cap_leaves_out_is_there():
    shown = spectrum([6.0, 3.0, 2.0])
    found = left_out(shown, posterior_of_rank(shown), 1, 1.0)
    np.testing.assert_allclose(found[1:3, 0], [3.0, 2.0], rtol=0.25)
    np.testing.assert_allclose(found[1:3, 1], 1.0, atol=1e-3)
    # In units of another noise.
    other = left_out(shown, posterior_of_rank(shown), 1, 4.0)
    np.testing.assert_allclose(other, found * [0.25, 1], rtol=1e-12)


def test_noise_alone_leaves_little_out():
    limit, shown = np.sqrt(20 / 200), [spectrum([], seed=seed) for seed in range(10)]
    found = [left_out(one, posterior_of_rank(one), 0, 1.0) for one in shown]
    first = np.mean([pairs[0] for pairs in found], axis=0)
    assert first == pytest.approx([below_the_limit() * limit, 1.0], rel=0.1)
    assert np.mean([pairs[1:].prod(axis=1).sum() for pairs in found]) < 0.7 * limit


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_cells_without_noise_are_held_though_a_component_is_left_out(share):
    """A cap of 1 leaves out the second component, and intervals must allow for it."""
    inside, without = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        W = np.linalg.qr(rng.normal(size=(20, 2)))[0].T
        signal = rng.normal(size=(170, 2)) * [4.0, 1.5] @ W
        X = signal + rng.normal(size=signal.shape)
        X[:150][rng.random((150, 20)) < share] = np.nan
        X[150:][rng.random((20, 20)) < 0.5] = np.nan
        model = BayesianPCA(noise="isotropic", n_components=1).fit(X[:150])
        new = slice(150, 170)
        holes = np.isnan(X[new])
        filled, std = model.impute(X[new], return_std="mean")
        error = np.abs(filled - signal[new])[holes]
        inside.append(np.mean(error < 1.959964 * std[holes]))
        narrow = imputing.impute(model.general_posterior(), X[new], noise=False)[1]
        without.append(np.mean(error < 1.959964 * narrow[holes]))
    assert 0.92 <= np.mean(inside) <= 0.98
    assert np.mean(without) < 0.85
