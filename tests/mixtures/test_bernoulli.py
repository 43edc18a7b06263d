"""Mixtures of Bernoulli distributions against sums over all assignments of rows to clusters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayespca import inference
from bayespca.mixtures.bernoulli import data as bernoulli_data
from bayespca.mixtures.bernoulli import posterior as bernoulli_posterior
from bayespca.mixtures.bernoulli import step as bernoulli
from bayespca.mixtures.bernoulli.data import BernoulliRows, bernoulli_rows
from bayespca.mixtures.bernoulli.family import Bayes, BernoulliSums, MaximumLikelihood
from bayespca.mixtures.bernoulli.fit import BernoulliModel
from bayespca.mixtures.bernoulli.start import STARTS, with_given
from bayespca.mixtures.bernoulli.step import BernoulliState, step
from oracles import bernoulli as oracle


def table(n, p, holes=0.0, seed=0):
    """Zeros and ones in two kinds of rows, NaN in holes; every column has values."""
    rng = np.random.default_rng(seed)
    means = rng.uniform(0.1, 0.9, size=(2, p))
    X = (rng.random((n, p)) < means[rng.integers(2, size=n)]).astype(float)
    hidden = rng.random((n, p)) < holes
    hidden[0] = False
    X[hidden] = np.nan
    return X


def cells(X, weights=None):
    seen = ~np.isnan(X)
    return BernoulliRows(X == 1, None if seen.all() else seen, weights)


def sums_of(X, q):
    """The sums in the state of a fit, computed directly."""
    known = (~np.isnan(X)).astype(float)
    return BernoulliSums(q.sum(axis=0), q.T @ np.nan_to_num(X), q.T @ known)


def responsibilities_of(X, K, seed=0):
    q = np.random.default_rng(seed).random((len(X), K)) + 0.1
    return q / q.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("holes", [0.0, 0.3])
class TestTinyProblems:
    def test_em_is_the_brute_force_posterior(self, holes):
        X, K = table(6, 4, holes), 3
        begin = responsibilities_of(X, K)
        weights, means = oracle.em_update(X, begin)
        q = oracle.responsibilities(X, weights, means)
        state, info = step(BernoulliState(sums_of(X, begin)), cells(X), MaximumLikelihood())
        expected = sums_of(X, q)
        for name in ("sizes", "ones", "seen"):
            found, wanted = getattr(state.sums, name), getattr(expected, name)
            assert found == pytest.approx(wanted, rel=1e-12, abs=1e-12)
        again, p_again, _ = MaximumLikelihood().averages(state.sums)
        wanted, p_wanted = oracle.em_update(X, q)
        assert again == pytest.approx(wanted, rel=1e-12)
        assert p_again == pytest.approx(p_wanted, rel=1e-12, abs=1e-9)
        # After the M step the free energy is between the −log likelihoods before and after it.
        _, before = oracle.posterior_of_assignments(X, weights, means)
        _, after = oracle.posterior_of_assignments(X, again, p_again)
        assert -after - 1e-12 <= info.free_energy <= -before + 1e-12

    def test_what_is_read_is_the_brute_force_posterior(self, holes):
        X, K = table(6, 4, holes), 3
        weights, means = oracle.em_update(X, responsibilities_of(X, K))
        clusters = bernoulli_posterior.BernoulliClusters(weights, means, 0 * means)
        data = cells(X)
        found = bernoulli_posterior.responsibilities(clusters, data)
        assert found == pytest.approx(oracle.responsibilities(X, weights, means), rel=1e-12)
        densities = bernoulli_posterior.log_density(clusters, data)
        _, wanted = oracle.posterior_of_assignments(X, weights, means)
        assert densities.sum() == pytest.approx(wanted, rel=1e-12)

    def test_vb_free_energy_is_its_definition(self, holes):
        X, K, family = table(6, 4, holes), 3, Bayes(0.4, 0.7, 1.3)
        state = BernoulliState(sums_of(X, responsibilities_of(X, K)))
        logs = family.logs(state.sums)
        data = cells(X)
        q, _ = bernoulli.normalised(bernoulli.log_joint(data.values, data.known, logs))
        _, info = step(state, data, family)
        assert info.free_energy == pytest.approx(
            oracle.vb_free_energy(X, q, 0.4, 0.7, 1.3), rel=1e-12
        )

    def test_vb_is_a_bound_on_the_evidence(self, holes):
        X, K, family = table(6, 4, holes), 2, Bayes(0.5)
        run = inference.run(
            lambda state: step(state, cells(X), family),
            BernoulliState(sums_of(X, responsibilities_of(X, K))),
            max_iter=200,
            tol=1e-12,
        )
        exact = -oracle.log_evidence(X, run.state.n_clusters, 0.5, 1.0, 1.0)
        assert run.converged
        assert exact <= run.free_energy < exact + 3


@given(
    seed=st.integers(0, 10**6),
    K=st.integers(1, 6),
    family=st.sampled_from([MaximumLikelihood(), Bayes(0.2), Bayes(2.0, 0.5, 0.5)]),
    holes=st.sampled_from([0.0, 0.5]),
    init=st.sampled_from(sorted(STARTS)),
)
def test_the_free_energy_never_rises(seed, K, family, holes, init):
    X = table(25, 5, holes, seed)
    data = cells(X, np.random.default_rng(seed).uniform(0.1, 3, size=25))
    start = STARTS[init](data, K, np.random.default_rng(seed))
    # A rise is a warning, and warnings are errors.
    run = inference.run(lambda state: step(state, data, family), start, max_iter=200, tol=1e-10)
    assert np.isfinite(run.free_energy)
    assert run.state.sums.sizes.sum() == pytest.approx(data.total, rel=1e-9)


@pytest.mark.parametrize("family", [MaximumLikelihood(), Bayes(0.2)])
def test_weights_count_rows(family):
    X = table(20, 5, 0.2)
    times = np.random.default_rng(1).integers(1, 4, size=20)
    state = BernoulliState(sums_of(X, responsibilities_of(X, 3)))
    once, _ = step(state, cells(X, times.astype(float)), family)
    repeated, _ = step(state, cells(np.repeat(X, times, axis=0)), family)
    assert once.energy == pytest.approx(repeated.energy, rel=1e-12)
    assert once.sums.ones == pytest.approx(repeated.sums.ones, rel=1e-12)


def test_blocks_and_threads_do_not_matter(monkeypatch):
    X = table(500, 6, 0.2)
    state = BernoulliState(sums_of(X, responsibilities_of(X, 3)))
    whole, _ = step(state, cells(X), Bayes(0.2))
    monkeypatch.setattr(bernoulli_data, "BLOCK", 6 * 64)
    parts, _ = step(state, cells(X), Bayes(0.2))
    assert parts.energy == pytest.approx(whole.energy, rel=1e-13)


@pytest.mark.parametrize("holes", [0.0, 0.4])
def test_distances_of_filled_rows(holes):
    X = table(30, 7, holes)
    data = cells(X)
    filled = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    expected = ((filled - filled[5]) ** 2).sum(axis=1)
    assert data.squared_distances(5) == pytest.approx(expected, abs=1e-12)


def test_starts_with_more_clusters_than_different_rows():
    data = cells(np.ones((5, 3)))
    for start in STARTS.values():
        begun = start(data, 4, np.random.default_rng(0))
        assert begun.sums.sizes.sum() == pytest.approx(5)


def test_given_weights_and_means_are_where_it_starts():
    X, means = table(40, 4), np.array([[0.9, 0.8, 0.2, 0.3], [0.1, 0.2, 0.7, 0.6]])
    begun = STARTS["random"](cells(X), 2, np.random.default_rng(0))
    state = with_given(begun, cells(X), np.array([0.3, 0.7]), means)
    weights, found, _ = MaximumLikelihood().averages(state.sums)
    assert weights == pytest.approx([0.3, 0.7])
    assert found == pytest.approx(means)


def test_vb_finds_the_number_of_clusters():
    rng = np.random.default_rng(1)
    means = rng.beta(0.5, 0.5, size=(5, 20))
    X = (rng.random((1000, 20)) < means[rng.integers(5, size=1000)]).astype(float)
    looping = inference.Looping(tol=1e-6, n_init=2, random_state=0)
    data = bernoulli_rows(cells(X))
    for most in (8, 15):
        found = inference.fit(BernoulliModel(most, Bayes(1 / most)), data, looping)
        assert found.posterior.weights.size == 5
        gaps = np.abs(found.posterior.means[:, None] - means).mean(axis=2)
        assert gaps.min(axis=0).max() < 0.05
