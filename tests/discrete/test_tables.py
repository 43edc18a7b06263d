"""Sweeps over cells of several likelihoods: definitions, brute force and simulated truth."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayespca import inference
from bayespca.discrete import posterior as reading
from bayespca.discrete import step as vb
from bayespca.discrete.columns import LIKELIHOODS
from bayespca.discrete.data import known_table
from bayespca.discrete.fit import general_model
from bayespca.discrete.start import random_start, start
from discrete.tables import as_matrix, fitted, simulated
from oracles import likelihoods as oracle

MIXED = {"normal": 2, "bernoulli": 2, "poisson": 2, "negative-binomial": 1, "ordinal": 2}
TABLES = {name: {name: 30} for name in LIKELIHOODS} | {"mixed": dict.fromkeys(LIKELIHOODS, 6)}


@pytest.mark.parametrize("holes", [0.0, 0.3])
def test_the_free_energy_is_its_definition(holes):
    cells, _ = simulated(MIXED, n=12, rank=1, holes=holes)
    model = general_model(known_table(cells), n_components=2)
    state = random_start(cells, model, np.random.default_rng(0))
    for _ in range(3):
        state, info = vb.step(state, cells, model)
    values, kinds, parameters = as_matrix(cells.at(state.parameters))
    assert state.rank > 0
    wanted = oracle.free_energy(values, kinds, parameters, state)
    assert info.free_energy == pytest.approx(wanted, abs=1e-4)


@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from([*LIKELIHOODS, "mixed"]),
    holes=st.sampled_from([0.0, 0.4]),
    closed=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_the_free_energy_never_rises(seed, kind, holes, closed):
    kinds = MIXED if kind == "mixed" else {kind: 8}
    cells, _ = simulated(kinds, n=30, rank=2, holes=holes, seed=seed)
    model = general_model(known_table(cells), n_components=4)
    rng = np.random.default_rng(seed)
    begin = start(cells, model) if closed else random_start(cells, model, rng)
    # A rise is a warning, and warnings are errors.
    run = inference.run(partial(vb.step, data=cells, problem=model), begin, max_iter=30, tol=1e-9)
    assert np.isfinite(run.free_energy)


@pytest.mark.parametrize("kind", [*LIKELIHOODS, "mixed"])
def test_the_posterior_of_a_row_is_nearly_the_exact_one(kind):
    """One component and known loadings: integrals over a single score, on a fine grid."""
    kinds = MIXED if kind == "mixed" else {kind: 8}
    cells, _ = simulated(kinds, n=12, rank=1, holes=0.2, seed=3)
    q, prior = cells.shape[1], 1.7
    rng = np.random.default_rng(3)
    b = np.column_stack([0.6 * rng.normal(size=q), 0.3 * rng.normal(size=q)])
    known = reading.TablePosterior(
        b=b,
        b_cov=np.zeros((q, 2, 2)),
        prior=np.array([prior]),
        components=np.zeros((1, q)),
        basis=np.ones((1, 1)),
        latent_variance=np.ones(1),
        b_spread=np.zeros((q, 2, 2)),
        parameters=cells.parameters,
    )
    bounds = reading.log_density(known, cells)
    means, stds = reading.scores(known, cells)
    values, kinds_of, parameters = as_matrix(cells)
    for i in range(len(values)):
        exact, mean, std = oracle.row_posterior(values[i], b, prior, kinds_of, parameters)
        assert exact - 0.1 < bounds[i] < exact + 1e-6
        assert means[i, 0] == pytest.approx(mean, abs=0.15 * std)
        assert stds[i, 0] == pytest.approx(std, rel=0.15)


@pytest.mark.parametrize("holes", [0.0, 0.3])
@pytest.mark.parametrize("kind", TABLES)
def test_the_rank_is_found_and_intervals_hold(kind, holes):
    cells, truth = simulated(TABLES[kind], holes=holes, seed=1)
    found = fitted(cells)
    assert found.converged
    assert found.posterior.prior.size == 3
    m, v = reading.natural(found.posterior, cells.at(found.posterior.parameters))
    hidden = np.ones(cells.shape, bool) if cells.seen is None else ~cells.seen
    inside = np.abs(m - truth)[hidden] < 1.96 * np.sqrt(v[hidden])
    assert 0.92 < inside.mean() < 0.975


@pytest.mark.parametrize("kind", ["normal", "negative-binomial", "ordinal"])
def test_parameters_are_those_of_the_simulation(kind):
    cells, _ = simulated({kind: 30}, n=600, seed=2)
    found = fitted(cells)
    (truth,), (ours,) = cells.parameters, found.posterior.parameters
    assert np.corrcoef(truth.ravel(), ours.ravel())[0, 1] > 0.85
    assert np.abs(ours - truth).mean() < 0.25


def test_tables_without_structure_have_rank_0():
    for kind in LIKELIHOODS:
        cells, _ = simulated({kind: 20}, rank=0, seed=4)
        assert fitted(cells).posterior.prior.size == 0


def test_rows_that_are_far_away_are_found():
    """Rows with counts far above the others: steps that overshoot are shortened."""
    cells, _ = simulated({"poisson": 20}, seed=5)
    found = fitted(cells)
    far = cells.part(np.arange(5)).groups[0]
    far.values[:] = np.round(50 * far.values + 40)
    outlying = type(cells)((far,)).at(found.posterior.parameters)
    m, _ = reading.natural(found.posterior, outlying)
    settled = next(reading._by_block(found.posterior, outlying))
    again = vb.improved_rows(
        *(settled.rows, settled.sites, reading.regressors(found.posterior.columns)),
        *(found.posterior.prior, outlying, 5),
    )[0]
    assert np.isfinite(m).all()
    assert again.mean == pytest.approx(settled.rows.mean, abs=1e-2)


def test_cells_that_learn_nothing_need_not_be_evaluated_again():
    cells, _ = simulated(MIXED, n=40, rank=1)
    model = general_model(known_table(cells), n_components=2)
    state, _ = vb.step(start(cells, model), cells, model)
    moved = cells.at(tuple(0.9 * some for some in state.parameters))
    found = vb.evaluated_where_learned(state.rows, state.columns, moved, state.found)
    wanted = vb.evaluated_all(state.rows, state.columns, moved)
    for name, values in vars(wanted).items():
        np.testing.assert_allclose(getattr(found, name), values, err_msg=name)
    # The arrays of the state are left unchanged.
    assert not np.array_equal(found.log_likelihood, state.found.log_likelihood)
