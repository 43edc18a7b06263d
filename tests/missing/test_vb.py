"""Empirical VB over holes: the rank is found, and shortcuts change nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from bayespca import BayesianPCA, inference
from bayespca.lowrank.filling import fill
from bayespca.missing.dense import start as starts
from bayespca.missing.dense import step as vb
from bayespca.missing.dense.start import start

from .sweeping import asked, swept, with_holes


@pytest.mark.parametrize(
    ("n", "p", "rank", "share"),
    [
        (300, 50, 4, 0.5),
        (100, 200, 3, 0.3),
        (400, 30, 0, 0.3),
        (500, 80, 6, 0.1),
        (60, 20, 2, 0.2),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_the_rank_is_found(n, p, rank, share, seed):
    _, X = with_holes(n, p, rank, share, seed=seed)
    run, _, data = swept(X, max_iter=200, tol=1e-8)
    assert run.converged
    assert run.state.rank == rank
    assert run.n_iter < 40
    # Four standard errors of a variance, from the degrees of freedom that the components leave.
    freedom = data.column_counts.sum() - rank * (n + p)
    noise = run.state.noise_variance * data.unit[0] ** 2
    assert noise == pytest.approx(1.0, abs=4 * np.sqrt(2 / freedom))


def begun(Y):
    model, table = asked(Y)
    return table.rows, model, start(table.rows, model, fill(table.rows, most=model.most))


def test_patterns_only_save_work():
    """Grouping rows by their holes gives the same answer as treating each row alone."""
    _, X = with_holes(20, 8, 2, 0.3)
    data, model, state = begun(np.concatenate([X, X[::-1]]))
    assert len(data.patterns) < 40
    alone = replace(data, patterns=data.mask, starts=np.arange(41))
    a, b = vb.step(state, data, model), vb.step(state, alone, model)
    assert a[1].free_energy == pytest.approx(b[1].free_energy, rel=1e-12)
    low_rank = [new.b[:, :-1] @ new.b[:, :-1].T for new, _ in (a, b)]
    np.testing.assert_allclose(*low_rank, atol=1e-10)


def test_blocks_only_save_memory(monkeypatch):
    _, X = with_holes(50, 8, 2, 0.3)
    data, model, state = begun(np.concatenate([X, X]))
    whole = vb.step(state, data, model)
    monkeypatch.setattr("bayespca.lowrank.holes.BLOCK", 7)
    pieces = vb.step(state, data, model)
    assert pieces[1].free_energy == pytest.approx(whole[1].free_energy, rel=1e-12)
    np.testing.assert_allclose(pieces[0].b, whole[0].b, atol=1e-10)


def test_the_order_of_rows_and_columns_does_not_matter():
    _, X = with_holes(60, 9, 2, 0.3)
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(60), rng.permutation(9)
    plain, mixed = BayesianPCA().fit(X), BayesianPCA().fit(X[rows][:, columns])
    assert mixed.free_energy_ == pytest.approx(plain.free_energy_, rel=1e-9)
    np.testing.assert_allclose(
        mixed.impute(X[rows][:, columns]), plain.impute(X)[rows][:, columns], atol=1e-4
    )


def test_components_too_many_do_not_cost_a_sweep_each(monkeypatch):
    """If the signal is strong, a filled matrix shows many spurious components.

    A start by the covariance of the features would avoid them; it is switched off here.
    """
    monkeypatch.setattr(starts, "covariance_pays", lambda sizes, rank: False)
    _, Y = with_holes(3000, 100, 10, 0.4, noise=0.5)
    run, _, _ = swept(Y, tol=1e-8)
    dropped = int(run.trace.rank[0]) - 10
    assert run.state.rank == 10
    assert dropped > 3
    assert run.n_iter < dropped + 5


def test_a_component_that_the_start_has_missed_is_found():
    _, Y = with_holes(300, 20, 3, 0.3)
    run, model, data = swept(Y, tol=1e-10)
    less = run.state.without(1)
    begun_again = inference.run(
        partial(vb.step, data=data, problem=model), less, max_iter=2000, tol=1e-6
    )
    assert begun_again.state.rank == 2
    move = model.moves(asked(Y)[1])[0]
    found, by_rank = inference.searched(
        begun_again,
        partial(vb.step, data=data, problem=model),
        less=move.less,
        more=move.more,
        max_iter=1000,
        tol=1e-10,
    )
    assert found.state.rank == 3
    assert found.free_energy == pytest.approx(run.free_energy, rel=1e-7)
    assert set(by_rank) >= {2, 3}
    energies = found.trace.free_energy
    assert (np.diff(energies) <= 1e-9 * np.abs(energies[1:])).all()
