"""Weighted rows: a fractional number of samples, and a lower bound on the noise."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.spectrum import Spectrum, solve
from oracles.weighted import least_free_energy


def weighted_spectrum(X, r):
    mean = r @ X / r.sum()
    gamma = np.linalg.svd(np.sqrt(r)[:, None] * (X - mean), compute_uv=False)
    M, p = r.sum() - 1, X.shape[1]
    return Spectrum(gamma[: int(min(p, M))], (p, M), float(gamma @ gamma), n_values=p)


@pytest.mark.parametrize("strength", [0.0, 10.0])
def test_the_closed_form_is_the_minimum_over_weighted_rows(strength):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9, 3)) + strength * np.outer(rng.normal(size=9), [1.0, -1.0, 0.5])
    r = rng.uniform(0.3, 1.0, size=9)
    found = solve(weighted_spectrum(X, r), max_rank=1)
    assert found.rank == (strength > 0)
    # If the component is dropped, its prior variance goes to zero and the optimiser stops early.
    assert found.free_energy == pytest.approx(least_free_energy(X, r, rng), abs=1e-4)


def test_rows_that_count_twice_are_rows_that_are_there_twice():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20, 4)) + 3 * rng.normal(size=(20, 1))
    twice = np.vstack([X, X])
    gamma = np.linalg.svd(twice - twice.mean(axis=0), compute_uv=False)
    theirs = solve(Spectrum(gamma, (4, 39)))
    ours = solve(weighted_spectrum(X, np.full(20, 2.0)))
    assert ours.free_energy == pytest.approx(theirs.free_energy, rel=1e-12)
    assert ours.noise_variance == pytest.approx(theirs.noise_variance, rel=1e-12)


@pytest.mark.parametrize("M", [0.2, 0.9, 1.4, 2.6])
def test_fewer_rows_than_singular_values(M):
    """Everything is noise; with less than one sample there can be no component."""
    found = solve(Spectrum(np.ones(int(M)), (6, M), 5.0, n_values=6))
    assert found.rank == 0
    assert found.noise_variance == pytest.approx(5.0 / (6 * M), rel=1e-12)


@pytest.mark.parametrize("shape", [(3, 0), (3, -1.5), (2.5, 3), (3, np.inf), (3,), (0, 2.5)])
def test_shapes_that_are_none(shape):
    with pytest.raises(ValueError, match="shape must be two whole numbers"):
        Spectrum([], shape)


@pytest.mark.parametrize("method", ["evb", "ml"])
def test_the_noise_is_held_above_its_floor(method):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(30, 5)) + 5 * rng.normal(size=(30, 1))
    spectrum = Spectrum(np.linalg.svd(X, compute_uv=False), (5, 30))
    options = {"max_rank": 1}
    free = solve(spectrum, method, **options)
    below = solve(spectrum, method, least_noise=0.5 * free.noise_variance, **options)
    held = solve(spectrum, method, least_noise=2 * free.noise_variance, **options)
    given = solve(spectrum, method, noise_variance=2 * free.noise_variance, **options)
    assert below.noise_variance == free.noise_variance
    assert held.noise_variance == pytest.approx(given.noise_variance, rel=1e-12)
    assert held.free_energy == pytest.approx(given.free_energy, rel=1e-12)


def test_other_ranks_may_be_left_out():
    X = np.random.default_rng(3).normal(size=(40, 6)) * [4, 2, 1, 1, 1, 1]
    spectrum = Spectrum(np.linalg.svd(X, compute_uv=False), (6, 40))
    full, short = solve(spectrum), solve(spectrum, other_ranks=False)
    assert (short.noise_variance, short.free_energy) == (full.noise_variance, full.free_energy)
    assert np.exp(-short.rank_free_energies).tolist() == np.eye(7)[full.rank].tolist()


def test_zeros_have_the_least_noise_allowed():
    assert solve(Spectrum([0.0], (4, 1.5)), least_noise=0.3).noise_variance == pytest.approx(0.3)


def test_the_minimum_at_the_floor_is_found():
    """The least noise is best; with one component F rises from there, but falls again later."""
    spectrum = Spectrum([1.0], (6, 1.238), 1.0, n_values=6)
    found = solve(spectrum, least_noise=1e-10)
    given = solve(spectrum, noise_variance=1e-10)
    assert found.noise_variance == pytest.approx(1e-10)
    assert found.rank == 1
    assert found.free_energy == pytest.approx(given.free_energy, rel=1e-12)
    assert found.free_energy < solve(spectrum, max_rank=0).free_energy
