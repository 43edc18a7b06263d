"""Minka's evidence, Marchenko–Pastur, Gavish–Donoho, parallel analysis and ScreeNOT."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition._pca import _assess_dimension

from bayespca.datasets import noisy
from bayespca.spectrum import (
    Spectrum,
    gavish_donoho,
    marchenko_pastur,
    marchenko_pastur_median,
    minka,
    parallel_analysis,
    screenot,
    solve,
)
from bayespca.spectrum.rank_rules import _bartlett

RULES = [
    lambda spectrum: minka(spectrum).rank,
    marchenko_pastur,
    gavish_donoho,
    parallel_analysis,
]


def simulated(L, M, rank, seed=0, strength=1.0):
    rng = np.random.default_rng(seed)
    V = strength * rng.normal(size=(L, rank)) @ rng.normal(size=(rank, M))
    return Spectrum(np.linalg.svd(V + rng.normal(size=(L, M)), compute_uv=False), (L, M))


def test_minka_is_scikit_learns_where_that_is_defined():
    """Eigenvalues are well separated; scikit-learn omits the constants, so compare differences."""
    lam, n = np.array([50.0, 20.0, 9.0, 4.0, 2.0, 1.0, 0.4]), 300
    ours = minka(Spectrum(np.sqrt(lam * n), (7, n))).log_evidence
    theirs = np.array([_assess_dimension(lam, k, n) for k in range(1, 7)])
    assert np.diff(ours[1:]) == pytest.approx(np.diff(theirs), rel=1e-10)


def test_minka_constants_make_rank_zero_the_likelihood_of_white_noise():
    spectrum = simulated(6, 50, 0)
    s = spectrum.sum_of_squares / 300
    log_likelihood = -150 * (np.log(2 * np.pi * s) + 1)
    assert minka(spectrum).log_evidence[0] == pytest.approx(log_likelihood, rel=1e-12)


@pytest.mark.parametrize(("L", "M"), [(30, 400), (400, 60), (80, 80)])
@pytest.mark.parametrize("rank", [0, 4])
@pytest.mark.parametrize("rule", RULES)
def test_rules_find_a_clear_rank(rule, L, M, rank):
    found = [rule(simulated(L, M, rank, seed)) for seed in range(10)]
    # Noise exceeds the edge of the Marchenko–Pastur law by chance now and then.
    assert sorted(found)[2:8] == [rank] * 6


@pytest.mark.parametrize("factor", [1e-150, 1e-9, 1e150])
@pytest.mark.parametrize("rule", RULES)
def test_rules_do_not_depend_on_scale(rule, factor):
    spectrum = simulated(20, 200, 5)
    gammas = spectrum.singular_values
    assert rule(spectrum) > 0
    assert rule(Spectrum(gammas * factor, (20, 200))) == rule(spectrum)
    assert rule(Spectrum(gammas, (20, 200), scale=factor)) == rule(spectrum)


@pytest.mark.parametrize(
    "gammas", [np.zeros(6), np.full(6, 2.0), [3.0, 3.0, 0, 0, 0, 0], [1e-8] * 6]
)
def test_degenerate_spectra(gammas):
    spectrum = Spectrum(gammas, (6, 40))
    for rule in RULES:
        assert 0 <= rule(spectrum) <= 6
    assert np.all(np.isfinite(minka(spectrum).log_evidence)) or not np.any(gammas)


def test_equal_eigenvalues_are_noise_to_minka():
    """Their curvature is zero, which would make Laplace's evidence infinite."""
    assert minka(Spectrum(np.full(6, 2.0), (6, 40))).rank == 0
    two = minka(Spectrum([9.0, 9.0, 1, 1, 1, 1], (6, 40)))
    assert two.rank == 2


def test_known_noise_on_matrices_that_are_not_square():
    """100×1000 with five components must not give full rank, as another package does."""
    spectrum = simulated(100, 1000, 5)
    assert gavish_donoho(spectrum, noise_variance=1.0) == 5
    assert 5 <= marchenko_pastur(spectrum, noise_variance=1.0) <= 6
    scaled = Spectrum(spectrum.singular_values, (100, 1000), scale=1e-3)
    assert gavish_donoho(scaled, noise_variance=1e-6) == 5


def test_gavish_donoho_constants():
    """4/√3 for square matrices and known noise; ω(1) = 2.858 for unknown noise."""
    gammas = np.array([1.0, 0.5])
    edge = 4 / np.sqrt(3)
    for s, rank in [((0.99 / edge) ** 2 / 2, 1), ((1.01 / edge) ** 2 / 2, 0)]:
        assert gavish_donoho(Spectrum(gammas, (2, 2)), noise_variance=s) == rank
    omega = edge / np.sqrt(marchenko_pastur_median(1.0))
    assert omega == pytest.approx(2.858, abs=1e-3)


@pytest.mark.parametrize("beta", [0.01, 0.3, 0.7, 1.0])
def test_marchenko_pastur_median_by_simulation(beta):
    rng = np.random.default_rng(0)
    n = 1200
    m = int(beta * n)
    eigenvalues = np.linalg.svd(rng.normal(size=(m, n)), compute_uv=False) ** 2 / n
    assert marchenko_pastur_median(m / n) == pytest.approx(np.median(eigenvalues), rel=0.02)


def test_gavish_donoho_needs_the_median():
    spectrum = Spectrum([3.0, 1.0], (6, 40), sum_of_squares=12.0)
    with pytest.raises(ValueError, match="2 of 6"):
        gavish_donoho(spectrum)


def test_bidiagonal_draws_have_the_law_of_gaussian_matrices():
    rng = np.random.default_rng(0)
    L, M, n = 5, 9, 4000
    top = [np.linalg.eigvalsh(tridiagonal(*_bartlett(L, M, rng)))[-1] for _ in range(n)]
    dense = np.linalg.svd(rng.normal(size=(n, L, M)), compute_uv=False)[:, 0] ** 2
    error = np.std(dense) / np.sqrt(n)
    assert np.mean(top) == pytest.approx(np.mean(dense), abs=4 * error)
    assert np.quantile(top, 0.95) == pytest.approx(np.quantile(dense, 0.95), rel=0.03)


def tridiagonal(diagonal, beside):
    return np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)


def test_parallel_analysis_beyond_the_first_batch():
    spectrum = simulated(100, 2000, 30, strength=1.0)
    assert parallel_analysis(spectrum) >= 16
    assert parallel_analysis(spectrum, random_state=1) == parallel_analysis(
        spectrum, random_state=1
    )


def test_laplace_takes_minkas_rank_and_evidence():
    spectrum = simulated(20, 200, 3)
    found, evidence = solve(spectrum, "laplace"), minka(spectrum)
    assert found.rank == evidence.rank == 3
    assert found.free_energy == pytest.approx(-evidence.log_evidence[3])
    weights = np.exp(evidence.log_evidence - evidence.log_evidence.max())
    n = weights.size
    assert np.exp(-found.rank_free_energies[:n]) == pytest.approx(weights)


def test_minka_on_a_truncated_spectrum_is_close():
    whole = simulated(40, 300, 4)
    part = Spectrum(whole.singular_values[:12], (40, 300), whole.sum_of_squares)
    assert minka(part).rank == minka(whole).rank == 4


# --- ScreeNOT ----------------------------------------------------------------------------------


def centred_spectrum(kind, shape):
    X = noisy(kind, *shape, 3, random_state=1).X
    gamma = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    return Spectrum(gamma, (shape[1], shape[0]))


@pytest.mark.parametrize(
    ("kind", "shape", "rank"),
    [
        *(("white", (500, 200), 3), ("columns", (500, 200), 7), ("rows", (500, 200), 8)),
        *(("both", (500, 200), 9), ("both", (100, 150), 5), ("rows", (60, 25), 2)),
        *(("ar", (100, 150), 4), ("ar", (60, 25), 5), ("columns", (60, 25), 3)),
    ],
)
def test_screenot_finds_what_its_authors_program_finds(kind, shape, rank):
    """Ranks from adaptiveHardThresholding of the package screenot."""
    assert screenot(centred_spectrum(kind, shape)) == rank


def test_screenot_where_there_is_no_noise():
    exact = Spectrum([3.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], (8, 20))
    assert screenot(exact) == 2
    assert screenot(Spectrum([2.0], (1, 20))) == 1


def test_screenot_needs_all_singular_values():
    with pytest.raises(ValueError, match="all singular values"):
        screenot(Spectrum([3.0, 2.0], (8, 20), 30.0))
