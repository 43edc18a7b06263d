"""The noise variance: its global minimum, its limits, and its value from truncated spectra."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.spectrum import Spectrum, noise, priors, solve
from bayespca.spectrum.closed_form import evb_rank_limit
from oracles.noise import grid_minimum, twice_free_energy


def random_spectrum(seed: int) -> tuple[np.ndarray, int, int]:
    """A random spectrum and its L and M: signals in noise, power law, log-normal, or steps."""
    rng = np.random.default_rng(seed)
    L, M = (int(n) for n in rng.integers(2, 60, 2))
    n = min(L, M)
    kind = seed % 4
    if kind == 0:
        k = int(rng.integers(0, n))
        V = rng.normal(size=(L, k)) * rng.uniform(0.1, 3, k) @ rng.normal(size=(k, M))
        gammas = np.linalg.svd(V + rng.normal(size=(L, M)), compute_uv=False)
    elif kind == 1:
        gammas = np.arange(1, n + 1) ** -rng.uniform(0.1, 3)
    elif kind == 2:
        gammas = np.exp(rng.normal(0, rng.uniform(0.1, 3), n))
    else:
        gammas = rng.choice([1.0, 2.0, 5.0, 20.0], n) * rng.uniform(0.95, 1.05, n)
    return np.sort(gammas)[::-1] * 10 ** rng.uniform(-3, 3), L, M


@pytest.mark.parametrize("block", range(10))
def test_evb_finds_the_global_minimum_of_500_spectra(block):
    for seed in range(50 * block, 50 * (block + 1)):
        gammas, L, M = random_spectrum(seed)
        found = solve(Spectrum(gammas, (L, M)))
        ours = twice_free_energy(gammas, found.noise_variance, L, M)
        assert 2 * found.free_energy == pytest.approx(ours, rel=1e-9, abs=1e-6)
        _, on_grid = grid_minimum(gammas, L, M, n=4000)
        assert ours <= on_grid + 1e-7 * L * M, f"seed {seed}"


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("c2", [0.01, 1.0, 100.0])
def test_vb_with_a_given_prior_finds_the_global_minimum(seed, c2):
    """Compare the noise of simple-VB with solutions at given noise on a fine grid."""
    gammas, L, M = random_spectrum(seed)
    spectrum = Spectrum(gammas / gammas[0], (L, M))
    found = solve(spectrum, "vb", prior_variance=c2)
    grid = found.noise_variance * np.geomspace(1e-3, 1e3, 600)
    energies = [
        solve(spectrum, "vb", prior_variance=c2, noise_variance=s).free_energy for s in grid
    ]
    assert found.free_energy <= min(energies) + 1e-7 * L * M
    assert solve(
        spectrum, "vb", prior_variance=c2, noise_variance=found.noise_variance
    ).free_energy == pytest.approx(found.free_energy, rel=1e-12)


@pytest.mark.parametrize(("method", "options"), [("evb", {}), ("vb", {"prior_variance": 0.01})])
def test_the_slope_vanishes_at_the_minimum(method, options):
    gammas, L, M = random_spectrum(0)
    spectrum = Spectrum(gammas / gammas[0], (L, M))
    s = solve(spectrum, method, **options).noise_variance
    up, down = (
        solve(spectrum, method, noise_variance=s * f, **options).free_energy
        for f in (1 + 1e-5, 1 - 1e-5)
    )
    assert abs(up - down) / 2e-5 < 1e-4 * L * M


def test_noise_is_right_on_simulated_data():
    rng = np.random.default_rng(1)
    V = rng.normal(size=(80, 4)) @ rng.normal(size=(4, 900)) + 0.3 * rng.normal(size=(80, 900))
    found = solve(Spectrum(np.linalg.svd(V, compute_uv=False), V.shape))
    assert found.rank == 4
    assert found.noise_variance == pytest.approx(0.09, rel=0.03)


def test_rank_bound_is_never_exceeded_with_unknown_noise():
    for seed in range(200):
        gammas, L, M = random_spectrum(seed)
        found = solve(Spectrum(gammas, (L, M)))
        bound = int(np.ceil(min(L, M) / (1 + min(L, M) / max(L, M)))) - 1
        assert evb_rank_limit(L, M) == bound
        assert found.rank <= bound


def test_near_the_rank_bound_it_says_so_with_a_figure():
    gammas, L, M = np.linspace(10, 1, 20), 20, 400
    found = solve(Spectrum(gammas, (L, M)))
    assert found.rank >= 0.75 * evb_rank_limit(L, M)
    assert "near-rank-bound" in found.status
    assert f"({evb_rank_limit(L, M)} at most)" in str(found.status)


class TestTruncated:
    rng = np.random.default_rng(5)
    V = rng.normal(size=(120, 6)) @ rng.normal(size=(6, 300)) + rng.normal(size=(120, 300))
    gammas = np.linalg.svd(V, compute_uv=False)
    whole = Spectrum(gammas, V.shape)

    def truncated(self, n: int) -> Spectrum:
        return Spectrum(self.gammas[:n], self.V.shape, sum_of_squares=(self.V**2).sum())

    @pytest.mark.parametrize("n", [7, 10, 50, 119])
    @pytest.mark.parametrize(
        ("method", "options"), [("evb", {}), ("vb", {"prior_variance": 1e-4}), ("epb", {})]
    )
    def test_below_the_threshold_it_is_exact(self, n, method, options):
        part, full = (solve(s, method, **options) for s in (self.truncated(n), self.whole))
        if full.rank >= n:
            pytest.skip("this method keeps more components than are known")
        assert part.rank == full.rank
        assert part.status.exact
        assert part.noise_variance == pytest.approx(full.noise_variance, rel=1e-10)
        assert part.free_energy == pytest.approx(full.free_energy, rel=1e-12)
        weights = [np.exp(-found.rank_free_energies[: n + 1]) for found in (part, full)]
        assert weights[0] == pytest.approx(weights[1])

    @pytest.mark.parametrize("n", [1, 3, 6])
    @pytest.mark.parametrize("method", ["evb", "epb", "emap"])
    def test_above_the_threshold_it_says_so(self, n, method):
        part = solve(self.truncated(n), method)
        assert not part.status.exact
        assert "cut-off" in part.status
        assert "needed" in str(part.status)

    def test_nothing_known_but_the_sum(self):
        spectrum = Spectrum([], self.V.shape, sum_of_squares=1.0)
        assert not solve(spectrum).status.exact

    def test_a_cap_is_not_a_truncation(self):
        part = solve(self.truncated(10), max_rank=3)
        full = solve(self.whole, max_rank=3)
        assert part.status.exact
        assert part.rank == full.rank == 3
        assert part.noise_variance == pytest.approx(full.noise_variance, rel=1e-10)


def test_zero_db_and_maximum_likelihood():
    gammas, L, M = np.array([5.0, 3.0, 1.0]), 3, 10
    spectrum = Spectrum(gammas, (L, M))
    assert noise.zero_db(spectrum) == pytest.approx(35 / 60)
    assert noise.maximum_likelihood(spectrum, 1) == pytest.approx((9 + 1) / 10 / 2)


def test_maximum_likelihood_counts_the_zero_eigenvalues_of_wide_data():
    """For 30×100 unit noise and rank 5, the mean is over 95 eigenvalues, not over 25."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 100))
    X -= X.mean(0)
    gammas = np.linalg.svd(X, compute_uv=False)[:29]
    found = solve(Spectrum(gammas, (100, 29)), "ml", max_rank=5)
    eigenvalues = np.linalg.eigvalsh(np.cov(X.T))[::-1]
    assert found.noise_variance == pytest.approx(eigenvalues[5:].mean(), rel=1e-10)


def test_the_expected_residual_never_falls_as_the_noise_grows():
    """The proof of the global minimum relies on this."""
    for seed in range(60):
        gammas, L, M = random_spectrum(seed)
        spectrum = Spectrum(gammas / gammas[0], (L, M))
        for prior in (
            priors.empirical_vb(L, M),
            priors.GivenPrior(L, M, priors.VB, 0.05),
            priors.GivenPrior(L, M, priors.VB, 5.0),
        ):
            objective = noise.Objective(spectrum, prior, min(L, M))
            points = [objective.at(y).residual for y in np.linspace(-25, 3, 400)]
            assert np.all(np.diff(points) >= -1e-12 * np.abs(points[1:]))
