"""Draws of natural parameters leave the posterior invariant, and averages over them are right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from bayespca.discrete.columns import LIKELIHOODS
from bayespca.discrete.data import TableCells
from bayespca.discrete.gibbs import posterior as drawing
from bayespca.discrete.gibbs import step as gibbs
from bayespca.discrete.gibbs.fit import fit, start
from bayespca.discrete.gibbs.posterior import NaturalDraws
from bayespca.discrete.gibbs.step import NaturalDraw, natural
from bayespca.discrete.likelihoods.likelihood import Likelihood
from bayespca.discrete.polya_gamma import polya_gamma
from bayespca.inference.chains import Schedule
from oracles import polya_gamma as oracle
from oracles.likelihoods import LOG_PROBABILITIES

from .tables import simulated

KINDS = {"normal": 1, "bernoulli": 2, "ordinal": 1}


@pytest.mark.parametrize("c", [0.0, 0.7, 2.0, 3.3, 8.0, 40.0])
def test_polya_gamma_variables_have_their_laplace_transform(c):
    w = polya_gamma(np.full(200_000, c), np.random.default_rng(0))
    for t in (0.5, 5.0, 50.0):
        values = np.exp(-t * w)
        error = 4 * values.std() / np.sqrt(w.size)
        assert values.mean() == pytest.approx(oracle.laplace(t, c), abs=error)


@pytest.mark.parametrize("c", [0.0, -1.5, 6.0])
def test_polya_gamma_variables_are_sums_of_exponentials(c):
    rng = np.random.default_rng(1)
    found = stats.ks_2samp(polya_gamma(np.full(5000, c), rng), oracle.draws(c, 5000, rng))
    assert found.pvalue > 1e-3


def test_polya_gamma_variables_far_out_and_of_holes():
    found = polya_gamma(np.array([np.nan, 1e-300, 1e3, -1e6]), np.random.default_rng(0))
    assert found[0] == 0
    assert 0.01 < found[1] < 3
    assert found[2:] == pytest.approx([0.5e-3, 0.5e-6], rel=0.3)


# --- the posterior is invariant ------------------------------------------------------------------


def drawn_prior(cells, H, rng):
    n, p = cells.shape
    alpha, precision = rng.gamma(gibbs.SHAPE, 1 / gibbs.RATE, size=(2, max(H, 1)))
    b = rng.normal(size=(p, H)) / np.sqrt(alpha)
    mu = rng.normal(size=p) / np.sqrt(precision[0])
    a = rng.normal(size=(n, H))
    return NaturalDraw(a, np.column_stack([b, mu]), alpha, float(1 / precision[0]))


def drawn_cells(cells, state, rng):
    z = natural(state.a, state.b)
    groups = [
        replace(group, values=group.likelihood.drawn(z[:, some], group.parameters, rng))
        for group, some in cells.with_columns()
    ]
    return TableCells(tuple(groups))


def looked_at(cells, state):
    """Functions of all that is drawn, none of which changes with rotations of components."""
    z = natural(state.a, state.b)
    x = np.concatenate([group.numbers for group in cells.groups], axis=1)
    squares = (state.b[:, :-1] ** 2).sum()
    return [
        *(np.tanh(z).mean(), np.tanh(z * z).mean(), np.tanh(state.b[:, -1]).mean()),
        *(np.tanh(squares), np.tanh((state.a**2).mean()), np.log(state.alpha).mean()),
        *(np.log(state.spread), np.tanh(x * z).mean(), np.tanh(x).mean()),
    ]


@pytest.mark.slow
def test_chains_that_draw_data_as_well_have_the_prior(monkeypatch):
    """Geweke, "Getting it right", JASA 99, 2004: sweeps alternate with draws of the cells."""
    monkeypatch.setattr(gibbs, "SHAPE", 3.0)
    monkeypatch.setattr(gibbs, "RATE", 2.0)
    cells, _ = simulated(KINDS, n=8, rank=1, holes=0.3)
    rng = np.random.default_rng(0)
    independent, chain = [], []
    for _ in range(3000):
        state = drawn_prior(cells, 2, rng)
        independent.append(looked_at(drawn_cells(cells, state, rng), state))
    state = drawn_prior(cells, 2, rng)
    for _ in range(6_000):
        now = drawn_cells(cells, state, rng)
        state = gibbs.sweep(state, now, rng)
        chain.append(looked_at(now, state))
    independent, chain = np.array(independent), np.array(chain)
    batches = chain.reshape(60, -1, chain.shape[1]).mean(axis=1)
    error = np.hypot(
        independent.std(axis=0) / np.sqrt(len(independent)), batches.std(axis=0) / np.sqrt(60)
    )
    apart = (chain.mean(axis=0) - independent.mean(axis=0)) / error
    assert np.abs(apart).max() < 3.7, apart


def test_stretching_changes_no_cell_and_has_its_density():
    cells, _ = simulated(KINDS, n=9, rank=1)
    rng = np.random.default_rng(0)
    state = drawn_prior(cells, 1, rng)
    n, p = len(state.a), len(state.b)
    new = gibbs.stretched(state, rng)
    assert natural(new.a, new.b) == pytest.approx(natural(state.a, state.b))
    u = np.linspace(-6, 6, 4001)[:, None]
    logs = stats.norm.logpdf(state.a[:, 0] * np.exp(-u)).sum(axis=1) + (p - n) * u[:, 0]
    # With α integrated out, loadings of a component are a multivariate t variable.
    scale = np.sqrt(gibbs.RATE / gibbs.SHAPE)
    t = stats.multivariate_t(np.zeros(p), scale**2 * np.eye(p), df=2 * gibbs.SHAPE)
    logs += np.array([t.logpdf(state.b[:, 0] * np.exp(one)) for one in u[:, 0]])
    weights = np.exp(logs - logs.max())
    below = np.cumsum(weights) / weights.sum()
    here, chain = state, []
    for _ in range(6000):
        here = gibbs.stretched(here, rng)
        chain.append(np.log(here.b[0, 0] / state.b[0, 0]))
    levels = np.array([0.1, 0.5, 0.9])
    wanted = np.interp(levels, below, u[:, 0])
    got = np.array([(np.array(chain) < one).mean() for one in wanted])
    assert got == pytest.approx(levels, abs=0.05)


# --- reading draws -------------------------------------------------------------------------------


def exact_row(cells, i, b):
    """Mean and variance of each z in a row with one component, on a fine grid."""
    a = np.linspace(-9, 9, 4001)
    z = a[:, None] * b[:, 0] + b[:, 1]
    logs = stats.norm.logpdf(a)
    for group, some in cells.with_columns():
        like = LOG_PROBABILITIES[group.likelihood.name]
        for q, j in enumerate(range(some.start, some.stop)):
            if group.seen is None or group.seen[i, q]:
                x = group.values[i, q]
                x = int(x) if group.likelihood.name == "ordinal" else x
                logs = logs + like(x, z[:, j], *group.parameters[q])
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = weights @ z
    return mean, weights @ (z - mean) ** 2


def test_cells_given_loadings_are_those_of_quadrature():
    cells, _ = simulated({"normal": 1, "bernoulli": 4, "ordinal": 2}, n=6, rank=1, holes=0.3)
    b = np.random.default_rng(0).normal(size=(7, 2))
    draws = NaturalDraws(np.tile(b, (1, 1500, 1, 1)), np.zeros((1, 1500)), 0)
    mean, variance = drawing.natural_moments(draws, cells)
    for i in range(6):
        m, v = exact_row(cells, i, b)
        assert mean[i] == pytest.approx(m, abs=0.05)
        assert variance[i] == pytest.approx(v, rel=0.1)
    direction = np.ones((1, 7)) / np.sqrt(7)
    scores, spread = drawing.score_moments(draws, cells, direction, b[:, 1])
    assert scores == pytest.approx((mean - b[:, 1]) @ direction.T, abs=0.02)
    assert spread[:, 0] == pytest.approx(
        variance.sum(axis=1) * (direction @ b[:, 0]) ** 2 / (b[:, 0] ** 2).sum(), rel=0.1
    )


def test_draws_of_cells_have_the_moments():
    cells, _ = simulated({"bernoulli": 5}, n=3, rank=1)
    b = np.random.default_rng(1).normal(size=(5, 2))
    draws = NaturalDraws(b[None, None], np.zeros((1, 1)), 0)
    rng = np.random.default_rng(0)
    z = np.array([drawing.drawn_natural(draws, cells, rng) for _ in range(400)])
    for i in range(3):
        m, v = exact_row(cells, i, b)
        assert z[:, i].mean(axis=0) == pytest.approx(m, abs=0.2)
        assert z[:, i].var(axis=0) == pytest.approx(v, rel=0.35)


def test_scores_follow_loadings_that_turn():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(5, 2)), rng.normal(size=(7, 3))
    angle = 0.7
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    new = np.column_stack([b[:, :2] @ turn, b[:, 2]])
    assert drawing._carried(a, b, new) == pytest.approx(a @ turn)


def test_seeds_and_sizes():
    cells, _ = simulated(KINDS, n=40, rank=1, holes=0.2)
    schedule = Schedule(n_chains=2, n_warmup=2, n_draws=3, thin=2)
    loadings = (np.ones((4, 2)), np.ones(1))
    one, same, other = (
        fit(cells, loadings, 3, schedule=schedule, rng=np.random.default_rng(seed))
        for seed in (0, 0, 1)
    )
    assert one.b.shape == (2, 3, 4, 4)
    assert (one.b == same.b).all()
    assert one.seed == same.seed
    assert not (one.b == other.b).any()
    assert not (one.b[0] == one.b[1]).any()
    z = drawing.natural_moments(one, cells)
    assert (z[0] == drawing.natural_moments(one, cells)[0]).all()


def test_chains_start_at_the_strongest_components():
    b = np.array([[1.0, 2.0, 5.0], [3.0, 4.0, 6.0]])
    found = start(b, np.array([0.25, 4.0]), 3, 1, np.random.default_rng(0))
    assert found.b == pytest.approx(np.array([[4.0, 5.0], [8.0, 6.0]]))
    wider = start(b, np.array([0.25, 4.0]), 3, 4, np.random.default_rng(0))
    assert natural(np.ones((1, 2)), wider.b[:, [0, 1, 4]]) == pytest.approx(
        np.array([[4.0 + 0.5 + 5.0, 8.0 + 1.5 + 6.0]])
    )


def test_likelihoods_that_cannot_be_augmented():
    plain = Likelihood.augmented
    able = {name for name, one in LIKELIHOODS.items() if type(one).augmented is not plain}
    assert able == {"normal", "bernoulli", "ordinal"}
    with pytest.raises(NotImplementedError, match="poisson"):
        LIKELIHOODS["poisson"].augmented(*[np.zeros((1, 1))] * 3, np.random.default_rng(0))


def test_draws_that_do_not_belong_together():
    b, logs = np.zeros((1, 2, 3, 2)), np.zeros((1, 2))
    with pytest.raises(ValueError, match="different sizes"):
        NaturalDraws(b, logs[:, :1], 0).check()
    with pytest.raises(ValueError, match="not finite"):
        NaturalDraws(b + np.nan, logs, 0).check()
