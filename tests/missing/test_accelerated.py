"""Accelerated sweeps over matrices with holes end where plain ones do, or lower, and sooner."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bayespca.inference import run
from bayespca.lowrank.noise_models import ISOTROPIC, NOISES

from .sweeping import asked, with_holes

TOL = 1e-8

KINDS = {
    "low rank": {"n": 60, "p": 12, "rank": 2, "share": 0.2},
    "near-full rank": {"n": 80, "p": 9, "rank": 7, "share": 0.1, "noise": 0.3},
    "hardly any noise": {"n": 50, "p": 8, "rank": 3, "share": 0.2, "noise": 1e-3},
    "90 % holes": {"n": 150, "p": 20, "rank": 1, "share": 0.9, "noise": 0.5},
}


def compared(model, table, *, max_iter=1000):
    """Plain and accelerated runs from the same start."""
    start = model.start(table, np.random.default_rng(0))

    def step(state):
        return model.step(state, table)

    plain = run(step, start, max_iter=max_iter, tol=1e-13)
    quick = run(step, start, max_iter=max_iter, tol=TOL, chart=model.chart(table))
    return plain, quick


def check(plain, quick):
    assert quick.converged
    assert (np.diff(quick.trace.free_energy) <= 1e-9 * abs(quick.free_energy)).all()
    assert quick.free_energy <= plain.free_energy + 2 * TOL * (abs(plain.free_energy) + 1)


@pytest.mark.parametrize("kind", KINDS)
def test_random_problems_end_as_low(kind):
    for seed in range(4):
        model, table = asked(with_holes(**KINDS[kind], seed=seed)[1])
        plain, quick = compared(model, table)
        check(plain, quick)
        assert quick.n_iter <= plain.n_iter


def test_near_full_rank_takes_a_few_sweeps():
    """With little noise, plain sweeps creep: they take three times as many to get as low."""
    model, table = asked(with_holes(**KINDS["near-full rank"])[1])
    plain, quick = compared(model, table)
    reached = plain.trace.free_energy <= quick.free_energy + 1e-6
    assert 3 * quick.n_iter <= np.argmax(reached)


@pytest.mark.parametrize("unit", [1e-100, 1e100])
def test_any_scale(unit):
    _, Y = with_holes(**KINDS["near-full rank"])
    numbers = [compared(*asked(scaled))[1].n_iter for scaled in (Y, unit * Y)]
    assert numbers[0] == numbers[1]


@pytest.mark.parametrize("noise", ["per-feature", "per-sample"])
def test_noise_of_features_and_samples(noise):
    rng = np.random.default_rng(1)
    for seed in range(3):
        _, Y = with_holes(100, 10, 3, 0.15, seed=seed)
        Y = Y + rng.normal(size=Y.shape) * np.exp(rng.normal(size=10))
        check(*compared(*asked(Y, noise=NOISES[noise])))


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("epb", {}),
        ("emap", {}),
        ("vb", {"prior_variance": 4.0}),
        ("pb-a", {"prior_variance": 4.0}),
        ("map", {"prior_variance": 4.0}),
        ("ml", {"n_components": 3}),
    ],
)
def test_every_method(method, options):
    _, Y = with_holes(60, 10, 3, 0.2, noise=0.5)
    if method not in ("vb", "ml"):  # vb and ml find the noise themselves
        options = {**options, "noise_variance": 0.25}
    check(*compared(*asked(Y, method, **options)))


@pytest.mark.parametrize("noise", [ISOTROPIC, NOISES["per-feature"]])
def test_a_state_is_where_its_vector_is(noise):
    """A step from a state equals the step from the state rebuilt from its vector."""
    model, table = asked(with_holes(**KINDS["near-full rank"])[1], noise=noise)
    state = model.start(table, np.random.default_rng(0))
    for _ in range(3):
        state, _ = model.step(state, table)
    chart = model.chart(table)
    vector = chart.point(state, None).vector
    again = chart.at(state, vector)
    np.testing.assert_allclose(chart.point(again, vector).vector, vector, rtol=1e-9, atol=1e-9)
    expected = model.step(state, table)[1].free_energy
    assert model.step(again, table)[1].free_energy == pytest.approx(expected, rel=1e-12)


def test_turned_loadings_have_the_same_vector():
    """The vector does not depend on signs and order of components."""
    model, table = asked(with_holes(**KINDS["low rank"])[1])
    state = model.start(table, np.random.default_rng(0))
    for _ in range(5):
        state, _ = model.step(state, table)
    H = state.rank
    order, signs = np.append(np.arange(H)[::-1], H), np.append(-np.ones(H), 1.0)
    turned = replace(
        state,
        b=state.b[:, order] * signs,
        b_cov=state.b_cov[:, order][:, :, order] * np.outer(signs, signs),
        prior_a=state.prior_a[::-1],
        prior_b=state.prior_b[::-1],
    )
    chart = model.chart(table)
    vector = chart.point(state, None).vector
    np.testing.assert_allclose(chart.point(turned, vector).vector, vector, rtol=1e-8, atol=1e-10)
