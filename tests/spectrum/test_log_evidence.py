"""Evidences of numbers of components, comparable between tables divided by variances."""

import numpy as np
import pytest
from scipy.special import gammaln

from bayespca.datasets import low_rank, noisy
from bayespca.spectrum import Spectrum, posterior_of_rank
from bayespca.spectrum.rank_posterior import log_evidence, n_sure


def singular_values(X):
    n, p = X.shape
    return Spectrum(np.linalg.svd(X - X.mean(axis=0), compute_uv=False), (p, n - 1))


def evidence(spectrum, rank, **options):
    return log_evidence(spectrum, rank, **options)[0]


def test_evidences_differ_as_those_of_the_posterior():
    spectrum = singular_values(noisy("white", 100, 15, 3, strength=0.5, random_state=0).X)
    posterior = posterior_of_rank(spectrum)
    ranks = np.flatnonzero(posterior.detectable > 1e-3)
    found = np.array([evidence(spectrum, int(k)) for k in ranks])
    differences = found - found[0]
    expected = posterior.log_evidence[ranks] - posterior.log_evidence[ranks[0]]
    assert ranks.size > 1
    # A window of numbers shares one grid of strengths, and its directions make room in turn.
    np.testing.assert_allclose(differences, expected, atol=0.2)


def test_evidences_are_of_the_data_in_their_units():
    """A density of LM numbers, twice as large, is 2^(−LM) times as high."""
    spectrum = singular_values(low_rank(60, 8, 2, random_state=1).X)
    (L, M), gamma = spectrum.shape, spectrum.singular_values * spectrum.scale
    once, twice = (evidence(Spectrum(c * gamma, (L, M)), 2) for c in (1.0, 2.0))
    assert once - twice == pytest.approx(L * M * np.log(2), rel=1e-9)


def test_evidence_without_components_is_that_of_normal_numbers():
    """Known in closed form: Γ(LM/2)·π^(−LM/2)·(sum of squares)^(−LM/2), with density 1/σ²."""
    X = np.random.default_rng(0).standard_normal((40, 6))
    spectrum = singular_values(X)
    cells, squares = 6 * 39, ((X - X.mean(axis=0)) ** 2).sum()
    exact = gammaln(cells / 2) - cells / 2 * np.log(np.pi * squares)
    assert evidence(spectrum, 0) == pytest.approx(exact, abs=0.01)


def test_how_many_components_are_certain_changes_evidences_by_a_constant():
    """The spectra are those of one table that was divided by different variances of columns."""
    X = noisy("columns", 120, 20, 4, strength=4.0, random_state=3).X
    rng = np.random.default_rng(0)
    spectra = [singular_values(X * np.exp(0.1 * rng.standard_normal(20))) for _ in range(4)]
    off = [evidence(one, 5, sure=2) - evidence(one, 5) for one in spectra]
    assert np.ptp(off) < 0.3
    assert np.ptp([evidence(one, 5) for one in spectra]) > 10


def test_strong_components_are_certain_and_weak_ones_are_not():
    X = noisy("white", 300, 20, 3, strength=3.0, random_state=0).X
    assert n_sure(singular_values(X), 5) == 3
    weak = noisy("white", 300, 20, 3, strength=0.05, random_state=0).X
    assert n_sure(singular_values(weak), 5) == 0


def test_data_without_noise_have_no_evidence():
    X = np.random.default_rng(0).standard_normal((40, 2)) @ np.ones((2, 6)) + np.arange(6)
    assert evidence(singular_values(X), 1) == -np.inf


def test_values_that_are_not_known_count_by_their_mean():
    spectrum = singular_values(noisy("white", 80, 30, 3, strength=2.0, random_state=1).X)
    gamma = spectrum.singular_values * spectrum.scale
    some = Spectrum(gamma[:12], spectrum.shape, float(gamma @ gamma))
    gain = [evidence(one, 4, sure=2) - evidence(one, 3, sure=2) for one in (spectrum, some)]
    assert gain[0] == pytest.approx(gain[1], abs=0.5)
