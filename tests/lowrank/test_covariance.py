"""EM over the covariance of the features, against row-by-row sums and closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.inference import run
from bayespca.lowrank import covariance
from bayespca.lowrank.covariance import CovarianceChart, CovarianceEM, row_normal
from bayespca.lowrank.observing import observed
from bayespca.spectrum import Spectrum, solve
from oracles.expected import expected_products


def data_with_holes(n=40, p=7, share=0.3, seed=0, *, center=True):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) @ rng.normal(size=(4, p)) + 0.3 * rng.normal(size=(n, p))
    X[rng.random((n, p)) < share] = np.nan
    # Some rows share their holes, and some have none.
    X[5:9] = np.where(np.isnan(X[4]), np.nan, rng.normal(size=(4, p)))
    X[9:12] = rng.normal(size=(3, p))
    return observed(X[~np.isnan(X).all(axis=1)], center=center, scale=False)


def begun(p, seed=1, exactly=None):
    rng = np.random.default_rng(seed)
    return row_normal(0.1 * rng.normal(size=p), rng.normal(size=(p, 3)), 0.5, exactly)


def covariance_of(state):
    return np.linalg.inv(state.precision)


@pytest.mark.parametrize("solver", ["_by_library", "_by_kernel"])
@pytest.mark.parametrize("center", [True, False])
def test_a_round_is_that_of_rows_one_by_one(solver, center, monkeypatch):
    data = data_with_holes(center=center)
    n, p = data.shape
    em = CovarianceEM(data, p - 1)
    monkeypatch.setitem(vars(em), "_solver", getattr(covariance, solver))
    state = begun(p)
    new, info = em.step(state)
    X = np.where(data.mask, data.values, np.nan)
    filled, cov, entropy = expected_products(X, state.mean, covariance_of(state))
    mean = filled.mean(axis=0) if center else state.mean
    S = (filled - mean).T @ (filled - mean) + cov
    values, V = np.linalg.eigh(S)
    found = solve(Spectrum(np.sqrt(values[::-1]), (p, n - center)), max_rank=p - 1)
    assert new.mean == pytest.approx(mean)
    assert new.rank == found.rank
    assert new.noise_variance == pytest.approx(found.noise_variance)
    assert info.free_energy == pytest.approx(found.free_energy - entropy)
    k = found.rank
    along = np.sum((V[:, ::-1][:, :k].T @ new.directions) ** 2)
    assert along == pytest.approx(k)
    kept = found.shrunk_singular_values / np.sqrt(values[::-1][:k])
    variances = np.append(found.noise_variance / (1 - kept), np.full(p - k, found.noise_variance))
    assert np.linalg.eigvalsh(covariance_of(new))[::-1] == pytest.approx(variances)


def test_without_holes_one_round_is_the_closed_form():
    data = data_with_holes(share=0.0)
    n, p = data.shape
    data = observed(np.where(data.mask, data.values, 0.0), center=True, scale=False)
    em = CovarianceEM(data, p - 1)
    X = data.values - data.values.mean(axis=0)
    gamma = np.linalg.svd(X, compute_uv=False)
    _, info = em.step(begun(p))
    assert info.free_energy == pytest.approx(solve(Spectrum(gamma, (p, n - 1))).free_energy)


def test_without_components_only_cells_that_are_there_count():
    """The cost of holes cancels against their entropy; N log σ² of the other cells is left."""
    data = data_with_holes(center=False)
    em = CovarianceEM(data, 0)
    state = row_normal(np.zeros(7), np.zeros((7, 0)), 1.0)
    found = run(em.step, state, max_iter=500, tol=1e-14)
    N = float(data.column_counts.sum())
    s2 = float(data.squares.sum()) / N
    assert found.state.noise_variance == pytest.approx(s2)
    assert found.free_energy == pytest.approx(0.5 * N * (np.log(2 * np.pi * s2) + 1))


@pytest.mark.parametrize("seed", range(3))
def test_rounds_never_lead_up_and_accelerated_ones_end_as_low(seed):
    data = data_with_holes(n=80, p=9, seed=seed)
    em = CovarianceEM(data, 8)
    plain = run(em.step, begun(9), max_iter=2000, tol=1e-13)
    quick = run(em.step, begun(9), max_iter=300, tol=1e-9, chart=CovarianceChart())
    assert plain.reason == quick.reason == "settled"
    assert quick.free_energy <= plain.free_energy + 1e-8 * abs(plain.free_energy)
    assert quick.n_iter < plain.n_iter


def test_a_state_comes_back_from_its_vector():
    data = data_with_holes()
    em, chart = CovarianceEM(data, 6), CovarianceChart()
    state, _ = em.step(begun(7))
    back = chart.at(state, chart.point(state, None).vector)
    assert back.precision == pytest.approx(state.precision)
    assert em.step(back)[1].free_energy == pytest.approx(em.step(state)[1].free_energy)


def test_a_rank_that_is_asked_for_is_kept():
    data = data_with_holes(n=200)
    em = CovarianceEM(data, 6)
    for rank in (1, 2, 3):
        found = run(em.step, begun(7, exactly=rank), max_iter=200, tol=1e-8, slack=np.inf)
        assert found.state.rank == rank


def test_places_of_pairs_that_are_not_kept_are_found_again(monkeypatch):
    data = data_with_holes(n=60, p=12, share=0.6)
    state = begun(12)
    kept, info = CovarianceEM(data, 6).step(state)
    monkeypatch.setattr(covariance, "FEW_PAIRS", 0)
    em = CovarianceEM(data, 6)
    assert all(group.places is None for group in em.groups)
    found, again = em.step(state)
    assert again == info
    assert (found.logs == kept.logs).all()


def test_patterns_that_differ_by_few_holes_are_worked_on_together():
    data = data_with_holes(n=200, p=12, share=0.5)
    holes = data.shape[1] - np.asarray(data.patterns).sum(axis=1)
    groups = covariance.grouped(data)
    assert len(groups) < np.unique(holes).size
    real = [(group.holes < 12).sum(axis=1) for group in groups]
    assert sorted(np.concatenate(real)) == sorted(holes)


def test_the_weakest_component_goes():
    em = CovarianceEM(data_with_holes(n=200), 6)
    state = run(em.step, begun(7), max_iter=50, tol=1e-6).state
    less = state.with_one_less()
    variances, before = (np.linalg.eigvalsh(covariance_of(found))[::-1] for found in (less, state))
    k = state.rank - 1
    assert less.exactly == k
    assert variances[:k] == pytest.approx(before[:k])
    assert variances[k:] == pytest.approx(state.noise_variance)
    assert row_normal(np.zeros(7), np.zeros((7, 0)), 1.0).with_one_less() is None
