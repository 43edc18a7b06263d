"""Noise variances of many spectra at once are those that are found one by one."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.spectrum import Spectrum
from bayespca.spectrum.noise import Objective, minimise
from bayespca.spectrum.noises import noises
from bayespca.spectrum.priors import empirical_vb
from bayespca.spectrum.solving import solve


def objective(seed):
    """Any shape, a number of samples that is not whole, noise of very different features."""
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(3, 150)), int(rng.integers(2, 60))
    k = int(rng.integers(0, p))
    noise = 10 ** rng.uniform(-2, 1) * np.exp(rng.uniform(0, 2) * rng.normal(size=p))
    scores = rng.normal(size=(n, k)) * np.exp(-np.arange(k) / rng.uniform(1, 30))
    X = scores @ rng.normal(size=(k, p)) + noise * rng.normal(size=(n, p))
    gamma, M = np.linalg.svd(X - X.mean(axis=0), compute_uv=False), n - 1 - rng.random()
    named = gamma[: int(min(p, M))]
    spectrum = Spectrum(named, (p, M), float(gamma @ gamma), n_values=p)
    least = 1e-9 if seed % 3 else float(10 ** rng.uniform(-3, 1))
    most = min(int(rng.integers(1, 80)), spectrum.full_rank)
    return Objective(spectrum, empirical_vb(p, M), most, least)


def test_the_same_as_one_by_one():
    objectives = [objective(seed) for seed in range(150)]
    found, energies = noises(objectives)
    for one, noise, energy in zip(objectives, found, energies, strict=True):
        expected = minimise(one, other_ranks=False).noise_variance
        assert noise == pytest.approx(expected, rel=1e-9)
        at_noise = solve(one.spectrum, max_rank=one.max_rank, noise_variance=float(noise))
        assert energy == pytest.approx(at_noise.free_energy, rel=1e-11, abs=1e-8)


def test_of_nothing():
    zeros = Spectrum(np.zeros(3), (3, 7.5), 0.0)
    found, _ = noises([Objective(zeros, empirical_vb(3, 7.5), 3, 1e-6)])
    assert found == pytest.approx([1e-6])
    assert noises([])[0].size == 0
