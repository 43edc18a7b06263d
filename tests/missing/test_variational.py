"""Bishop's model with holes: the bound is the defined one, and no part of a sweep lowers it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayespca import VariationalPCA, inference
from bayespca.linear.variational import fit as complete
from bayespca.lowrank import variational as shared
from bayespca.lowrank.observing import observed
from bayespca.lowrank.rows import latent
from bayespca.lowrank.variational import Hyper
from bayespca.missing.variational import fit as variational
from bayespca.missing.variational import idle
from bayespca.missing.variational import step as with_holes
from bayespca.missing.variational.data import counts_of
from bayespca.missing.variational.start import random_start, start
from bayespca.missing.variational.state import (
    IdleColumns,
    VariationalHolesChart,
    VariationalHolesState,
)
from oracles.variational import bound

HYPERS = {
    "broad": Hyper(),
    "strong": Hyper(a_alpha=2.0, b_alpha=3.0, a_tau=1.5, b_tau=0.7, beta=0.3),
    "no mean": Hyper(has_mean=False),
    "unit": Hyper(alpha=1.0, has_mean=False),
    "unit, with mean": Hyper(alpha=1.0),
}


def simulated(n, p, rank, share, *, noise=1.0, seed=0, offset=3.0):
    """Data, and the same with holes; every row and every column keeps a value."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, p)) + offset * rng.normal(size=p)
    X += noise * rng.normal(size=(n, p))
    holes = rng.random((n, p)) < share
    holes[np.arange(n), rng.integers(0, p, n)] = False
    holes[rng.integers(0, n, p), np.arange(p)] = False
    return X, np.where(holes, np.nan, X)


def prepared(hyper, n=12, p=6, *, q=5, sweeps=2, seed=0):
    """Data with holes and repeated rows, and a state after a few sweeps."""
    _, X = simulated(n, p, 2, 0.3, seed=seed)
    data = observed(np.concatenate([X, X[:3]]), center=hyper.has_mean, scale=False)
    assert len(data.patterns) < len(data.values)
    state = start(data, hyper, q)
    for _ in range(sweeps):
        state = with_holes.sweep(state, data, hyper)
    return data, state


# --- the slow way ------------------------------------------------------------------------------


def moments_of(state, data, hyper):
    """Moments of X for each row and all q columns, as `update_latent` computes them."""
    tau = shared.precision(state.b_tau, counts_of(data), hyper)
    mean, cov = latent(data, state.columns(tau))
    idle = 1 / (1 + tau * data.mask @ state.idle.variance)
    return {"m_x": mean, "cov_x": cov[data.pattern], "idle": idle}


def defined_bound(state, moments, data, hyper):
    """The oracle's bound, in the user's coordinates except for the unit."""
    (N, d), count = data.shape, state.idle.count
    idle_x = moments["idle"][:, None, None] * np.eye(count)
    off_w = state.idle.variance[:, None, None] * np.eye(count)
    T = np.where(data.mask, data.values, np.nan) + data.location / data.unit
    return bound(
        T,
        np.hstack([moments["m_x"], np.zeros((N, count))]),
        blocks(moments["cov_x"], idle_x),
        np.hstack([state.W, np.zeros((d, count))]),
        blocks(state.W_cov, off_w),
        np.append(state.b_alpha, np.full(count, state.idle.b_alpha)),
        state.b_tau,
        state.mu + data.location / data.unit,
        state.mu_variance,
        hyper,
    )


def blocks(a, b):
    """Block-diagonal matrices of each a and b."""
    n, h, k = len(a), a.shape[-1], b.shape[-1]
    out = np.zeros((n, h + k, h + k))
    out[:, :h, :h], out[:, h:, h:] = a, b
    return out


def moved(moments, R, c):
    """Moments of R⁻¹(x − c)."""
    back = np.linalg.inv(R)
    return moments | {
        "m_x": (moments["m_x"] - c) @ back.T,
        "cov_x": back @ moments["cov_x"] @ back.T,
    }


# --- the bound ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HYPERS)
@pytest.mark.parametrize("q", [0, 2, 5])
def test_the_bound_is_the_defined_one(name, q):
    hyper = HYPERS[name]
    data, state = prepared(hyper, q=q)
    assert state.b_alpha.size + state.idle.count == q
    found = with_holes.bound(state, with_holes.update_latent(state, data, hyper), data, hyper)
    expected = defined_bound(state, moments_of(state, data, hyper), data, hyper)
    assert found == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("name", HYPERS)
def test_the_bound_is_the_defined_one_in_the_best_coordinates(name):
    hyper = HYPERS[name]
    data, state = prepared(hyper, sweeps=0)
    moments = moments_of(state, data, hyper)
    x = with_holes.update_latent(state, data, hyper)
    before = with_holes.update_weights(state, x, data, hyper)
    after, on = with_holes.settled(before, x.on, data, hyper)
    R = np.linalg.lstsq(before.W, after.W)[0]
    c = np.linalg.lstsq(before.W, after.mu - before.mu)[0]
    assert np.abs(R - np.eye(len(R))).max() > 0.01
    assert np.abs(c).max() > 1e-4 or not hyper.has_mean
    found = with_holes.bound(after, replace(x, on=on), data, hyper)
    expected = defined_bound(after, moved(moments, R, c), data, hyper)
    assert found == pytest.approx(expected, rel=1e-8)


def test_idle_columns_are_columns_like_others():
    """An idle column that counts three times gives the bound of three explicit columns."""
    hyper = HYPERS["broad"]
    data, state = prepared(hyper)
    assert state.idle.count >= 1
    short = replace(state, idle=replace(state.idle, count=3))
    d, H = state.W.shape
    eye = state.idle.variance[:, None, None] * np.eye(3)
    long = replace(
        state,
        W=np.hstack([state.W, np.zeros((d, 3))]),
        W_cov=blocks(state.W_cov, eye),
        b_alpha=np.append(state.b_alpha, np.full(3, state.idle.b_alpha)),
        idle=replace(state.idle, count=0),
    )
    found = [
        with_holes.bound(s, with_holes.update_latent(s, data, hyper), data, hyper)
        for s in (short, long)
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-12)
    again = idle.made_idle(long, np.arange(H + 3) >= H)
    np.testing.assert_allclose(again.idle.variance, short.idle.variance)
    np.testing.assert_array_equal(again.W, short.W)
    assert again.idle.count == 3


# --- each part of a sweep ----------------------------------------------------------------------


@pytest.mark.parametrize("name", HYPERS)
def test_each_update_is_a_maximum(name):
    """No small change of any moment raises the defined bound."""
    hyper, rng = HYPERS[name], np.random.default_rng(1)
    data, state = prepared(hyper, sweeps=1)
    if not state.idle.count:  # under a unit prior all are on
        state = idle.made_idle(state, np.arange(state.b_alpha.size) > 2)

    def changed(value, size=1e-2):
        return value * (1 + size * rng.normal(size=np.shape(value)))

    x, moments = with_holes.update_latent(state, data, hyper), moments_of(state, data, hyper)
    base = defined_bound(state, moments, data, hyper)
    for key in moments:
        for _ in range(3):
            scale = rng.normal(size=(len(moments[key]), *(1,) * (moments[key].ndim - 1)))
            other = moments | {key: moments[key] * (1 + 1e-2 * scale)}
            assert defined_bound(state, other, data, hyper) < base, key
    state = with_holes.update_weights(state, x, data, hyper)
    base = defined_bound(state, moments, data, hyper)
    for _ in range(3):
        scale = 1 + 1e-2 * rng.normal(size=(data.shape[1], 1, 1))
        others = [
            replace(state, W=changed(state.W)),
            replace(state, W_cov=state.W_cov * scale),
            replace(state, idle=replace(state.idle, variance=changed(state.idle.variance))),
        ]
        if hyper.has_mean:
            # W and μ are updated together, so both are also changed at once.
            others += [
                replace(state, mu=changed(state.mu)),
                replace(state, W=changed(state.W), mu=changed(state.mu)),
                replace(state, mu_variance=changed(state.mu_variance)),
            ]
        if hyper.alpha is None:
            more = changed(state.idle.b_alpha)
            variance = state.idle.variance * more / state.idle.b_alpha
            others += [
                replace(state, idle=replace(state.idle, b_alpha=more)),
                replace(state, idle=replace(state.idle, b_alpha=more, variance=variance)),
            ]
        for other in others:
            assert defined_bound(other, moments, data, hyper) < base
    state = with_holes.update_gammas(state, x, data, hyper)
    base = defined_bound(state, moments, data, hyper)
    for factor in (0.99, 1.01):
        others = [replace(state, b_tau=factor * state.b_tau)]
        if hyper.alpha is None:
            others.append(replace(state, b_alpha=factor * state.b_alpha))
        for other in others:
            assert defined_bound(other, moments, data, hyper) < base


@pytest.mark.parametrize("name", ["broad", "strong", "unit, with mean"])
def test_the_shift_is_the_best(name):
    hyper, rng = HYPERS[name], np.random.default_rng(0)
    data, state = prepared(hyper, sweeps=1)
    moments = moments_of(state, data, hyper)
    x = with_holes.update_latent(state, data, hyper)
    state = with_holes.update_weights(state, x, data, hyper)
    shifted, _ = with_holes._shifted(state, x.on, data, hyper)
    c = np.linalg.lstsq(state.W, shifted.mu - state.mu)[0]
    eye = np.eye(c.size)
    base = defined_bound(shifted, moved(moments, eye, c), data, hyper)
    assert base > defined_bound(state, moments, data, hyper)
    for size in (1e-3, 0.1):
        for _ in range(4):
            other = c + size * rng.normal(size=c.size)
            there = replace(state, mu=state.mu + state.W @ other)
            assert defined_bound(there, moved(moments, eye, other), data, hyper) < base


@pytest.mark.parametrize("name", ["broad", "strong", "unit"])
@pytest.mark.parametrize("shape", [(60, 9), (9, 60)])
def test_the_turn_is_the_best(name, shape):
    hyper, rng = HYPERS[name], np.random.default_rng(0)
    counts = shared.Counts(*shape, shape[0] * shape[1])
    root_x, root_w = rng.normal(size=(2, 3, 3))
    Sxx, Sww = shape[0] * root_x @ root_x.T, shape[1] * root_w @ root_w.T
    R = shared.best_turn(Sxx, Sww, counts, hyper)
    base = shared.turned_bound(R, Sxx, Sww, counts, hyper)
    for size in (1e-3, 0.3):
        for _ in range(20):
            other = R @ (np.eye(3) + size * rng.normal(size=(3, 3)))
            assert shared.turned_bound(other, Sxx, Sww, counts, hyper) < base
    back = np.linalg.inv(R)
    stay = shared.best_turn(back @ Sxx @ back.T, R.T @ Sww @ R, counts, hyper)
    assert stay is None or np.allclose(np.abs(stay), np.eye(3), atol=1e-6)


@given(
    seed=st.integers(0, 10_000),
    n=st.integers(2, 15),
    p=st.integers(1, 8),
    q=st.integers(0, 6),
    share=st.floats(0.0, 0.8),
    name=st.sampled_from(list(HYPERS)),
    closed=st.booleans(),
    offset=st.sampled_from([0.0, 3.0, 100.0]),
)
def test_the_bound_never_falls(seed, n, p, q, share, name, closed, offset):
    """A fall is a warning, and warnings are errors here."""
    hyper, rng = HYPERS[name], np.random.default_rng(seed)
    _, X = simulated(n, p, min(2, p), share, seed=seed, offset=offset)
    data = observed(X, center=hyper.has_mean, scale=False)
    q = min(q, n, p)
    state = start(data, hyper, q) if closed else random_start(data, hyper, q, rng)
    step = partial(with_holes.step, data=data, hyper=hyper)
    run = inference.run(step, state, max_iter=25, tol=1e-14)
    assert run.state.b_alpha.size + run.state.idle.count == q


# --- whole fits --------------------------------------------------------------------------------


def fitted(X, hyper=HYPERS["broad"], *, q=None, tol=1e-8, **options):
    looping = inference.Looping(max_iter=5000, tol=tol, **options)
    return variational.fit(X, hyper, looping, n_components=q)


def weights_on(found):
    """⟨W⟩ of the columns that are on."""
    return found.weights[:, : found.n_components]


def weights_cov(found):
    """Posterior covariance of each row of W, for the columns that are on."""
    posterior, k = found.posterior, found.n_components
    return posterior.columns.b_cov[:, :k, :k] * posterior.unit**2


def mean_variance(found):
    """Variance of each entry of μ."""
    return found.posterior.columns.b_cov[:, -1, -1] * found.posterior.unit**2


@pytest.mark.parametrize("name", HYPERS)
@pytest.mark.parametrize(("n", "p", "rank"), [(40, 12, 2), (15, 30, 2), (200, 10, 3)])
def test_without_holes_the_answer_is_that_of_complete_data(name, n, p, rank, monkeypatch):
    # Accelerated steps stop when the free energy no longer falls, which fixes only half of the
    # digits of the weights; plain steps go on for as long as it falls at all.
    for model in (complete.VariationalModel, variational.VariationalHolesModel):
        monkeypatch.setattr(model, "chart", lambda self, data: None)
    hyper = HYPERS[name]
    X, _ = simulated(n, p, rank, 0.0)
    X = X if hyper.has_mean else X - X.mean(axis=0)
    # One random start may end in a lower maximum.
    looping = inference.Looping(max_iter=20_000, tol=0.0, n_init=4, random_state=0)
    a = complete.fit(X, hyper, looping)
    b = fitted(X, hyper, tol=0.0)
    assert b.free_energy == pytest.approx(a.free_energy, rel=1e-8)
    assert b.noise_variance == pytest.approx(a.noise_variance, rel=1e-6)
    assert b.n_components == a.n_components
    assert b.weights.shape == a.weights.shape
    low_rank = [weights_on(found) @ weights_on(found).T for found in (a, b)]
    np.testing.assert_allclose(*low_rank, atol=1e-6 * np.abs(low_rank[0]).max())
    np.testing.assert_allclose(b.posterior.mean, a.posterior.mean, atol=1e-6)
    np.testing.assert_allclose(mean_variance(b), mean_variance(a), rtol=1e-6)
    spread = [np.trace(weights_cov(found), axis1=1, axis2=2) for found in (a, b)]
    np.testing.assert_allclose(*spread, rtol=1e-5)
    np.testing.assert_allclose(b.alpha, a.alpha, rtol=1e-3)


@pytest.mark.parametrize(("n", "p", "rank"), [(300, 40, 4), (80, 120, 3), (200, 25, 0)])
@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_the_rank_is_found(n, p, rank, share):
    for seed in range(3):
        _, X = simulated(n, p, rank, share, seed=seed)
        found = fitted(X)
        assert found.converged
        assert found.n_components == rank
        # Idle columns do not cost sweeps.
        assert len(found.trace) < 40
        cells = np.count_nonzero(~np.isnan(X))
        # Four standard errors, plus the noise that idle columns absorb.
        error = 4 * np.sqrt(2 / (cells - (rank + 1) * (n + p)))
        assert found.noise_variance == pytest.approx(1.0, abs=error + 0.05)


@pytest.mark.parametrize("name", ["broad", "unit, with mean"])
def test_other_starts_lead_no_higher(name):
    """Starts from normal draws end at the bound of the closed-form start, or below."""
    hyper = HYPERS[name]
    for seed in range(3):
        _, X = simulated(50, 12, 3, 0.2, seed=seed)
        data = observed(X, center=True, scale=False)
        inner = hyper.in_units(data.unit[0])
        ends = []
        for state in (
            start(data, inner, 11),
            random_start(data, inner, 11, np.random.default_rng(seed)),
        ):
            step = partial(with_holes.step, data=data, hyper=inner)
            ends.append(-inference.run(step, state, max_iter=1000, tol=1e-10).free_energy)
        assert ends[0] > ends[1] - 1e-3


def test_several_starts_are_the_closed_form_and_normal_draws():
    _, X = simulated(30, 8, 2, 0.2)
    counts = []
    found = fitted(X, n_init=3, random_state=0, callback=lambda number, info: counts.append(number))
    assert counts.count(1) == 3
    alone = fitted(X)
    assert found.free_energy <= alone.free_energy


def test_units():
    """Data and priors in other units give the same answer in those units."""
    _, X = simulated(60, 10, 2, 0.2)
    c, hyper = 1e5, Hyper()
    a = fitted(X, hyper, tol=1e-12)
    b = fitted(X * c, hyper.in_units(1 / c), tol=1e-12)
    cells = np.count_nonzero(~np.isnan(X))
    assert b.free_energy == pytest.approx(a.free_energy + cells * np.log(c), rel=1e-9)
    assert b.noise_variance == pytest.approx(c**2 * a.noise_variance, rel=1e-8)
    np.testing.assert_allclose(b.posterior.mean, c * a.posterior.mean, rtol=1e-8)
    np.testing.assert_allclose(mean_variance(b), c**2 * mean_variance(a), rtol=1e-8)
    np.testing.assert_allclose(b.alpha, a.alpha / c**2, rtol=1e-6)


def test_the_prior_of_the_mean_is_about_zero():
    """A strong prior pulls the means to zero, although the data were centred first."""
    _, X = simulated(60, 10, 2, 0.2, offset=30.0)
    weak, strong = (fitted(X, Hyper(beta=beta)).posterior.mean for beta in (1e-6, 1e3))
    np.testing.assert_allclose(weak, np.nanmean(X, axis=0), atol=1.5)
    assert np.abs(strong).max() < 0.1 * np.abs(weak).max()


def test_empty_rows_and_columns_and_constant_ones():
    _, X = simulated(60, 8, 2, 0.2)
    plain = fitted(X, tol=1e-12)
    wider = np.insert(np.insert(X, 3, np.nan, axis=1), 5, 7.5, axis=1)
    wider[::3, 5] = np.nan
    found = fitted(np.insert(wider, 10, np.nan, axis=0), q=7, tol=1e-12)
    kept = [0, 1, 2, 4, 6, 7, 8, 9]
    assert found.free_energy == pytest.approx(plain.free_energy, rel=1e-10)
    np.testing.assert_allclose(weights_on(found)[kept], weights_on(plain), rtol=1e-6)
    np.testing.assert_array_equal(weights_on(found)[[3, 5]], 0)
    np.testing.assert_allclose(weights_cov(found)[3], np.diag(1 / found.alpha[:2]))
    np.testing.assert_array_equal(weights_cov(found)[5], 0)
    assert (found.posterior.mean[3], found.posterior.mean[5]) == (0.0, 7.5)
    assert mean_variance(found)[3] == pytest.approx(1e3)
    assert 0 < mean_variance(found)[5] < 0.1
    assert [item.code for item in found.status.advice] == ["empty-rows", "empty-columns"]
    assert found.n_samples == 61


def test_data_without_noise():
    """With noise as small as rounding errors, the fit ends without a warning."""
    X, _ = simulated(40, 8, 2, 0.0, noise=0.0)
    X[::4, 1] = np.nan
    small = Hyper(b_alpha=1e-10, b_tau=1e-10)
    found = fitted(X, small)
    assert found.n_components == 2
    assert found.noise_variance < 1e-8


def test_states_are_frozen_records():
    hyper = HYPERS["broad"]
    data, state = prepared(hyper)
    before = replace(state, W=state.W.copy(), idle=replace(state.idle))
    with_holes.step(state, data, hyper)
    np.testing.assert_array_equal(state.W, before.W)
    assert isinstance(state, VariationalHolesState)
    assert isinstance(state.idle, IdleColumns)


def test_a_state_is_where_its_vector_is():
    """A step from a state equals the step from the state rebuilt from its vector."""
    hyper = Hyper()
    data, state = prepared(hyper, sweeps=4)
    chart = VariationalHolesChart(data, hyper)
    vector = chart.point(state, None).vector
    again = chart.at(state, vector)
    np.testing.assert_allclose(chart.point(again, vector).vector, vector, rtol=1e-9, atol=1e-9)
    expected = with_holes.step(state, data, hyper)[1].free_energy
    assert with_holes.step(again, data, hyper)[1].free_energy == pytest.approx(expected, rel=1e-12)


def test_accelerated_sweeps_end_as_high_in_half_of_the_sweeps(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 12)) * np.exp(-np.arange(12) / 4) @ rng.normal(size=(12, 12))
    X[rng.random(X.shape) < 0.1] = np.nan
    quick = VariationalPCA(random_state=0).fit(X)
    monkeypatch.setattr(variational.VariationalHolesModel, "chart", lambda model, data: None)
    plain = VariationalPCA(random_state=0, tol=1e-11, max_iter=5000).fit(X)
    assert quick.fit_.free_energy <= plain.fit_.free_energy + 1e-7 * abs(plain.fit_.free_energy)
    assert 2 * quick.n_iter_ <= plain.n_iter_
