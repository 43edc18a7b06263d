"""Sweeps of every family over holes: definition and minimum of the free energy, closed forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from bayespca import BayesianPCA, inference
from bayespca.lowrank import holes_posterior
from bayespca.spectrum import FAMILIES

from .sweeping import asked, defined_energy, rows_of, swept, with_holes

LEARNED = [("evb", {}), ("epb", {}), ("emap", {})]
GIVEN = [(method, {"prior_variance": 2.0}) for method in ("pb-a", "pb-b", "map")]
ALL = [*LEARNED, *GIVEN, ("ml", {"n_components": 2}), ("evb", {"noise_variance": 0.7})]
# Components with zero mean are not in the state, so the oracle does not see them.
WITH_IDLE = [("vb", {"prior_variance": 2.0}), ("vb", {})]
FLAT = [("pb", {}), ("pb-a", {}), ("pb-b", {}), ("map", {"n_components": 3})]


def named(case):
    return case if isinstance(case, str) else "-".join(map(str, case.values()))


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize(("method", "options"), ALL, ids=named)
def test_the_free_energy_is_the_defined_one(method, options, centred):
    """This holds at convergence, where rows no longer change."""
    _, Y = with_holes(30, 6, 2, 0.2)
    run, model, data = swept(Y, method=method, center=centred, **options)
    assert run.converged
    expected = defined_energy(run.state, data, model)
    assert run.free_energy == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize(("method", "options"), ALL, ids=named)
def test_it_is_a_minimum(method, options):
    """No small change of columns, rows, priors or noise lowers the free energy."""
    _, Y = with_holes(20, 6, 2, 0.2, noise=0.5)
    run, model, data = swept(Y, method=method, **options)
    state, family = run.state, model.factors.family
    a, a_cov = rows_of(state, data, model)
    base = defined_energy(state, data, model, a=a, a_cov=a_cov)
    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-2):
        for _ in range(8):
            others = [replace(state, b=state.b + size * rng.normal(size=state.b.shape))]
            factor = np.exp(size * rng.normal(size=(len(state.b), 1, 1)))
            others.append(replace(state, b_cov=state.b_cov * factor))
            if model.factors.prior.is_learned:
                prior = state.prior_a * np.exp(size * rng.normal(size=state.rank))
                others.append(replace(state, prior_a=prior, prior_b=prior))
            if model.least_noise is not None:
                noise = state.noise_variance * np.exp(size * rng.normal())
                others.append(replace(state, noise_variance=noise))
            for other in others:
                assert defined_energy(other, data, model, a=a, a_cov=a_cov) > base
            moved = a + size * rng.normal(size=a.shape)
            assert defined_energy(state, data, model, a=moved, a_cov=a_cov) > base
            if family.integrates_a:
                wider = a_cov * np.exp(size * rng.normal(size=(len(a), 1, 1)))
                assert defined_energy(state, data, model, a=a, a_cov=wider) > base


@pytest.mark.parametrize(("method", "options"), [*LEARNED, *GIVEN], ids=named)
def test_brute_force_leads_to_the_same_place(method, options):
    """Few holes in a tiny matrix: all moments of one component, minimised by BFGS."""
    rng = np.random.default_rng(1)
    X = 2 * np.outer(rng.normal(size=8), rng.normal(size=4)) + 0.4 * rng.normal(size=(8, 4))
    Y = X.copy()
    Y[[0, 3, 5], [1, 3, 0]] = np.nan
    run, model, data = swept(Y, method=method, n_components=1, noise_variance=0.2, **options)
    state = run.state
    assert state.rank == 1
    family = model.factors.family
    a, a_cov = rows_of(state, data, model)
    begin = packed_moments(state, a, a_cov, family)

    def cost(numbers):
        other, rows, cov = unpacked_moments(numbers, state, family, model.factors.prior.is_learned)
        return defined_energy(other, data, model, a=rows, a_cov=cov)

    assert cost(begin) == pytest.approx(run.free_energy, rel=1e-8)
    for size in (0.02, 0.2):
        moved = begin + size * rng.normal(size=begin.size)
        best = minimize(cost, moved, method="BFGS", options={"gtol": 1e-5, "maxiter": 3000})
        assert best.fun == pytest.approx(run.free_energy, abs=2e-5)


def packed_moments(state, a, a_cov, family):
    """Vector of all free parameters of a state with one component."""
    parts = [a[:, 0], state.b.ravel(), np.log(state.prior_a)]
    if family.integrates_a:
        parts.append(np.log(a_cov[:, 0, 0]))
    if family.integrates_b:
        root = np.linalg.cholesky(state.b_cov)
        parts += [np.log(root[:, 0, 0]), np.log(root[:, 1, 1]), root[:, 1, 0]]
    else:
        parts.append(np.log(state.b_cov[:, 1, 1]))
    return np.concatenate(parts)


def unpacked_moments(numbers, state, family, learned):
    sizes = [8, 8, 1] + [8] * family.integrates_a + ([4, 4, 4] if family.integrates_b else [4])
    pieces = iter(np.split(numbers, np.cumsum(sizes)[:-1]))
    a, b = next(pieces)[:, None], next(pieces).reshape(4, 2)
    prior = np.exp(next(pieces))
    a_cov = np.exp(next(pieces))[:, None, None] if family.integrates_a else np.zeros((8, 1, 1))
    b_cov = np.zeros((4, 2, 2))
    if family.integrates_b:
        root = np.zeros((4, 2, 2))
        root[:, 0, 0], root[:, 1, 1] = np.exp(next(pieces)), np.exp(next(pieces))
        root[:, 1, 0] = next(pieces)
        b_cov = root @ np.swapaxes(root, 1, 2)
    else:
        b_cov[:, 1, 1] = np.exp(next(pieces))
    other = replace(state, b=b, b_cov=b_cov)
    return (replace(other, prior_a=prior, prior_b=prior) if learned else other), a, a_cov


CLOSED = [*ALL, *WITH_IDLE, *FLAT, ("evb", {"noise_variance": "0db"})]


@pytest.mark.parametrize("shape", [(60, 12, 3), (15, 30, 2)])
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize(("method", "options"), CLOSED, ids=named)
def test_without_holes_the_answer_is_the_closed_form(method, options, centred, shape):
    X, _ = with_holes(*shape, 0.0)
    own = {"n_components": "evb"} if method == "evb" else {}
    closed = BayesianPCA(method, center=centred, **{**own, **options}).fit(X)
    looping = inference.Looping(max_iter=5000, tol=1e-15)
    found = inference.fit(*asked(X, method, center=centred, **options), looping)
    assert len(found.posterior.components) == closed.n_components_
    assert found.noise_variance == pytest.approx(closed.noise_variance_, rel=1e-6)
    assert found.free_energy == pytest.approx(closed.free_energy_, rel=1e-7)
    T = holes_posterior.scores(found.posterior, X)
    low = holes_posterior.reconstruct(found.posterior, T)
    np.testing.assert_allclose(low, closed.denoise(X), atol=1e-6 * np.abs(X).max())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("method", "options"), [*CLOSED, ("pb", {"prior_variance": 0.5})], ids=named
)
def test_the_free_energy_never_rises(method, options, seed):
    """The loop warns of a rise, and warnings are errors here."""
    rng = np.random.default_rng(seed)
    n, p = rng.integers(5, 40, 2)
    _, Y = with_holes(n, p, 2, rng.choice([0.1, 0.5]), seed=seed)
    looping = inference.Looping(max_iter=200)
    found = inference.fit(*asked(Y, method, **options), looping)
    assert (np.diff(found.trace.free_energy) <= 1e-9 * np.abs(found.trace.free_energy[1:])).all()


def test_every_family_is_among_them():
    found = {
        swept(with_holes(12, 5, 1, 0.1)[1], method=m, max_iter=2, **o)[1].factors.family.name
        for m, o in [*ALL, *WITH_IDLE]
    }
    assert found == {family.name for family in FAMILIES}


@pytest.mark.parametrize(("method", "options"), [*LEARNED, ("ml", {"n_components": 2})], ids=named)
def test_random_starts_lead_to_the_same_place(method, options):
    _, Y = with_holes(100, 12, 2, 0.2, noise=0.5)
    closed = BayesianPCA(method, **options).fit(Y)
    model = BayesianPCA(method, solver="iterative", n_init=2, random_state=0, **options).fit(Y)
    assert model.n_components_ == closed.n_components_
    assert model.free_energy_ == pytest.approx(closed.free_energy_, rel=1e-5)
    again = BayesianPCA(method, solver="iterative", init="closed", **options).fit(Y)
    assert again.free_energy_ == closed.free_energy_


@pytest.mark.parametrize("engine", ["dense", "gram", "randomized", "streaming", "sparse"])
def test_engines_are_for_the_start(engine):
    _, Y = with_holes(100, 12, 2, 0.2)
    found, plain = BayesianPCA(engine=engine).fit(Y), BayesianPCA().fit(Y)
    assert found.free_energy_ == pytest.approx(plain.free_energy_, rel=1e-9)


@pytest.mark.parametrize("method", ["epb", "emap"])
@pytest.mark.parametrize("share", [0.1, 0.4])
def test_local_minima_keep_the_components_there_are(method, share):
    """EPB may keep more than the true components; EMAP, with its higher threshold, may not."""
    _, Y = with_holes(300, 20, 3, share, noise=0.5)
    found = BayesianPCA(method).fit(Y)
    assert found.n_components_ == 3 if method == "emap" else found.n_components_ >= 3
    assert found.noise_variance_ == pytest.approx(BayesianPCA().fit(Y).noise_variance_, rel=1e-5)
    assert any(advice.code == "borrowed-noise" for advice in found.status_.advice)
