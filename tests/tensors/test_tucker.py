"""Sweeps over tensors against the model written out."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize

from bayespca import inference
from bayespca.spectrum.methods import METHODS as BY_NAME
from bayespca.tensors import complete, holes
from bayespca.tensors import posterior as read
from bayespca.tensors.data import tucker_cells
from bayespca.tensors.fit import tucker_model
from bayespca.tensors.modes import unfolded
from bayespca.tensors.step import equations_of, filled, finished, step
from oracles import tucker as oracle
from tensors.simulated import artificial, moments_of, started, with_holes

METHODS = ("evb", "epb", "emap", "pb")


def toy(share=0.0, seed=0, sizes=(3, 4, 3), ranks=(2, 2, 2)):
    T, _ = artificial(seed, sizes, ranks, snr=400.0)
    return with_holes(T, share, seed=seed)


def same_geometric_means(state):
    """The state with equal geometric means of priors, as the free energy of points assumes."""
    logs = np.array([np.log(prior).mean() for prior in state.priors])
    scales = np.exp(0.5 * (logs.mean() - logs))
    rows = tuple(
        replace(rows, mean=rows.mean * t, cov=rows.cov * t**2)
        for rows, t in zip(state.rows, scales, strict=True)
    )
    priors = tuple(prior * t**2 for prior, t in zip(state.priors, scales, strict=True))
    return replace(state, rows=rows, priors=priors)


def oracle_energy(T, state, data, method):
    if method != "pb":
        state = same_geometric_means(state)
    return oracle.free_energy(
        T / data.unit,
        moments_of(state),
        integrates_factors=method == "evb",
        integrates_core=method != "emap",
        core_variance=0.5 if method == "pb" else 1.0,
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_free_energy_is_that_of_the_model_written_out(method, share):
    T = toy(share)
    data, problem, state = started(T, method, (2, 2, 2), free=False)
    for _ in range(3):
        state, info = step(state, data, problem)
        expected = oracle_energy(T, state, data, method)
        assert info.free_energy - state.gone == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_no_change_of_any_moment_leads_lower(method, share):
    """L-BFGS from where the sweeps end finds no lower value of the free energy written out."""
    T = toy(share, sizes=(3, 3, 3) if not share else (4, 3, 3))
    data, problem, state = started(T, method, (2, 2, 2), free=False, closed=True)
    run = inference.run(partial(step, data=data, problem=problem), state, max_iter=3000, tol=1e-14)
    # Point estimates cannot find the noise variance; it is given.
    state = same_geometric_means(run.state) if method != "pb" else run.state
    assert np.linalg.norm(oracle.low_rank(moments_of(state))) > 3
    x, unpack = _packed(state, method)
    options = {"integrates_factors": method == "evb", "integrates_core": method != "emap"}
    options["core_variance"] = 0.5 if method == "pb" else 1.0

    def energy(x):
        return oracle.free_energy(T / data.unit, unpack(x), **options)

    start = energy(x)
    assert start == pytest.approx(run.free_energy - state.gone, rel=1e-9)
    found = minimize(energy, x, method="L-BFGS-B", options={"maxiter": 5, "maxfun": 2000})
    assert found.fun > start - 1e-4
    if method == "evb":
        low = oracle.low_rank(unpack(found.x))
        np.testing.assert_allclose(low, oracle.low_rank(moments_of(run.state)), atol=2e-2)


def _packed(state, method):
    """A vector of means and logarithms of covariance scales, priors and noise, and the way back.

    All covariances of a mode share one scale. Priors of points stay: their surface is curved.
    """
    moments = moments_of(state)
    N = len(moments.means)
    parts = [*moments.means, moments.core]
    if method == "evb":
        parts += [np.zeros(N + 1), *[np.log(prior) for prior in moments.priors]]
        parts += [np.array([np.log(moments.noise_variance)])]
    sizes = np.cumsum([part.size for part in parts])[:-1]

    def unpack(x):
        pieces = [
            piece.reshape(part.shape) for piece, part in zip(np.split(x, sizes), parts, strict=True)
        ]
        out = replace(moments, means=pieces[:N], core=pieces[N])
        if method == "evb":
            scales = np.exp(pieces[N + 1])
            out.covs = [cov * t for cov, t in zip(moments.covs, scales[:N], strict=True)]
            out.core_cov = moments.core_cov * scales[N]
            out.priors = [np.exp(piece) for piece in pieces[N + 2 : -1]]
            out.noise_variance = float(np.exp(pieces[-1][0]))
        return out

    return np.concatenate([part.ravel() for part in parts]), unpack


def test_brute_force_ends_at_the_same_minimum():
    """All of EVB's moments on 3×3×3, minimised from elsewhere in free coordinates."""
    T = toy(sizes=(3, 3, 3), ranks=(1, 1, 1))
    data, problem, state = started(T, "evb", (1, 1, 1), free=False, closed=True)
    run = inference.run(partial(step, data=data, problem=problem), state, max_iter=2000, tol=1e-15)
    assert run.state.noise_variance < 0.1

    def unpack(x):
        means = [x[3 * n : 3 * n + 3].reshape(3, 1) for n in range(3)]
        variances, priors = np.exp(x[9:12]), np.exp(x[12:15])
        covs = [np.full((3, 1, 1), v) for v in variances]
        core, spread = x[15].reshape(1, 1, 1), np.exp(x[16])
        return oracle.Moments(
            means,
            covs,
            core,
            np.full((1, 1), spread),
            [np.array([p]) for p in priors],
            float(np.exp(x[17])),
        )

    rng = np.random.default_rng(1)
    # Zero is a minimum, too, so minimisation starts near the truth.
    first = [np.linalg.svd(unfolded(T, n))[0][:, 0] for n in range(3)]
    core = np.einsum("ijk,i,j,k->", T / data.unit, *first)
    ends = [
        minimize(
            lambda x: oracle.free_energy(T / data.unit, unpack(x)),
            np.concatenate(
                [np.ravel(first) + 0.3 * rng.normal(size=9), np.full(6, -2.0), [core, -2.0, -3.0]]
            ),
            method="L-BFGS-B",
            options={"maxiter": 200, "maxfun": 5000},
        )
        for _ in range(2)
    ]
    best = min(ends, key=lambda end: end.fun)
    assert run.free_energy == pytest.approx(best.fun, abs=1e-4)
    np.testing.assert_allclose(
        oracle.low_rank(unpack(best.x)), oracle.low_rank(moments_of(run.state)), atol=1e-2
    )
    assert run.state.noise_variance == pytest.approx(unpack(best.x).noise_variance, rel=1e-2)


@pytest.mark.parametrize("method", METHODS)
def test_holes_that_are_none_change_nothing(method, monkeypatch):
    """A mask of ones through the sweeps for holes gives the step of complete data.

    Both start at the same state and solve for the core once, as the sweeps for holes do.
    """
    monkeypatch.setattr(complete, "TURNS", 0)
    T, _ = artificial(0, (6, 7, 8), (2, 3, 2), snr=5.0)
    data, problem, state = started(T, method, (3, 3, 3), free=False)
    for _ in range(2):
        state, _ = step(state, data, problem)
    masked = replace(data, seen=np.ones(T.shape))
    whole, info = step(state, data, problem)
    with_own = replace(
        state,
        rows=tuple(
            replace(rows, cov=np.tile(rows.cov, (len(rows.mean), 1, 1))) for rows in state.rows
        ),
    )
    dense = holes.gathered(with_own, masked)
    core = dense.solved(
        state.priors,
        problem.core_variance,
        state.noise_variance,
        integrated=problem.family.integrates_b,
    )
    plain = equations_of(state, data).solved(
        state.priors,
        problem.core_variance,
        state.noise_variance,
        integrated=problem.family.integrates_b,
    )
    np.testing.assert_allclose(core.mean, plain.mean, rtol=1e-8, atol=1e-10)
    with_own = replace(with_own, core=core)
    again, equations = holes.swept(with_own, masked, problem)
    again, told = finished(again, equations, masked, problem)
    state = replace(state, core=plain)
    whole, info = step(state, data, problem)
    assert told.free_energy == pytest.approx(info.free_energy, rel=1e-10)
    low, other = (oracle.low_rank(moments_of(s)) for s in (whole, again))
    np.testing.assert_allclose(low, other, atol=1e-8)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.7])
@pytest.mark.parametrize("method", METHODS)
def test_free_energy_never_rises(method, share, center):
    """The loop warns of a rise, and warnings are errors here."""
    T = with_holes(artificial(1, (12, 10, 9), (2, 3, 2), snr=3.0)[0], share)
    data, problem, state = started(T, method, (5, 5, 5), center=center)
    run = inference.run(partial(step, data=data, problem=problem), state, max_iter=300, tol=1e-10)
    assert run.reason in ("settled", "max_iter")
    assert (np.diff(run.trace.free_energy) <= 1e-9 * np.abs(run.free_energy)).all()


@pytest.mark.parametrize("center", [False, True])
def test_filled_holes_never_raise_it_either(center):
    T = with_holes(artificial(2, (12, 10, 9), (2, 3, 2), snr=3.0)[0], 0.1)
    data, problem, state = started(T, "evb", (5, 5, 5), center=center)
    data = replace(data, fills=True)
    state = started(filled(data, state).values, "evb", (5, 5, 5))[2]
    state = replace(state, shift=np.zeros(T.shape[1:]))
    run = inference.run(partial(step, data=data, problem=problem), state, max_iter=2000, tol=1e-9)
    assert run.converged
    assert run.state.ranks == (2, 3, 2)


@pytest.mark.parametrize("method", ["epb", "emap"])
def test_global_minimum_of_points_is_zero_whatever_the_data(method):
    """aistats2014 Lemma 2: with everything at 0, the free energy falls without bound as c → 0."""
    T = toy(sizes=(3, 3, 3)) * 100
    energies = []
    for c in 10.0 ** -np.arange(0, 100, 20):
        # Without any information, the posterior of the core is its prior.
        spread = c**3 if method == "epb" else 0.0
        zero = oracle.Moments(
            [np.zeros((3, 1))] * 3,
            [np.zeros((3, 1, 1))] * 3,
            np.zeros((1, 1, 1)),
            np.full((1, 1), spread),
            [np.full(1, c)] * 3,
            1.0,
        )
        kinds = {"integrates_factors": False, "integrates_core": method == "epb"}
        energies.append(oracle.free_energy(T, zero, **kinds))
    assert (np.diff(energies) < -100).all()


def test_scale_between_modes_is_not_seen_by_evb_and_has_no_minimum_for_points():
    """This is why priors of all modes are given the same geometric mean."""
    T = toy(sizes=(3, 4, 5))
    data, problem, state = started(T, "emap", (1, 2, 2), free=False)
    state, _ = step(state, data, problem)

    def moved(t):
        scales = (t, 1 / t, 1.0)
        rows = tuple(
            replace(rows, mean=rows.mean * s, cov=rows.cov * s**2)
            for rows, s in zip(state.rows, scales, strict=True)
        )
        priors = tuple(prior * s**2 for prior, s in zip(state.priors, scales, strict=True))
        return moments_of(replace(state, rows=rows, priors=priors))

    options = {"integrates_factors": False, "integrates_core": False}
    energies = [oracle.free_energy(T / data.unit, moved(t), **options) for t in (1, 10, 100)]
    # M₁H₁ = 3, M₂H₂ = 8: each factor of 10 changes the free energy by (3 − 8)·log 10.
    np.testing.assert_allclose(np.diff(energies), -5 * np.log(10), rtol=1e-8)


def test_data_are_at_unit_scale():
    T, _ = artificial(0, (4, 5, 6), (1, 1, 1))
    for factor in (1e-150, 1.0, 1e150):
        data = tucker_cells(T * factor, center=False)
        assert data.squares == pytest.approx(T.size)
        assert data.unit == pytest.approx(factor * np.sqrt(np.mean(T**2)))


@pytest.mark.parametrize("share", [0.0, 0.5])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["low rank", "constant", "the same slices", "zero"])
def test_tensors_without_noise(kind, method, share):
    """Terms cancel to all digits, and cells leave much of the core undetermined."""
    rng = np.random.default_rng(0)
    T = {
        "low rank": artificial(0, (7, 6, 5), (2, 2, 2), snr=np.inf)[0],
        "constant": np.full((7, 6, 5), 3.0),
        "the same slices": np.tile(rng.normal(size=(1, 6, 5)), (7, 1, 1)),
        "zero": np.zeros((7, 6, 5)),
    }[kind]
    T = with_holes(T, share)
    data = tucker_cells(T, center=False)
    model = tucker_model(data, BY_NAME[method])
    fitted = inference.fit(model, data, inference.Looping())
    there = ~np.isnan(T)
    low = read.cells(fitted.posterior, fitted.posterior.factors[0])
    assert np.isfinite(low).all()
    assert fitted.posterior.noise_variance <= 1e-3 * max(np.mean(T[there] ** 2), 1e-3)
    if method == "evb":
        np.testing.assert_allclose(low[there], T[there], atol=1e-3 * np.abs(T[there]).max())
