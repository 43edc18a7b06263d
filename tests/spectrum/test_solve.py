"""`solve` as a whole: moments, free energies, rank posterior, published ranks, scale, bad input."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayespca.spectrum import METHODS, Spectrum, solve
from bayespca.spectrum.closed_form import evb_threshold
from oracles.free_energy import Component, free_energy, twice_component_energy

SHAPES = [(12, 40), (25, 25), (40, 12)]
GIVEN = ["vb", "pb", "pb-a", "pb-b", "map"]
LEARNED = ["evb", "epb", "emap"]


def simulated(shape, rank=4, seed=0):
    rng = np.random.default_rng(seed)
    V = 1.5 * rng.normal(size=(shape[0], rank)) @ rng.normal(size=(rank, shape[1]))
    return np.linalg.svd(V + 0.8 * rng.normal(size=shape), compute_uv=False)


def solved(method, shape, **options):
    spectrum = Spectrum(simulated(shape), shape)
    if method in GIVEN:
        options.setdefault("prior_variance", 2.0)
    if method == "ml":
        options.setdefault("max_rank", 4)
    return spectrum, solve(spectrum, method, noise_variance=0.7, **options)


def components(moments):
    return [
        Component(*(float(v) for v in row)) for row in zip(*vars(moments).values(), strict=True)
    ]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("method", GIVEN + LEARNED)
def test_free_energy_is_eq_16_and_17_at_the_moments(method, shape):
    spectrum, found = solved(method, shape)
    if method in GIVEN:
        moments, gammas = found.moments.with_unit_latent_prior(), spectrum.singular_values
    else:
        # Components that are switched off (c = 0) are no longer part of the model.
        moments = found.moments.with_equal_priors()
        fields = {k: v[: found.rank] for k, v in vars(moments).items()}
        moments = dataclasses.replace(moments, **fields)
        gammas = spectrum.singular_values[: found.rank]
    expected = free_energy(components(moments), gammas, spectrum.sum_of_squares, 0.7, *shape)
    assert found.free_energy == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("method", GIVEN + LEARNED)
def test_derivatives_vanish_at_the_moments(method, shape):
    """Numerical derivatives in each mean, each integrated variance, and the prior if learned."""
    spectrum, found = solved(method, shape)
    moments = (
        found.moments.with_unit_latent_prior()
        if method in GIVEN
        else found.moments.with_equal_priors()
    )
    for h, gamma in zip(components(moments)[: found.rank], spectrum.singular_values, strict=False):
        moves = [{"a": 1.0}, {"b": 1.0}, {"sa2": 1.0}, {"sb2": 1.0}]
        if method in LEARNED:
            moves.append({"ca2": 1.0, "cb2": 1.0})
        for move in moves:
            ends = []
            for step in (1e-5, -1e-5):
                moved = {k: getattr(h, k) * (1 + step) for k in move}
                end = dataclasses.replace(h, **moved)
                ends.append(twice_component_energy(end, gamma, 0.7, *shape))
            # 2F has terms of size γ²/σ², whose rounding errors are divided by the step.
            slack = 1e-15 / 1e-5 * 8 * gamma**2 / 0.7
            assert abs(ends[0] - ends[1]) / 2e-5 < 1e-4 + slack, move


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("method", [*GIVEN, *LEARNED, "ml"])
def test_means_multiply_to_the_shrunk_values(method, shape):
    spectrum, found = solved(method, shape)
    product = found.moments.mean_a * found.moments.mean_b
    assert product[: found.rank] == pytest.approx(found.shrunk_singular_values)
    assert np.all(product[found.rank :] == 0)
    assert np.all(found.shrunk_singular_values <= spectrum.singular_values[: found.rank])


@pytest.mark.parametrize(("L", "M"), [(20, 50), (30, 30), (50, 20)])
def test_icml_lemma_2(L, M):
    """σ_a/σ_b at the threshold of simple-VB under an almost flat prior, c_a = 1."""
    s, c = 1.3, 1e7
    options = {"method": "vb", "noise_variance": s, "prior_variance": c**2}
    gamma = solve(Spectrum([1.0], (L, M)), **options).threshold * (1 + 1e-9)
    found = solve(Spectrum([gamma], (L, M)), **options)
    moments = found.moments.with_unit_latent_prior()
    assert found.rank == 1
    ratio = np.sqrt(moments.variance_a / moments.variance_b)[0]
    if M > L:
        expected = (M - L) / np.sqrt(s * M)
    elif M == L:
        expected = 1 / c
    else:
        expected = np.sqrt(s * L) / ((L - M) * c**2)
    assert ratio == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("method", GIVEN)
def test_a_flat_prior_is_the_limit_of_wide_ones(method, shape):
    spectrum = Spectrum(simulated(shape), shape)
    flat = solve(spectrum, method, noise_variance=0.7)
    wide = solve(spectrum, method, noise_variance=0.7, prior_variance=1e12)
    assert flat.rank == wide.rank
    assert flat.threshold == pytest.approx(wide.threshold, abs=1e-5)
    assert flat.shrunk_singular_values == pytest.approx(wide.shrunk_singular_values, abs=1e-5)
    weights = [np.exp(-found.rank_free_energies) for found in (flat, wide)]
    assert weights[0] == pytest.approx(weights[1], abs=1e-4)
    assert flat.free_energy == np.inf if method == "vb" else np.isfinite(flat.free_energy)


@pytest.mark.parametrize("shape", SHAPES)
def test_evb_is_never_above_the_trivial_solution(shape):
    for seed in range(20):
        spectrum = Spectrum(simulated(shape, rank=seed % 5, seed=seed), shape)
        for noise_variance in ("auto", 0.2, 0.7, 5.0):
            found = solve(spectrum, noise_variance=noise_variance)
            s = found.noise_variance
            trivial = 0.5 * (np.prod(shape) * np.log(2 * np.pi * s) + spectrum.sum_of_squares / s)
            assert found.free_energy <= trivial + 1e-9 * abs(trivial)


@pytest.mark.parametrize("shape", SHAPES)
def test_ml_is_tipping_and_bishops(shape):
    """F is −log likelihood of N(0, WWᵀ + σ²I) at Tipping and Bishop's W and σ²."""
    L, M = shape
    rng = np.random.default_rng(3)
    V = rng.normal(size=(L, 3)) @ rng.normal(size=(3, M)) + rng.normal(size=(L, M))
    U, gammas, _ = np.linalg.svd(V, full_matrices=False)
    found = solve(Spectrum(gammas, shape), "ml", max_rank=3)
    lam = gammas**2 / M
    s = (np.trace(V @ V.T) / M - lam[:3].sum()) / (L - 3)
    assert found.noise_variance == pytest.approx(s, rel=1e-10)
    loadings = found.moments.with_unit_latent_prior().mean_b[:3]
    assert loadings**2 == pytest.approx(lam[:3] - s, rel=1e-10)
    W = U[:, :3] * np.sqrt(lam[:3] - s)
    C = W @ W.T + s * np.eye(L)
    _, logdet = np.linalg.slogdet(C)
    nll = 0.5 * (M * L * np.log(2 * np.pi) + M * logdet + np.trace(np.linalg.solve(C, V @ V.T)))
    assert found.free_energy == pytest.approx(nll, rel=1e-11)
    posterior_mean = W @ np.linalg.solve(W.T @ W + s * np.eye(3), W.T @ V)
    ours = np.linalg.svd(posterior_mean, compute_uv=False)[:3]
    assert found.shrunk_singular_values == pytest.approx(ours, rel=1e-10)


def test_global_empirical_pb_and_map_are_zero():
    """aistats2014 Propositions 2 and 3: c → 0, and the free energy falls without bound."""
    for method in ("global-epb", "global-emap"):
        _, found = solved(method, SHAPES[0])
        assert found.rank == 0
        assert found.threshold == np.inf
        assert found.free_energy == -np.inf
        assert not found.moments.prior_variance_a.any()


# --- free energies of ranks ----------------------------------------------------------------------


@pytest.mark.parametrize("method", [m for m in METHODS])
def test_the_rank_found_has_the_lowest_free_energy(method):
    _, found = solved(method, SHAPES[0])
    assert found.rank_free_energies[found.rank] == found.rank_free_energies.min() == 0


@pytest.mark.parametrize("method", ["evb", "vb", "map"])
def test_free_energies_of_ranks_at_given_noise_are_those_with_a_cap(method):
    """F_k − F_j equals the difference of the free energies with at most k and j components."""
    options = {} if method == "evb" else {"prior_variance": 2.0}
    spectrum = Spectrum(simulated((12, 40)), (12, 40))
    whole = solve(spectrum, method, noise_variance=0.7, **options)
    one = solve(Spectrum([1e-9], (12, 40)), method, noise_variance=0.7, **options).free_energy
    none = solve(Spectrum([1e-9], (12, 40)), method, noise_variance=0.7, max_rank=0, **options)
    per_dropped = (one - none.free_energy) / 12
    for k in range(whole.rank + 1):
        capped = solve(spectrum, method, noise_variance=0.7, max_rank=k, **options)
        expected = capped.free_energy + (12 - k) * per_dropped - whole.free_energy
        assert whole.rank_free_energies[k] == pytest.approx(expected, abs=1e-8)


def test_free_energies_of_ranks_with_unknown_noise_are_at_the_best_noise_of_each():
    rng = np.random.default_rng(2)
    V = rng.normal(size=(10, 2)) @ rng.normal(size=(2, 14)) + 1.3 * rng.normal(size=(10, 14))
    spectrum = Spectrum(np.linalg.svd(V, compute_uv=False), V.shape)
    found = solve(spectrum)
    gammas, (L, M) = spectrum.singular_values, V.shape
    best = []
    for k in range(4):
        limit = gammas[k - 1] ** 2 / (np.sqrt(L) + np.sqrt(M)) ** 2 if k else 50.0
        s = np.geomspace(1e-3, 1, 60001)[:, None] * limit
        x = gammas[None, :k] ** 2 / s
        y = x - L - M
        z = 0.5 * (y + np.sqrt(np.maximum(y**2 - 4 * L * M, 0)))
        kept = (M * np.log1p(z / M) + L * np.log1p(z / L) - z).sum(1)
        best.append(
            0.5 * (L * M * np.log(2 * np.pi * s[:, 0]) + (gammas @ gammas) / s[:, 0] + kept).min()
        )
    expected = np.array(best) - min(best)
    assert found.rank_free_energies[:4] == pytest.approx(expected, abs=1e-4)
    assert np.sort(found.rank_free_energies)[1] < 4.5, "the example is meant to be undecided"


def test_at_the_threshold_both_free_energies_are_the_same():
    L, M = 30, 90
    spectrum = Spectrum([np.sqrt(evb_threshold(L, M))], (L, M), sum_of_squares=evb_threshold(L, M))
    found = solve(spectrum, noise_variance=1.0)
    assert found.rank_free_energies[:2] == pytest.approx([0.0, 0.0], abs=4e-9)


@pytest.mark.parametrize("rank", [0, 1, 2, 3, 4])
def test_so_many_components_are_kept_as_were_asked_for(rank):
    """The noise is the best one for that rank."""
    rng = np.random.default_rng(2)
    V = rng.normal(size=(10, 2)) @ rng.normal(size=(2, 14)) + 1.3 * rng.normal(size=(10, 14))
    spectrum = Spectrum(np.linalg.svd(V, compute_uv=False), V.shape)
    free, found = solve(spectrum), solve(spectrum, exactly=rank)
    assert found.rank == rank
    assert (found.shrunk_singular_values > 0).all()
    assert found.free_energy == pytest.approx(free.free_energy + free.rank_free_energies[rank])
    gamma = np.append(spectrum.singular_values, 0.0)
    assert gamma[rank] <= found.threshold
    assert not rank or found.threshold < gamma[rank - 1]


# --- published tables --------------------------------------------------------------------------

TABLE_1 = {
    "chart": (2, 2, 2),
    "glass": (1, 1, 1),
    "optdigits": (10, 10, 6),
    "satellite": (2, 2, 1),
}


@pytest.mark.parametrize("name", TABLE_1)
def test_aistats_table_1_uci(name, load_data):
    """Raw data, 0 dB: the analytic ranks of EVB, local-EPB and local-EMAP."""
    V = load_data(name)["X"].astype(float).T
    spectrum = Spectrum(np.linalg.svd(V, compute_uv=False), V.shape)
    ranks = tuple(solve(spectrum, m, noise_variance="0db").rank for m in LEARNED)
    assert ranks == TABLE_1[name]


@pytest.mark.parametrize(("L", "M", "rank", "printed_epb"), [(100, 300, 20, 20), (400, 500, 5, 8)])
def test_aistats_table_1_artificial(L, M, rank, printed_epb):
    """Noise is known to be 1. EVB and local-EMAP are always right; local-EPB varies by draw."""
    draws = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        V = rng.normal(size=(L, rank)) @ rng.normal(size=(rank, M)) + rng.normal(size=(L, M))
        spectrum = Spectrum(np.linalg.svd(V, compute_uv=False), (L, M))
        draws.append(tuple(solve(spectrum, m, noise_variance=1.0).rank for m in LEARNED))
    evb, epb, emap = zip(*draws, strict=True)
    assert set(evb) == set(emap) == {rank}
    assert (rank, printed_epb, rank) in draws
    assert max(abs(k - printed_epb) for k in epb) <= 2


# --- promises ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("factor", [1e-150, 1e-8, 1e3, 1e150])
def test_scale_leaves_ranks_alone(method, factor):
    gammas, shape = simulated((12, 40)), (12, 40)
    options = {"max_rank": 4} if method == "ml" else {}
    if method in GIVEN:
        options["prior_variance"] = 0.5
    base = solve(Spectrum(gammas, shape), method, **options)
    if method in GIVEN:
        options["prior_variance"] *= factor * factor
    for spectrum in (
        Spectrum(gammas * factor, shape),
        Spectrum(gammas, shape, scale=factor),
    ):
        scaled = solve(spectrum, method, **options)
        assert scaled.rank == base.rank
        assert scaled.noise_variance == pytest.approx(base.noise_variance * factor**2, rel=1e-10)
        assert scaled.threshold == pytest.approx(base.threshold * factor, rel=1e-10)
        weights = [np.exp(-found.rank_free_energies) for found in (scaled, base)]
        assert weights[0] == pytest.approx(weights[1], abs=1e-9)
        shift = 12 * 40 * np.log(factor)
        if method in ("evb", "vb"):
            assert scaled.free_energy == pytest.approx(base.free_energy + shift, rel=1e-11)


@given(
    gammas=st.lists(st.floats(0, 1e6), min_size=1, max_size=12),
    extra=st.integers(0, 30),
    wide=st.booleans(),
    method=st.sampled_from(list(METHODS)),
    noise_variance=st.sampled_from(["auto", "0db", 1e-3, 10.0]),
)
def test_any_spectrum_has_an_answer(gammas, extra, wide, method, noise_variance):
    """No NumPy warnings (errors in tests), a legal rank, finite noise, non-negative values."""
    n = len(gammas)
    shape = (n, n + extra) if wide else (n + extra, n)
    options = {"max_rank": n // 2} if method == "ml" else {}
    spectrum = Spectrum(sorted(gammas, reverse=True), shape)
    found = solve(spectrum, method, noise_variance=noise_variance, **options)
    assert 0 <= found.rank <= n
    assert 0 <= found.noise_variance < np.inf
    assert found.rank_free_energies.min() == 0
    assert np.all(found.shrunk_singular_values >= 0)
    assert not np.isnan(found.free_energy)
    assert not any(np.isnan(v).any() for v in vars(found.moments).values())


@pytest.mark.parametrize("method", [name for name in METHODS if name != "ml"])
@pytest.mark.parametrize("gamma", [5e-324, 1e-200])
def test_data_that_are_nothing_beside_the_noise(method, gamma):
    found = solve(Spectrum([gamma, 0.0], (2, 5)), method, noise_variance=1e-3)
    zeros = solve(Spectrum([0.0, 0.0], (2, 5)), method, noise_variance=1e-3)
    assert (found.rank, found.noise_variance) == (0, zeros.noise_variance)
    assert found.free_energy == zeros.free_energy


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1), (4, 4), (3, 9)])
def test_all_zero_data(method, shape):
    options = {"max_rank": 0} if method == "ml" else {}
    found = solve(Spectrum(np.zeros(min(shape)), shape), method, **options)
    assert (found.rank, found.noise_variance) == (0, 0.0)
    assert "all-zero" in found.status
    assert np.flatnonzero(np.isfinite(found.rank_free_energies)).tolist() == [0]
    given = solve(Spectrum(np.zeros(min(shape)), shape), method, noise_variance=2.0, **options)
    assert (given.rank, given.noise_variance) == (0, 2.0)


def test_single_value_and_single_feature():
    """With one feature, signal cannot be told from noise, however many samples there are."""
    found = solve(Spectrum([7.0], (1, 50)))
    assert found.rank == 0
    assert found.noise_variance == pytest.approx(49 / 50)
    known = solve(Spectrum([7.0], (1, 50)), noise_variance=0.01)
    assert known.rank == 1


def test_equal_values_are_noise():
    for shape in [(6, 6), (6, 80)]:
        found = solve(Spectrum(np.full(6, 3.0), shape))
        assert found.rank == 0
        assert found.noise_variance == pytest.approx(9 / max(shape))


def test_noise_free_data_have_their_exact_rank():
    gammas = np.array([5.0, 4.0, 3.0, 0, 0, 0, 0, 0, 0, 0])
    for method in ("evb", "laplace"):
        found = solve(Spectrum(gammas, (10, 40)), method)
        assert found.rank == 3
        assert found.noise_variance < 1e-28
        assert "noise-free" in found.status


def test_the_cap_holds():
    spectrum = Spectrum(simulated((12, 40)), (12, 40))
    for method in METHODS:
        assert solve(spectrum, method, max_rank=2).rank <= 2
    assert solve(spectrum, "ml", max_rank=2).rank == 2
    assert solve(spectrum, max_rank=0).rank == 0


def test_solution_is_frozen():
    found = solve(Spectrum([3.0, 1.0], (2, 5)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.rank = 3
    with pytest.raises(ValueError, match="read-only"):
        Spectrum([3.0, 1.0], (2, 5)).singular_values[0] = 1


BAD_SPECTRA = [
    (([3, -1], (2, 5)), "non-negative; number 1"),
    (([3, np.nan], (2, 5)), "finite; number 1"),
    (([np.inf, 1], (2, 5)), "finite; number 0"),
    (([1, 2], (2, 5)), "decreasing order; number 1"),
    (([[1, 2]], (2, 5)), "vector"),
    (([3, 2, 1], (2, 5)), "has 2 singular values, got 3"),
    (([3, 1], (0, 5)), "at least 1"),
    (([3, 1], (2.5, 5)), "whole numbers"),
    (([3, 1], (2,)), "two whole numbers"),
    (([3, 1], (2, 5), 9.0), "at least that of the singular values"),
    (([3, 1], (2, 5), np.nan), "at least that of the singular values"),
    (([3, 1], (2, 5), 11.0), "at most"),
    (([3, 1], (4, 5), 13.0), "at most"),
    (([3, 1], (2, 5), None, 0.0), "scale must be"),
    (([1e200, 1], (2, 5)), "overflow"),
]


@pytest.mark.parametrize(("arguments", "sentence"), BAD_SPECTRA)
def test_bad_spectra_get_one_clear_sentence(arguments, sentence):
    with pytest.raises(ValueError, match=sentence) as error:
        Spectrum(*arguments)
    assert "\n" not in str(error.value)


BAD_OPTIONS = [
    ({"noise_variance": 0.0}, "noise_variance must be positive"),
    ({"noise_variance": -1.0}, "noise_variance must be positive"),
    ({"noise_variance": np.nan}, "noise_variance must be positive"),
    ({"noise_variance": "loud"}, "'auto' or '0db'"),
    ({"method": "magic"}, "unknown method 'magic'; choose one of evb"),
    ({"prior_variance": 1.0}, "does not take prior_variance"),
    ({"method": "vb", "prior_variance": 0.0}, "prior_variance must be positive"),
    ({"max_rank": -1}, "max_rank must be a whole number from 0 to 2"),
    ({"max_rank": 3}, "max_rank must be a whole number from 0 to 2"),
    ({"max_rank": 1.5}, "max_rank must be a whole number"),
    ({"method": "ml"}, "needs a rank"),
]


@pytest.mark.parametrize(("options", "sentence"), BAD_OPTIONS)
def test_bad_options_get_one_clear_sentence(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        solve(Spectrum([3.0, 1.0], (2, 5)), **options)
