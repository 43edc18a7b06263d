"""Noise variances and closed forms of many spectra at once are the same as one by one."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.spectrum import Spectrum
from bayespca.spectrum.noise import Objective, minimise
from bayespca.spectrum.noises import noises, noises_near
from bayespca.spectrum.priors import empirical_vb
from bayespca.spectrum.solving import solve
from bayespca.spectrum.spectra import Spectra, closed_forms


def gammas(seed, p):
    """Singular values of a random matrix with uneven noise of features, and an M for it."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 150))
    k = int(rng.integers(0, p))
    noise = 10 ** rng.uniform(-2, 1) * np.exp(rng.uniform(0, 2) * rng.normal(size=p))
    scores = rng.normal(size=(n, k)) * np.exp(-np.arange(k) / rng.uniform(1, 30))
    X = scores @ rng.normal(size=(k, p)) + noise * rng.normal(size=(n, p))
    return np.linalg.svd(X - X.mean(axis=0), compute_uv=False), n - 1 - rng.random()


def spectra_of(p, seeds):
    """Many spectra as one `Spectra`, and as a list of objectives."""
    rng = np.random.default_rng(p)
    found = [gammas(1000 * p + seed, p) for seed in seeds]
    M = np.array([samples for _, samples in found])
    squares = np.zeros((len(found), p))
    for row, (gamma, _) in zip(squares, found, strict=True):
        row[: gamma.size] = gamma**2
    caps = np.minimum(rng.integers(1, 80, len(M)), np.minimum(p, M).astype(int))
    least = np.where(np.arange(len(M)) % 3, 1e-9, 10 ** rng.uniform(-3, 1, len(M)))
    one_by_one = [
        Objective(
            Spectrum(gamma[: int(min(p, m))], (p, m), float(gamma @ gamma), n_values=p),
            empirical_vb(p, m),
            int(cap),
            float(floor),
        )
        for (gamma, m), cap, floor in zip(found, caps, least, strict=True)
    ]
    return Spectra(p, M, squares, caps, least), one_by_one


@pytest.mark.parametrize("p", [1, 2, 5, 12, 30, 60])
def test_the_same_as_one_by_one(p):
    spectra, one_by_one = spectra_of(p, range(40))
    found = noises(spectra)
    expected = [minimise(one, other_ranks=False).noise_variance for one in one_by_one]
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("p", [1, 5, 30])
def test_closed_forms_are_those_of_solve(p):
    spectra, one_by_one = spectra_of(p, range(30))
    forms = closed_forms(spectra, noises(spectra))
    for i, one in enumerate(one_by_one):
        found, s = forms.of(i), float(forms.noise[i])
        known = solve(one.spectrum, max_rank=one.max_rank, noise_variance=s)
        k = known.rank
        assert forms.rank[i] == k
        assert forms.free_energy[i] == pytest.approx(known.free_energy, rel=1e-11, abs=1e-8)
        assert forms.threshold[i] == pytest.approx(known.threshold, rel=1e-12)
        assert found.gamma * found.shrinkage == pytest.approx(known.shrunk_singular_values)
        for ours, theirs in zip(
            vars(found.moments).values(), vars(known.moments).values(), strict=True
        ):
            assert ours == pytest.approx(theirs[:k], rel=1e-9)
        both = known.moments
        ratios = (both.prior_variance_a / np.where(both.variance_a > 0, both.variance_a, 1))[:k]
        assert found.latent_cost == pytest.approx(0.5 * np.log(ratios).sum(), rel=1e-9)
        ratios = (both.prior_variance_b / np.where(both.variance_b > 0, both.variance_b, 1))[:k]
        assert found.loading_cost == pytest.approx(0.5 * p * np.log(ratios).sum(), rel=1e-9)


def test_of_nothing():
    zeros = Spectra(3, np.array([7.5]), np.zeros((1, 3)), np.array([3]), np.array([1e-6]))
    assert noises(zeros) == pytest.approx([1e-6])
    assert closed_forms(zeros, noises(zeros)).rank.tolist() == [0]


@pytest.mark.parametrize("p", [1, 5, 30])
def test_a_noise_that_is_known_is_never_left_for_a_worse_one(p):
    spectra, _ = spectra_of(p, range(40))
    best = noises(spectra)
    lowest = closed_forms(spectra, best).free_energy
    for known in (best, 1.3 * best, 0.5 * best, np.full(len(best), np.inf)):
        allowed = np.maximum(known, spectra.least)
        found = closed_forms(spectra, noises_near(spectra, known)).free_energy
        if np.isfinite(known).all():
            assert (found <= closed_forms(spectra, allowed).free_energy + 1e-8).all()
        assert (found >= lowest - 1e-8 * np.abs(lowest)).all()
    assert noises_near(spectra, best) == pytest.approx(best, rel=1e-9)
