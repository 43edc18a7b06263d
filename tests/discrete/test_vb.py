"""Sweeps of binary PCA against definitions written out, brute force and simulated truth."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayespca import inference
from bayespca.arrays.packing import packed
from bayespca.discrete import posterior
from bayespca.discrete import step as vb
from bayespca.discrete.data import bits, known_table
from bayespca.discrete.fit import binary_model
from bayespca.discrete.normals import Normals
from bayespca.discrete.start import random_start, start, with_one_more
from bayespca.inference import Looping
from bayespca.lowrank.factors import FactorPrior, Factors
from bayespca.sources.data import BinaryCells
from bayespca.spectrum import VB
from oracles import binary_pca as oracle


def table(n, p, rank, holes=0.0, strength=1.0, seed=0):
    """Zeros and ones with NaN in holes, and the logits."""
    rng = np.random.default_rng(seed)
    Z = strength * rng.normal(size=(n, rank)) @ rng.normal(size=(rank, p)) + rng.normal(size=p)
    X = (rng.random((n, p)) < oracle.sigmoid(Z)).astype(float)
    hidden = rng.random((n, p)) < holes
    hidden[0], hidden[:, 0] = False, False
    return np.where(hidden, np.nan, X), Z


def cells(X):
    seen = ~np.isnan(X)
    return bits(BinaryCells(X == 1, None if seen.all() else seen))


def model_of(X, most):
    n, p = X.shape
    return vb.TableProblem(Factors((p, n), VB, FactorPrior("learned"), 1e-8), most)


def fit(X, looping=None, **options):
    data = known_table(cells(X))
    options.setdefault("n_components", None)
    return inference.fit(binary_model(data, **options), data, looping or Looping())


def swept(X, most, steps):
    data, model = cells(X), model_of(X, most)
    state = random_start(data, model, np.random.default_rng(0))
    for _ in range(steps):
        state, info = vb.step(state, data, model)
    return state, info


@pytest.mark.parametrize("holes", [0.0, 0.3])
def test_the_free_energy_is_its_definition(holes):
    X, _ = table(12, 5, 1, holes, strength=4.0)
    state, info = swept(X, 2, 2)
    wanted = oracle.free_energy(
        *(X, state.rows.mean, state.rows.matrices),
        *(state.columns.mean, state.columns.matrices, state.prior, state.spread),
    )
    assert state.rank > 0
    assert info.free_energy == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_the_free_energy_bounds_the_evidence(seed):
    """A, B and μ integrated out by draws from their priors."""
    X, _ = table(5, 4, 1, 0.2, strength=4.0, seed=seed)
    data, model = cells(X), model_of(X, 1)
    state = random_start(data, model, np.random.default_rng(seed))
    state = vb.with_energy(vb._settled(vb._with_rows_and_columns(state, data), model))
    exact, error = oracle.log_evidence(X, state.prior, state.spread)
    assert error < 0.05
    assert -state.energy < exact + 2 * error
    assert -state.energy > exact - 4


@given(
    seed=st.integers(0, 10**6),
    holes=st.sampled_from([0.0, 0.4]),
    strength=st.sampled_from([0.3, 1.0, 10.0]),
    most=st.integers(0, 5),
    closed=st.booleans(),
)
@settings(max_examples=20)
def test_the_free_energy_never_rises(seed, holes, strength, most, closed):
    X, _ = table(30, 8, 2, holes, strength, seed)
    data, model = cells(X), model_of(X, most)
    begin = start(data, model) if closed else random_start(data, model, np.random.default_rng(seed))
    # A rise is a warning, and warnings are errors.
    run = inference.run(partial(vb.step, data=data, problem=model), begin, max_iter=40, tol=1e-9)
    assert np.isfinite(run.free_energy)
    assert run.state.rank <= most


def test_the_bound_of_a_row_is_the_best_and_below_the_truth():
    """One component and known loadings: integrals over a single score."""
    rng = np.random.default_rng(3)
    b, prior = np.column_stack([2 * rng.normal(size=6), rng.normal(size=6)]), 1.7
    X, _ = table(8, 6, 1, 0.2, strength=3.0)
    known = posterior.BinaryPosterior(
        b=b,
        b_cov=np.zeros((6, 2, 2)),
        prior=np.array([prior]),
        components=np.zeros((1, 6)),
        basis=np.ones((1, 1)),
        latent_variance=np.ones(1),
    )
    found = posterior.log_density(known, cells(X))
    exact = np.array([oracle.log_marginal_of_row(x, b, prior) for x in X])
    best = np.array([oracle.best_normal_bound(x, b, prior) for x in X])
    assert (found <= exact).all()
    assert found == pytest.approx(best, abs=1e-6)
    assert (exact - found).max() < 0.1


def test_probabilities_are_averages_over_the_posterior():
    X, _ = table(60, 8, 1, 0.2, strength=2.0)
    found = fit(X).posterior
    probabilities = posterior.probabilities(found, cells(X))
    rng = np.random.default_rng(0)
    T, std = posterior.scores(found, cells(X))
    a = (T[0] + std[0] * rng.normal(size=(200_000, 1))) / found.basis[0, 0]
    b = rng.multivariate_normal(found.b[3], found.b_cov[3], size=200_000)
    sampled = oracle.sigmoid((a * b[:, :1])[:, 0] + b[:, 1]).mean()
    assert probabilities[0, 3] == pytest.approx(sampled, abs=5e-3)


@pytest.mark.parametrize("holes", [0.0, 0.2])
@pytest.mark.parametrize("rank", [0, 1, 3])
def test_the_rank_is_found(rank, holes):
    X, Z = table(300, 40, rank, holes, seed=rank)
    found = fit(X, Looping(max_iter=300, tol=1e-6))
    assert found.posterior.prior.size == rank
    assert found.free_energy_by_rank.argmin() == rank
    assert found.converged
    if rank:
        _, _, truth = np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)
        overlap = found.posterior.components @ truth[:rank].T
        assert np.linalg.svd(overlap, compute_uv=False).min() > 0.9


def test_random_starts_end_where_the_closed_form_does():
    X, _ = table(300, 30, 2, 0.1, strength=1.5)
    closed = fit(X)
    looping = Looping(max_iter=500, tol=1e-8, n_init=2, random_state=0)
    drawn = fit(X, looping, n_components=6, init="random")
    assert drawn.posterior.prior.size == closed.posterior.prior.size == 2
    assert drawn.free_energy == pytest.approx(closed.free_energy, rel=1e-4)


def test_one_more_component_leads_to_the_same_place():
    X, _ = table(300, 30, 2, 0.1, strength=1.5)
    data, model = cells(X), model_of(X, 1)
    sweep = partial(vb.step, data=data, problem=model)
    run = inference.run(sweep, start(data, model), max_iter=300, tol=1e-7)
    more = inference.run(sweep, with_one_more(run.state, data), max_iter=300, tol=1e-7)
    assert run.state.rank == 1
    assert more.state.rank == 2
    assert more.free_energy < run.free_energy - 100


def test_coordinates_do_not_change_cells():
    X, _ = table(40, 8, 2, 0.2)
    state, _ = swept(X, 3, 2)
    again = vb.evaluated_all(state.rows, state.columns, cells(X))
    for name in ("omega", "tau", "log_likelihood"):
        assert getattr(again, name) == pytest.approx(getattr(state.found, name), abs=1e-10)


def test_halfway_is_halfway_in_natural_parameters():
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(2, 4, 3, 5))
    covs = factors @ np.swapaxes(factors, 2, 3)
    one, two = (
        Normals(rng.normal(size=(4, 3)), packed(cov), np.linalg.slogdet(cov)[1]) for cov in covs
    )
    half = one.halfway(two)
    precision = 0.5 * (np.linalg.inv(covs[0]) + np.linalg.inv(covs[1]))
    assert np.linalg.inv(half.matrices) == pytest.approx(precision, rel=1e-8)
    assert half.log_dets == pytest.approx(-np.linalg.slogdet(precision)[1])


def test_a_step_that_is_too_long_is_shortened():
    """Rows start far from their minimum, where a full step would raise the free energy."""
    X, _ = table(50, 10, 2, strength=5.0)
    data, model = cells(X), model_of(X, 3)
    state, _ = vb.step(random_start(data, model, np.random.default_rng(1)), data, model)
    far = replace(state.rows, mean=state.rows.mean + 30.0)
    begin = vb.evaluated(replace(state, rows=far), data, model)
    run = inference.run(partial(vb.step, data=data, problem=model), begin, max_iter=50, tol=1e-7)
    assert run.free_energy < begin.energy
