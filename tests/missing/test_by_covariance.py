"""Starts and trial ranks by EM over the feature covariance: when they are used, where they lead."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from bayespca import inference
from bayespca.inference.fitting import settle
from bayespca.lowrank.noise_models import NOISES
from bayespca.missing.dense import fit as module
from bayespca.missing.dense.start import LEAST_NOISE, Sizes, by_covariance, covariance_pays

from .sweeping import asked, with_holes

NEARLY_FULL = {"n": 500, "p": 24, "rank": 20, "share": 0.1, "noise": 0.5}


def sizes(n, p, share, m=None):
    return Sizes(n, p, np.full(n if m is None else m, round(p * share)))


# n, p, share of holes, patterns, components, whether it pays.
PLANS = [
    (6178, 77, 0.16, None, 63, True),
    (1500, 61, 0.1, None, 58, True),
    (1500, 36, 0.1, 1300, 23, True),
    (1500, 16, 0.1, 424, 14, True),
    (1000, 12, 0.1, 172, 10, False),  # the overhead of calls dominates
    (10_000, 100, 0.5, None, 8, False),  # low rank
    (1000, 200, 0.2, None, 13, False),
    (1500, 61, 0.95, None, 20, False),  # nearly as many holes as features
    (6178, 77, 0.16, 10, 63, False),  # few patterns: few inverses
    (60, 77, 0.16, None, 59, False),  # more features than rows
]


@pytest.mark.parametrize(("n", "p", "share", "m", "rank", "pays"), PLANS)
def test_the_plan_counts_work(n, p, share, m, rank, pays):
    assert covariance_pays(sizes(n, p, share, m), rank) is pays


@pytest.mark.parametrize("rank", [5, 20, 50])
def test_more_components_never_speak_against_it(rank):
    table = sizes(3000, 60, 0.1)
    assert covariance_pays(table, rank + 5) or not covariance_pays(table, rank)


def way(Y, *, method="evb", noise="isotropic", noise_variance=0.1, change=None, **options):
    model, table = asked(Y, method, noise=NOISES[noise], **options)
    rows = table.rows if change is None else change(table.rows)
    return by_covariance(rows, model, rank=22, noise_variance=noise_variance)


def test_it_is_for_rows_that_count_the_same():
    Y = with_holes(**NEARLY_FULL)[1]
    assert way(Y) is not None
    assert way(Y, noise="per-feature") is not None
    assert way(Y, method="vb", prior_variance=1.0) is None
    assert way(Y, noise_variance=0.1 * LEAST_NOISE) is None
    assert way(Y, change=lambda rows: rows.weighted(np.ones(len(Y)))) is None
    assert way(Y, change=lambda rows: rows.with_cells(rows.mask * 1.0)) is None
    assert way(Y, change=lambda rows: replace(rows, known=rows.mask * 1.0)) is None


def sweeps_of(monkeypatch, Y, **options):
    """The finished run of a fit, and its number of sweeps, including those of trials."""
    count, plain = [0], module.DenseModel.step

    def step(self, *given):
        count[0] += 1
        return plain(self, *given)

    with monkeypatch.context() as patched:
        patched.setattr(module.DenseModel, "step", step)
        settled = settle(*asked(Y, **options), inference.Looping(max_iter=2000, tol=1e-8))
    return settled.run, count[0]


@pytest.mark.parametrize("center", [True, False])
def test_few_sweeps_are_left_and_end_as_low(monkeypatch, center):
    Y = with_holes(**NEARLY_FULL)[1]
    quick, few = sweeps_of(monkeypatch, Y, center=center)
    monkeypatch.setattr(module, "by_covariance", lambda *_, **__: None)
    plain, many = sweeps_of(monkeypatch, Y, center=center)
    assert quick.state.rank == plain.state.rank
    assert quick.free_energy <= plain.free_energy + 1e-7 * abs(plain.free_energy)
    assert 2 * few <= many


def test_noise_that_is_given_stays(monkeypatch):
    Y = with_holes(**NEARLY_FULL)[1]
    quick, _ = sweeps_of(monkeypatch, Y, noise_variance=0.3)
    monkeypatch.setattr(module, "by_covariance", lambda *_, **__: None)
    plain, _ = sweeps_of(monkeypatch, Y, noise_variance=0.3)
    # A chart holds the logarithm of the noise: the way there and back may cost the last digit.
    assert quick.state.noise_variance == pytest.approx(plain.state.noise_variance, rel=1e-15)
    assert quick.free_energy <= plain.free_energy + 1e-7 * abs(plain.free_energy)


def test_trials_begin_where_another_rank_is_lowest(monkeypatch):
    """Sweeps gain next to nothing from there, unlike after merely dropping the last component."""
    model, table = asked(with_holes(**NEARLY_FULL)[1])
    state = settle(model, table, inference.Looping(max_iter=500, tol=1e-8)).run.state
    less, step = model.moves(table)[0].less, partial(model.step, data=table)
    found, dropped = less(state), state.without(state.rank - 1)
    assert found.rank == dropped.rank == state.rank - 1
    first, after = step(found)[1].free_energy, step(step(found)[0])[1].free_energy
    assert first - after < 0.1
    assert step(dropped)[1].free_energy > after + 1


def test_components_that_had_better_go_are_gone_at_the_start():
    """Rounds alone would keep them, because each round refills the holes with them."""
    model, table = asked(with_holes(n=200, p=30, rank=20, share=0.4, noise=0.5)[1])
    filled = module.fill(table.rows, most=model.most)
    way = by_covariance(table.rows, model, rank=17, noise_variance=filled.noise_variance)
    settled = settle(model, table, inference.Looping(max_iter=2000, tol=1e-8)).run.state
    kept = replace(way, problem=replace(model, exactly=True)).start(filled)
    assert kept.rank >= settled.rank + 2 >= way.start(filled).rank


def test_one_more_begins_with_the_strongest_of_what_is_left():
    """Rounds would lose a direction without strength again."""
    model, table = asked(with_holes(n=300, p=24, rank=16, share=0.3, noise=0.7)[1])
    settled = settle(model, table, inference.Looping(max_iter=2000, tol=1e-8)).run
    move, step = model.moves(table)[0], partial(model.step, data=table)
    less = move.less(settled.state)
    for _ in range(3):
        less, _ = step(less)
    assert less.rank == settled.state.rank - 1
    more = move.more(less)
    assert more.rank == settled.state.rank
    assert step(more)[1].free_energy < settled.free_energy + 0.1


def test_hardly_any_noise_is_left_to_sweeps():
    model, table = asked(with_holes(**{**NEARLY_FULL, "noise": 1e-4})[1])
    rows = table.rows
    found = by_covariance(rows, model, rank=22, noise_variance=0.1)
    assert found is not None
    assert found.start(module.fill(rows, most=model.most)) is None
