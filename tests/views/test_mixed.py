"""Sweeps over views with likelihoods, against definitions, one view alone and simulated truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bayespca import inference
from bayespca.discrete.data import known_table
from bayespca.discrete.fit import general_model
from bayespca.inference import Looping
from bayespca.inference.fitting import settle
from bayespca.views.mixed.fit import MixedModel
from bayespca.views.mixed.start import start
from bayespca.views.mixed.step import step, weakest, with_best_pair
from bayespca.views.pattern import cost_of_pattern
from discrete.tables import as_matrix
from oracles import mixed_views as oracle
from views.mixed import PATTERN, as_views, simulated
from views.simulated import pierced, rows_of

EVERY_KIND = ("normal", "bernoulli", "poisson", "ordinal", "negative-binomial")
TINY = {"n": 12, "sizes": (3, 3, 2, 2, 2), "kinds": EVERY_KIND}
SMALL_PATTERN = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 1]], bool)


def tables_of(holes, **options):
    tables = simulated(3, **options).tables
    if holes:
        tables = pierced(tables, 0.2)
        tables[1][:3] = np.nan
    return tables


def settled(table, tol=1e-8, most=20):
    return settle(MixedModel(most), table, Looping(max_iter=1000, tol=tol)).run.state


def without_pair(state, table, v, h):
    """The state with factor h removed from view v."""
    entry = int(np.count_nonzero(state.prior[v, :h]))
    columns, prior = list(state.columns), state.prior.copy()
    columns[v], prior[v, h] = columns[v].beside_zero(entry), 0.0
    return replace(state, columns=tuple(columns), prior=prior).evaluated(table)


@pytest.mark.parametrize("holes", [False, True])
def test_the_free_energy_is_its_definition(holes):
    table = as_views(tables_of(holes, pattern=SMALL_PATTERN, **TINY), EVERY_KIND)
    state = start(table, 2)
    for _ in range(3):
        state, _ = step(state, table)
    state = without_pair(state, table, 2, 1)
    assert state.rank == 2
    values, kinds, parameters = as_matrix(table.cells.at(state.parameters))
    columns = state.all_columns(table)
    expected = oracle.free_energy(
        values,
        table.view,
        kinds,
        parameters,
        list(zip(state.rows.mean, state.rows.matrices, strict=True)),
        list(zip(columns.mean, columns.matrices, strict=True)),
        state.prior,
        state.spread,
    )
    found = state.energy - cost_of_pattern(state.active, table.sizes)
    assert found == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_no_sweep_raises_the_free_energy(holes, seed):
    options = {"n": 60, "sizes": (12, 15, 10, 8, 8), "kinds": EVERY_KIND}
    pattern = np.concatenate([PATTERN, PATTERN[:, :2]], axis=1)
    tables = simulated(seed, pattern=pattern, **options).tables
    if holes:
        tables = pierced(tables, 0.2)
    table = as_views(tables, EVERY_KIND)
    state, energies = start(table, 20), []
    for _ in range(40):
        state, info = step(state, table)
        energies.append(info.free_energy)
    assert state.calm
    assert (np.diff(energies) < 1e-9 * np.abs(energies[:-1])).all()


@pytest.mark.parametrize("kind", ["bernoulli", "ordinal", "poisson"])
def test_one_view_is_generalized_pca(kind):
    tables = simulated(1, sizes=(50,), pattern=PATTERN[:3, :1] | True, kinds=(kind,)).tables
    table, looping = as_views(tables, (kind,)), Looping(max_iter=3000, tol=1e-10)
    found = inference.fit(MixedModel(30), table, looping)
    data = known_table(table.cells)
    model = inference.fit(general_model(data, n_components=30), data, looping)
    assert found.n_components == len(model.posterior.components) == 3
    assert found.free_energy == pytest.approx(model.free_energy, rel=1e-8)
    span = np.linalg.qr(found.posterior.components.T)[0]
    cosines = np.linalg.svd(model.posterior.components @ span)[1]
    np.testing.assert_allclose(cosines, 1.0, atol=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_the_pattern_is_found(seed):
    state = settled(as_views(simulated(seed).tables))
    assert rows_of(state.active.T) == rows_of(PATTERN)


def test_the_pattern_is_found_with_holes_and_absent_rows():
    tables = pierced(simulated(7).tables, 0.2)
    tables[1][:25] = np.nan
    tables[2][20:40] = np.nan
    state = settled(as_views(tables))
    assert rows_of(state.active.T) == rows_of(PATTERN)


def test_noise_alone_has_no_factor():
    tables = simulated(0, n=100, pattern=np.zeros((1, 3), bool)).tables
    assert settled(as_views(tables)).rank == 0


def test_a_factor_that_left_a_view_comes_back_where_it_gains():
    table = as_views(simulated(2).tables)
    state = settled(table)
    v, h = np.argwhere(state.active & (state.active.sum(axis=0) > 1))[0]
    again = with_best_pair(without_pair(state, table, v, h), table)
    np.testing.assert_array_equal(again.active, state.active)


def test_a_factor_that_was_lost_is_found_again():
    table = as_views(simulated(2).tables)
    state, model = settled(table), MixedModel(20)
    less = state.without(weakest(state, table)).evaluated(table)
    more = model.moves(table)[1].more(less)
    for _ in range(30):
        more, info = step(more, table)
    assert more.rank == state.rank
    assert info.free_energy == pytest.approx(state.energy, rel=1e-3)
    assert less.energy - info.free_energy > 10


def test_numbers_of_a_view_share_their_noise():
    table = as_views(simulated(0).tables)
    state = settled(table)
    noise = np.exp(state.parameters[0][:, 0])
    assert np.ptp(noise) == 0
    assert noise[0] == pytest.approx(1.0, abs=0.05)


def test_numbers_that_do_not_vary_take_no_part():
    tables = simulated(0).tables
    with_constant = [np.column_stack([np.full(200, 7.0), tables[0]]), *tables[1:]]
    looping = Looping(max_iter=1000, tol=1e-8)
    less, more = (
        inference.fit(MixedModel(20), as_views(some), looping) for some in (tables, with_constant)
    )
    assert more.free_energy == pytest.approx(less.free_energy, rel=1e-10)
    np.testing.assert_array_equal(more.posterior.b[0], 0.0)
    np.testing.assert_allclose(more.posterior.b[1:], less.posterior.b, atol=1e-9)
