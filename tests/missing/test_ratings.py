"""Ratings: definition and minimum of the free energy, closed forms, the model with dense masks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from bayespca import BayesianPCA, inference
from bayespca.arrays import parallel
from bayespca.arrays.packing import packed, unpacked
from bayespca.inference.fitting import finished, settle
from bayespca.lowrank import imputing
from bayespca.missing.dense import step as vb
from bayespca.missing.ratings import kernels
from bayespca.missing.ratings import posterior as read
from bayespca.missing.ratings import step as sweeps
from bayespca.missing.ratings.cells import RatingsSide
from bayespca.missing.ratings.data import sorted_both_ways
from bayespca.missing.ratings.fit import ratings_model
from bayespca.missing.ratings.kernels import ROUNDS, RowsTask
from bayespca.missing.ratings.start import random_start, start
from bayespca.spectrum.methods import METHODS as BY_NAME
from oracles.ratings import covariances_integrated, free_energy

from .sweeping import asked

METHODS = ["evb", "epb", "emap"]
TIGHT = inference.Looping(max_iter=3000, tol=1e-15)


def rated(n=30, m=20, rank=2, share=0.3, *, noise=0.5, seed=0):
    """A matrix with biases, and the row and column numbers of its rated cells."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, m)) + 3
    X += rng.normal(size=(n, 1)) + rng.normal(size=m) + noise * rng.normal(size=(n, m))
    i, j = np.nonzero(rng.random(X.shape) < share)
    return X, i.astype(np.int32), j.astype(np.int32)


def sorted_cells(X, i, j, *, center=True):
    return sorted_both_ways(i, j, X[i, j], X.shape, center=center)


def fitted(data, method="evb", *, looping=None, **options):
    model = ratings_model(data, BY_NAME[method], **options)
    return inference.fit(model, data, looping or inference.Looping())


def swept(data, method="evb", *, biases=True, noise=0.1, tol=1e-13):
    model = ratings_model(data, BY_NAME[method], biases=biases, noise_variance=noise)
    step = partial(sweeps.step, data=data, problem=model)
    return inference.run(step, start(data, model, 3), max_iter=3000, tol=tol), model


def factorised(posterior):
    """A posterior without the covariances that integrate out the other side."""
    rows, columns = (
        replace(side, spread=np.empty((0, 0))) for side in (posterior.rows, posterior.columns)
    )
    return replace(posterior, rows=rows, columns=columns)


def defined_energy(state, data, model, *, rows=None):
    family = model.factors.family
    if rows is None:
        rows = rows_of(state, data, model)
    K = state.b.shape[1]
    a_cov = unpacked(rows.cov, K) if family.integrates_a else None
    b_cov = unpacked(state.b_cov, K) if family.integrates_b else None
    side = data.by_rows
    i = np.repeat(np.arange(data.shape[0]), side.counts)
    energy = free_energy(
        zip(i, side.other, side.values, strict=True),
        (rows.mean, a_cov, state.prior_a),
        (state.b, b_cov, state.prior_b),
        state.location,
        state.noise_variance,
        biases=model.biases,
    )
    return energy + state.n_gone * model.factors.gone_energy


def rows_of(state, data, model):
    given = kernels.regressors(state.b, state.b_cov, state.location, biases=model.biases)
    integrated = model.factors.family.integrates_a
    task = RowsTask(given, state.prior_a, state.noise_variance, integrated)
    return kernels.by_numpy(data.by_rows, task)


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_the_free_energy_is_the_defined_one(method, biases):
    """This holds at convergence, where rows no longer change."""
    X, i, j = rated(15, 10, share=0.6)
    data = sorted_cells(X, i, j, center=biases)
    run, model = swept(data, method, biases=biases, noise=0.2)
    assert run.converged
    assert run.free_energy == pytest.approx(defined_energy(run.state, data, model), rel=1e-7)


@pytest.mark.parametrize("method", METHODS)
def test_it_is_a_minimum(method):
    """No small change of columns, rows, priors, noise or the mean lowers the free energy."""
    X, i, j = rated(12, 8, 1, share=0.7)
    data = sorted_cells(X, i, j)
    run, model = swept(data, method, noise=None if method == "evb" else 0.1)
    state, rows = run.state, rows_of(run.state, data, model)
    assert state.rank == 1
    base = defined_energy(state, data, model, rows=rows)
    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-2):
        for _ in range(5):
            draw = partial(rng.normal, scale=size)
            prior = state.prior_a * np.exp(draw(size=2))
            other_prior = state.prior_b * np.exp(draw(size=2))
            prior[0] = other_prior[0]  # components have the same prior on both sides
            others = [
                replace(state, b=state.b + draw(size=state.b.shape)),
                replace(state, b_cov=state.b_cov * np.exp(draw(size=(len(state.b_cov), 1)))),
                replace(state, prior_a=prior, prior_b=other_prior),
                replace(state, location=state.location + draw()),
            ]
            if model.fixed_noise is None:
                noise = state.noise_variance * np.exp(draw())
                others.append(replace(state, noise_variance=noise))
            for other in others:
                assert defined_energy(other, data, model, rows=rows) >= base - 1e-9
            moved = rows._replace(mean=rows.mean + draw(size=rows.mean.shape))
            assert defined_energy(state, data, model, rows=moved) > base


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(4))
def test_the_free_energy_never_rises(method, biases, seed):
    """The loop warns of a rise, and warnings are errors here."""
    rng = np.random.default_rng(seed)
    n, m = rng.integers(3, 40, 2)
    X, i, j = rated(n, m, 2, rng.choice([0.1, 0.5]), seed=seed)
    data = sorted_cells(X, i, j, center=biases)
    model = ratings_model(data, BY_NAME[method], biases=biases, noise_variance=0.2)
    for begin in (start(data, model, 2), random_start(data, model, 2, rng)):
        step = partial(sweeps.step, data=data, problem=model)
        run = inference.run(step, begin, max_iter=100, tol=1e-9)
        energies = run.trace.free_energy
        assert (np.diff(energies) <= 1e-9 * np.abs(energies[1:])).all()


@pytest.mark.parametrize("integrated", [True, False])
@pytest.mark.parametrize("K", [1, 2, 7])
def test_compiled_loops_are_numpys(K, integrated):
    from bayespca.missing.ratings.compiled import by_loops

    X, i, j = rated(40, 25)
    side = sorted_cells(X, i[i != 7], j[i != 7]).by_rows  # one row is empty
    rng = np.random.default_rng(0)
    mean = rng.normal(size=(25, K))
    cov = np.repeat(0.1 * np.eye(K)[None], 25, axis=0)[:, *np.triu_indices(K)]
    given = kernels.regressors(mean, cov, 0.3, biases=K > 1)
    task = RowsTask(given, rng.uniform(0.5, 2, K), 0.4, integrated)
    expected = kernels.by_numpy(side, task)
    found = by_loops(side, task)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("threads", [2, 3])
def test_the_number_of_threads_changes_nothing(monkeypatch, threads):
    from bayespca.missing.ratings.compiled import by_loops

    X, i, j = rated(300, 50)
    side = sorted_cells(X, i, j).by_rows
    rng = np.random.default_rng(0)
    given = kernels.regressors(rng.normal(size=(50, 6)), np.zeros((0, 21)), 0.0, biases=True)
    task = RowsTask(given, np.ones(6), 0.5, True)
    monkeypatch.setattr(parallel, "blas_threads", lambda: 1)
    alone = by_loops(side, task)
    monkeypatch.setattr(parallel, "blas_threads", lambda: threads)
    for found, expected in zip(by_loops(side, task), alone, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("method", METHODS)
def test_all_cells_and_no_biases_are_the_closed_form(method):
    X, _, _ = rated(40, 15)
    i, j = (k.astype(np.int32) for k in np.nonzero(np.ones_like(X)))
    closed = BayesianPCA(method, center=False).fit(X)
    noise = None if method == "evb" else closed.noise_variance_
    data = sorted_cells(X, i, j, center=False)
    found = fitted(data, method, biases=False, noise_variance=noise, looping=TIGHT)
    assert found.posterior.rank == closed.n_components_
    assert found.noise_variance == pytest.approx(closed.noise_variance_, rel=1e-6)
    assert found.free_energy == pytest.approx(closed.free_energy_, rel=1e-9)
    low = found.posterior.predicted(i, j).reshape(X.shape)
    np.testing.assert_allclose(low, closed.denoise(X), atol=1e-6)


def beyond_the_end(model, data, looping, sweep):
    """A fit with 100 further sweeps after the free energy has settled.

    The free energy is flat at its minimum, so it fixes only half of the digits of a state.
    """
    settled = settle(model, data, looping)
    state = settled.run.state
    for _ in range(100):
        state = sweep(state, settled.data, settled.model)
    return finished(replace(settled, run=replace(settled.run, state=state)))


@pytest.mark.parametrize("method", METHODS)
def test_without_biases_it_is_the_model_with_dense_masks(method):
    X, i, j = rated(40, 15, share=0.7)
    Y = np.full(X.shape, np.nan)
    Y[i, j] = X[i, j]
    to_the_end = inference.Looping(max_iter=400, tol=0.0)
    dense = beyond_the_end(
        *asked(Y, method, center=False),
        to_the_end,
        lambda state, table, model: vb.sweep(state, table.rows, model),
    )
    noise = None if method == "evb" else dense.noise_variance
    data = sorted_cells(X, i, j, center=False)
    model = ratings_model(data, BY_NAME[method], biases=False, noise_variance=noise)
    found = beyond_the_end(model, data, to_the_end, lambda *now: sweeps.step(*now)[0])
    assert found.posterior.rank == len(dense.posterior.components)
    assert found.free_energy == pytest.approx(dense.free_energy, rel=1e-10)
    assert found.noise_variance == pytest.approx(dense.noise_variance, rel=1e-8)
    everywhere = np.nonzero(np.isnan(Y))
    # Compare the bare posteriors, without the uncertainty that intervals add.
    alone = factorised(found.posterior)
    mean, std = alone.predicted_with_std(*everywhere, noise=True)
    filled, spread = imputing.impute(dense.posterior, Y)
    # Point estimates still move after the last digit of the free energy has settled.
    tol = 1e-8 if method == "evb" else 1e-6
    np.testing.assert_allclose(mean, filled[everywhere], atol=tol)
    np.testing.assert_allclose(std, spread[everywhere], rtol=tol)


def test_units_and_offsets_do_not_matter():
    X, i, j = rated(80, 60)
    plain = fitted(sorted_cells(X, i, j))
    other = fitted(sorted_cells(1e4 * X + 1e3, i, j))
    assert other.posterior.rank == plain.posterior.rank == 2
    assert other.noise_variance == pytest.approx(1e8 * plain.noise_variance, rel=1e-6)
    shift = i.size * np.log(1e4)
    assert other.free_energy == pytest.approx(plain.free_energy + shift, rel=1e-9)


@pytest.mark.parametrize("biases", [True, False])
def test_nothing_but_noise_has_no_components(biases):
    """Large enough for the compiled kernel."""
    rng = np.random.default_rng(0)
    i, j = (k.astype(np.int32) for k in np.nonzero(rng.random((400, 300)) < 0.05))
    X = rng.normal(size=(400, 300))
    found = fitted(sorted_cells(X, i, j, center=biases), biases=biases)
    assert found.posterior.rank == 0
    assert found.noise_variance == pytest.approx(1.0, rel=0.05)
    mean, std = found.posterior.predicted_with_std(i[:5], j[:5], noise=True)
    np.testing.assert_allclose(mean, 0, atol=0.3)
    np.testing.assert_allclose(std, 1, atol=0.1)


def test_a_factor_too_large_for_the_cache_is_gone_through_in_pieces():
    from bayespca.missing.ratings import compiled

    rng, (n, m, K) = np.random.default_rng(0), (30, 60_000, 3)
    i, j = (k.astype(np.int32) for k in np.nonzero(rng.random((n, m)) < 0.001))
    side = sorted_both_ways(i, j, rng.normal(size=i.size), (n, m), center=True).by_rows
    assert m * 8 * (K * (K + 1) // 2 + 2 * K) > 3 * compiled.CACHED
    given = kernels.regressors(rng.normal(size=(m, K)), np.zeros((0, 6)), 0.0, biases=True)
    task = RowsTask(given, np.ones(K), 0.5, integrated=True)
    found = compiled.by_loops(side, task)
    expected = kernels.by_numpy(side, task)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("init", ["closed", "random"])
def test_intervals_hold_and_the_rank_is_found(init):
    rng = np.random.default_rng(1)
    X, i, j = rated(300, 200, 3, share=0.15, noise=1.0, seed=3)
    looping = inference.Looping(random_state=0, n_init=2)
    found = fitted(sorted_cells(X, i, j), init=init, looping=looping)
    assert found.posterior.rank == 3
    assert found.noise_variance == pytest.approx(1.0, rel=0.1)
    there = np.zeros(X.shape, dtype=bool)
    there[i, j] = True
    ti, tj = np.nonzero(~there)
    some = rng.choice(ti.size, 20_000, replace=False)
    mean, std = found.posterior.predicted_with_std(ti[some], tj[some], noise=True)
    covered = np.mean(np.abs(mean - X[ti[some], tj[some]]) < 1.645 * std)
    assert covered == pytest.approx(0.90, abs=0.02)


def test_rows_that_were_never_seen_have_the_priors_answer():
    X, i, j = rated(100, 60)
    found = fitted(sorted_cells(X, i, j)).posterior
    new, old = np.array([-1]), np.array([0])
    mean, std = found.predicted_with_std(new, new, noise=True)
    unit = found.unit
    expected = found.rows.prior[:-1] @ found.columns.prior[:-1]
    expected += found.rows.prior[-1] + found.columns.prior[-1] + found.noise_variance
    assert std[0] == pytest.approx(np.sqrt(expected) * unit, rel=1e-9)
    assert mean[0] == pytest.approx(found.mean * unit + found.location, rel=1e-12)
    assert std[0] > found.predicted_with_std(old, old, noise=True)[1][0]


def test_folding_a_row_in_is_what_the_fit_did_with_it():
    X, i, j = rated(100, 60)
    data = sorted_cells(X, i, j)
    found = fitted(data, looping=TIGHT).posterior
    again = found.folded_in(data.by_rows)
    np.testing.assert_allclose(again.mean, found.rows.mean, atol=1e-9)
    np.testing.assert_allclose(again.cov, found.rows.cov, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_artificial_cf_has_rank_five_from_every_start(seed):
    """aistats2014 Section 5.2: 2000×5000, rank 5, 99 % missing, from normal draws."""
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(2000, 5)), rng.normal(size=(5000, 5))
    cells = rng.choice(2000 * 5000, 100_000, replace=False)
    i, j = (cells // 5000).astype(np.int32), (cells % 5000).astype(np.int32)
    x = np.einsum("ch,ch->c", A[i], B[j]) + rng.normal(size=i.size)
    data = sorted_both_ways(i, j, x, (2000, 5000), center=False)
    looping = inference.Looping(tol=1e-6, random_state=seed)
    found = fitted(data, biases=False, init="random", looping=looping)
    assert found.posterior.rank == 5
    assert found.noise_variance == pytest.approx(1.0, rel=0.05)
    hidden = rng.choice(2000 * 5000, 20_000)
    i, j = hidden // 5000, hidden % 5000
    mean, std = found.posterior.predicted_with_std(i, j, noise=True)
    x = np.einsum("ch,ch->c", A[i], B[j]) + rng.normal(size=i.size)
    assert np.mean(np.abs(mean - x) < 1.645 * std) == pytest.approx(0.90, abs=0.02)


@pytest.mark.parametrize("biases", [False, True])
def test_new_users_are_as_far_off_as_they_say_where_items_are_uncertain(biases):
    """Without the uncertainty of the rated items, errors would be 1.2 times the variances."""
    rng, p, k, size, s2 = np.random.default_rng(5), 40, 2, 0.12, 0.3
    K = k + biases
    mean, prior = rng.normal(size=(p, K)), np.full(K, 4.0)
    cov = np.tile(packed(size**2 * np.eye(K)), (p, 1))
    columns = read.RatingsFactor(mean, cov, np.ones(K))
    empty = read.RatingsFactor(np.zeros((1, K)), packed(np.diag(prior))[None], prior)
    posterior = read.RatingsPosterior(empty, columns, 0.0, s2, 0.0, 1.0, biases)
    errors, variances = [], []
    for _ in range(400):
        phi, theta = mean + size * rng.normal(size=mean.shape), 2 * rng.normal(size=K)
        signal = phi[:, :k] @ theta[:k] + (theta[k] + phi[:, k] if biases else 0.0)
        given, wanted = np.arange(12), np.arange(12, p)
        values = signal[given] + np.sqrt(s2) * rng.normal(size=12)
        side = RatingsSide(np.array([0, 12]), given.astype(np.int32), values)
        new = replace(posterior, rows=posterior.folded_in(side))
        found, std = new.predicted_with_std(np.zeros(p - 12, int), wanted, noise=False)
        errors.append(((found - signal[wanted]) ** 2).mean())
        variances.append((std**2).mean())
    assert np.mean(errors) == pytest.approx(np.mean(variances), rel=0.1)


@pytest.mark.parametrize("biases", [False, True])
def test_covariances_with_the_other_side_integrated_out_are_as_defined(biases):
    X, i, j = rated(25, 18)
    data = sorted_cells(X, i, j)
    found = fitted(data, biases=biases).posterior
    K, s2 = found.rows.prior.size, found.noise_variance
    rows, columns = ((side.mean, unpacked(side.cov, K)) for side in (found.rows, found.columns))
    Y = np.full(X.shape, np.nan)
    Y[i, j] = X[i, j]
    for _ in range(ROUNDS):
        of_rows = covariances_integrated(Y, rows, columns, found.rows.prior, s2, biases=biases)
        known = (rows[0], of_rows)
        prior = found.columns.prior
        of_columns = covariances_integrated(Y.T, columns, known, prior, s2, biases=biases)
        columns = (columns[0], of_columns)
    of_rows = covariances_integrated(Y, rows, columns, found.rows.prior, s2, biases=biases)
    np.testing.assert_allclose(unpacked(found.rows.spread, K), of_rows, rtol=1e-6)
    np.testing.assert_allclose(unpacked(found.columns.spread, K), of_columns, rtol=1e-6)


def test_intervals_hold_where_ratings_are_few():
    """With twelve ratings per user, factorised covariances reach a coverage of only 92.5 %."""
    inside, alone = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        signal = rng.normal(size=(100, 2)) * [1.4, 1.0] @ rng.normal(size=(2, 60))
        signal += rng.normal(size=60) + rng.normal(size=(100, 1))
        X, seen = signal + rng.normal(size=signal.shape), rng.random(signal.shape) < 0.2
        i, j = (part.astype(np.int32) for part in np.nonzero(seen))
        found = fitted(sorted_cells(X, i, j)).posterior
        hidden = np.nonzero(~seen)
        for posterior, shares in ((found, inside), (factorised(found), alone)):
            mean, std = posterior.predicted_with_std(*hidden, noise=False)
            shares.append(np.mean(np.abs(mean - signal[hidden]) < 1.96 * std))
    assert np.mean(alone) < 0.935
    assert np.mean(inside) == pytest.approx(0.95, abs=0.012)


@pytest.mark.parametrize(("share", "noted"), [(0.2, True), (0.6, False)])
def test_ratings_too_few_to_show_a_component_get_a_note(share, noted):
    data = sorted_cells(*rated(60, 40, share=share))
    codes = [advice.code for advice in fitted(data).status.advice]
    assert ("few-ratings" in codes) == noted
