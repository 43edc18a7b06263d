"""The evidence chooses the true noise model, whatever the cap on the rank, and no larger one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_iris

from bayespca import BayesianPCA, inference
from bayespca.datasets import noisy
from bayespca.lowrank.noise_models import NOISES
from bayespca.noise import advice
from bayespca.noise.asked import Asked
from bayespca.noise.complete import Complete
from bayespca.noise.signs import Signs
from bayespca.spectrum.forms import ClosedForm
from bayespca.spectrum.records import Status

TRUTH = {
    "white": "isotropic",
    "columns": "per-feature",
    "rows": "per-sample",
    "both": "both",
    "t3": "student-cells",
    "gross": "student-cells",
    "ar": "autoregressive",
}
SHAPES = pytest.mark.parametrize(("n", "p", "rank"), [(300, 20, 3), (200, 60, 4)])


@pytest.mark.slow
@SHAPES
@pytest.mark.parametrize("kind", TRUTH)
def test_the_truth_is_chosen(kind, n, p, rank):
    found = BayesianPCA().fit(noisy(kind, n, p, rank, random_state=1).X)
    assert (found.noise_, found.n_components_) == (TRUTH[kind], rank)
    assert max(found.noise_evidence_, key=found.noise_evidence_.get) == found.noise_
    assert found.noise_evidence_["isotropic"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_rows_do_not_differ_where_columns_do(seed):
    found = BayesianPCA().fit(noisy("columns", 100, 15, 2, random_state=seed).X)
    assert found.noise_ == "per-feature"
    assert found.n_components_ == 2


@pytest.mark.parametrize("seed", range(3))
def test_neighbours_are_found_beneath_many_components(seed):
    """Equal noise would explain their correlation by half as many components as columns."""
    X = noisy("ar", 300, 20, 3, random_state=seed).X
    found = BayesianPCA().fit(X)
    assert (found.noise_, found.n_components_) == ("autoregressive", 3)


@pytest.mark.parametrize("kind", ["white", "rows", "ar"])
def test_a_cap_on_the_rank_does_not_change_the_noise(kind):
    """Components beyond the cap are not noise."""
    X = noisy(kind, 150, 15, 3, strength=1.0, random_state=2).X
    free, capped = BayesianPCA().fit(X), BayesianPCA(n_components=1).fit(X)
    assert capped.n_components_ == 1 < free.n_components_
    assert capped.noise_ == free.noise_ == TRUTH[kind]
    assert capped.noise_evidence_ == pytest.approx(free.noise_evidence_)


def penalty(name, n, p):
    """Sum over parameters of ½ log of the number of values that each is learned from."""
    counts = {
        "isotropic": [],
        "per-feature": [p],
        "per-sample": [n],
        "both": [n, p],
        "autoregressive": [p, n * p],
        "student-cells": [p, n * p],
    }
    return 0.5 * float(np.log(counts[name]).sum()) if counts[name] else 0.0


@pytest.mark.parametrize("kind", ["rows", "ar"])
def test_evidence_is_the_difference_of_free_energies(kind):
    X = noisy(kind, 80, 10, 2, strength=1.0, random_state=0).X
    evidence = BayesianPCA().fit(X).noise_evidence_
    assert len(evidence) > 2
    looping = inference.Looping(max_iter=1000, tol=1e-8)
    data = Complete(X, ClosedForm(), looping, Asked())
    costs = {name: data.fit(NOISES[name]).free_energy + penalty(name, 80, 10) for name in evidence}
    best = min(costs, key=costs.get)
    assert evidence[best] == pytest.approx(costs["isotropic"] - costs[best], abs=1e-6)
    # Models that cannot win any more are given up where they are.
    for name in evidence.keys() - {best, "isotropic"}:
        assert evidence[name] <= costs["isotropic"] - costs[name] + 1e-6
        assert evidence[name] < evidence[best]


def test_a_model_that_cannot_win_is_given_up():
    X = noisy("both", 80, 10, 2, random_state=0).X
    data = Complete(X, ClosedForm(), inference.Looping(), Asked())
    whole = data.fit(NOISES["per-feature"])
    given_up = data.fit(NOISES["per-feature"], whole.free_energy - 1000)
    assert not given_up.converged
    assert len(given_up.trace) < len(whole.trace)
    assert data.fit(NOISES["per-feature"], whole.free_energy + 1).converged


def test_the_order_of_columns_counts_only_where_neighbours_are_alike():
    X = noisy("ar", 200, 30, 3, random_state=0).X
    mixed = X[:, np.random.default_rng(0).permutation(30)]
    assert BayesianPCA().fit(mixed).noise_ != "autoregressive"


@pytest.mark.parametrize("seed", range(6))
def test_three_columns_with_a_component_in_common_show_no_order(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 1)) * np.ones(3) + rng.normal(size=(60, 3))
    model = BayesianPCA().fit(X)
    assert (model.noise_, model.n_components_) == ("isotropic", 1)


def test_what_fills_the_holes_of_a_small_table_does_not_decide():
    """Dividing features by their standard deviations makes equal noise unequal."""
    rng = np.random.default_rng(0)
    X = 3 * rng.normal(size=(60, 2)) @ rng.normal(size=(2, 8)) + rng.normal(size=(60, 8)) + 2
    X[rng.random(X.shape) < 0.3] = np.nan
    found = {BayesianPCA(scale=True).fit(X[rng.permutation(60)]).noise_ for _ in range(6)}
    assert found == {"per-feature"}


@pytest.mark.parametrize(("nats", "said"), [(9.0, False), (11.0, True)])
def test_a_few_nats_are_not_worth_a_sentence(nats, said):
    """Gains of a few nats occur in 2 % of small tables with equal noise."""
    X = noisy("columns", 60, 8, 1, random_state=0).X
    fit = replace(BayesianPCA(noise="isotropic").fit(X).fit_, status=Status())
    found = advice.at_least(fit, Signs(columns=nats), NOISES["isotropic"])
    assert (advice.CODE in found.status) == said


# --- the order of columns ----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::bayespca.estimators.pca.RankWarning")
def test_noise_of_neighbours_needs_the_order_of_few_columns():
    """By chance, columns of iris stand beside those that they resemble."""
    X = noisy("ar", 200, 12, 2, random_state=0).X
    assert BayesianPCA().fit(X).noise_ == "autoregressive"
    assert BayesianPCA().fit(X[:, ::-1]).noise_ == "autoregressive"
    iris = load_iris().data
    assert BayesianPCA().fit(iris).noise_ != "autoregressive"
    data = Complete(iris, ClosedForm(), inference.Looping(max_iter=500, tol=1e-8), Asked())
    own = data.fit(NOISES["autoregressive"]).free_energy
    assert own < data.fit(NOISES["isotropic"]).free_energy
