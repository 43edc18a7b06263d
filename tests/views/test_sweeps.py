"""Sweeps over several views against their definition, and against one view alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bayespca import BayesianPCA, MultiViewPCA, inference
from bayespca.inference.fitting import Looping, settle
from bayespca.lowrank.rows import latent, sums_over_rows
from bayespca.views.data import views_table
from bayespca.views.fit import ViewsModel
from bayespca.views.pattern import cost_of_pattern
from bayespca.views.start import start
from bayespca.views.step import step
from oracles import views as oracle
from views.simulated import PATTERN, pierced, rows_of, side_by_side, simulated

SMALL = {"n": 14, "sizes": (5, 4, 3), "pattern": PATTERN[[0, 3]], "strength": (1.5, 2.5)}


def table_of(tables):
    return views_table(*side_by_side(tables), len(tables))


def settled(table, most=20, tol=1e-13):
    found = settle(ViewsModel(most), table, Looping(max_iter=3000, tol=tol))
    return found.run.state


def tables_of(holes, **sizes):
    tables = simulated(3, **sizes)[1]
    return pierced(tables, 0.15) if holes else tables


@pytest.mark.parametrize("holes", [False, True])
def test_the_free_energy_is_its_definition(holes):
    table = table_of(tables_of(holes, **SMALL))
    state = settled(table)
    rows = table.rows.multiplied(np.ones(table.rows.shape[0]), 1 / state.roots(table))
    a, cov = latent(rows, state.columns(table))
    X = np.where(table.rows.mask, table.rows.values, np.nan)
    A, B = oracle.Moments(a, cov[rows.pattern]), oracle.Moments(state.b, state.b_cov)
    expected = oracle.free_energy(X, table.view, A, B, state.prior, state.noise)
    found = state.energy - cost_of_pattern(state.active, table.sizes)
    assert state.rank == 2
    assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("holes", [False, True])
def test_coordinate_descent_ends_no_lower(holes):
    table = table_of(tables_of(holes, **SMALL))
    state = settled(table)
    X = np.where(table.rows.mask, table.rows.values, np.nan)
    by_descent = [
        oracle.descended(X, table.view, state.active, rounds=40, seed=seed) for seed in range(2)
    ]
    found = state.energy - cost_of_pattern(state.active, table.sizes)
    assert found < min(by_descent) + 1e-3
    # Descent approaches the same minimum slowly.
    assert min(by_descent) - found < 1.0


def test_sums_without_holes_are_those_of_rows_with_holes():
    table = table_of(tables_of(False))
    state = start(table, 20)
    for _ in range(3):
        state, _ = step(state, table)
    found, root = state.sums(table), state.roots(table)
    share = table.rows.share
    expected = sums_over_rows(table.rows, state.columns(table), share=share, root=root)
    np.testing.assert_allclose(found.second, expected.second, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.cross, expected.cross * root[:, None], rtol=1e-8, atol=1e-8)
    assert found.log_det == pytest.approx(float(expected.log_det), rel=1e-10)


@pytest.mark.parametrize("holes", [False, True])
def test_no_sweep_raises_the_free_energy(holes):
    table = table_of(tables_of(holes))
    state, energies = start(table, 20), []
    for _ in range(25):
        state, info = step(state, table)
        energies.append(info.free_energy)
    assert (np.diff(energies) < 1e-9 * np.abs(energies[:-1])).all()


@pytest.mark.parametrize("holes", [False, True])
def test_one_view_is_empirical_variational_bayes(holes):
    (X,) = simulated(1, sizes=(40,), pattern=PATTERN[:3, :1])[1]
    if holes:
        (X,) = pierced([X])
    looping = Looping(max_iter=3000, tol=1e-13)
    found = inference.fit(ViewsModel(20), table_of([X]), looping)
    model = BayesianPCA(noise="isotropic", tol=1e-13).fit(X)
    assert found.n_components == model.n_components_ == 2
    assert found.free_energy == pytest.approx(model.free_energy_, rel=1e-8)
    assert found.noise[0] == pytest.approx(model.noise_variance_, rel=1e-6)
    b = found.posterior.components.T * found.posterior.scale[:, None]
    by_closed_form = np.linalg.svd(model.components_ @ np.linalg.qr(b)[0])[1]
    np.testing.assert_allclose(by_closed_form, 1.0, atol=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_the_pattern_is_found(seed):
    _, tables, pattern = simulated(seed)
    state = settled(table_of(tables), tol=1e-8)
    assert rows_of(state.active.T) == rows_of(pattern)


def test_the_pattern_is_found_with_holes_and_absent_rows():
    _, tables, pattern = simulated(7)
    tables = pierced(tables, 0.3)
    tables[1][:25] = np.nan
    tables[2][20:30] = np.nan
    state = settled(table_of(tables), tol=1e-8)
    assert rows_of(state.active.T) == rows_of(pattern)


def test_a_factor_that_left_a_view_comes_back_where_it_gains():
    """The move for settled sweeps restores a pair that was removed."""
    table = table_of(simulated(2)[1])
    state, model = settled(table, tol=1e-8), ViewsModel(20)
    v, h = np.argwhere(state.active & (state.active.sum(axis=0) > 1))[0]
    prior = state.prior.copy()
    prior[v, h] = 0.0
    b, b_cov = state.b.copy(), state.b_cov.copy()
    b[table.columns[v], h] = 0.0
    b_cov[np.ix_(table.columns[v], [h], range(state.rank + 1))] = 0.0
    b_cov[np.ix_(table.columns[v], range(state.rank + 1), [h])] = 0.0
    less = replace(state, prior=prior, b=b, b_cov=b_cov)
    again = model.moves(table)[0].less(less)
    np.testing.assert_array_equal(again.active, state.active)


def test_noise_alone_has_no_factor():
    rng = np.random.default_rng(0)
    state = settled(table_of([rng.normal(size=(50, p)) for p in (30, 20)]), tol=1e-8)
    assert state.rank == 0


@pytest.mark.parametrize("seed", [0, 12, 22])
def test_factors_that_leave_the_largest_view_do_not_raise_the_free_energy(seed):
    """A factor's costliest view is free: these fits once stopped when a factor left it."""
    rng = np.random.default_rng(seed)
    n, sizes, H = 40, (300, 12), 8
    A = rng.normal(size=(n, H))
    strengths = rng.uniform(0, 0.25, size=(H, 1)), rng.uniform(0.5, 2, size=(H, 1))
    tables = [
        A @ (rng.normal(size=(H, p)) * strength) + rng.normal(size=(n, p))
        for p, strength in zip(sizes, strengths, strict=True)
    ]
    model = MultiViewPCA(noise="isotropic").fit(tables)
    assert model.converged_
    assert (np.diff(model.trace_.free_energy) <= 1e-6).all()
