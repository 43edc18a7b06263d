"""Data on which fits broke: each ends in an answer that is usable, or in a sentence."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from bayespca import BayesianPCA, BernoulliMixture, BinaryPCA, VariationalPCA
from bayespca.datasets import low_rank
from bayespca.estimators.pca import RankWarning
from bayespca.inference import FreeEnergyWarning

GIVEN = {"pb": 1.0, "pb-a": 1.0, "pb-b": 1.0, "map": 1.0, "vb": 1e3}
METHODS = ("evb", "epb", "emap", *GIVEN)
ONE = np.outer(np.arange(1.0, 21), np.arange(1.0, 6))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("center", [True, False])
def test_sweeps_on_data_of_rank_one(method, center):
    options = {"prior_variance": GIVEN.get(method), "center": center}
    model = BayesianPCA(method, solver="iterative", **options).fit(ONE)
    assert model.n_components_ == 1
    assert np.isfinite(model.transform(ONE)).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(6))
def test_sweeps_never_rise_where_there_is_no_noise(method, seed):
    """What is left is taken from differences no more, which had no digits: steps rose."""
    rng = np.random.default_rng(seed)
    k, n, p = rng.integers(1, 4), rng.integers(8, 40), rng.integers(5, 20)
    X = rng.integers(1, 9, (n, k)) @ rng.integers(1, 9, (k, p)).astype(float)
    given = {"prior_variance": GIVEN.get(method), "center": bool(seed % 2)}
    with warnings.catch_warnings():
        warnings.simplefilter("error", FreeEnergyWarning)
        BayesianPCA(method, solver="iterative", random_state=seed, **given).fit(X)


def test_bishops_model_ends_at_the_least_noise():
    """Where data have no noise, it is as if they had a little, and steps still lead lower."""
    X = np.outer(np.arange(1.0, 104), np.arange(1.0, 11))
    model = VariationalPCA(random_state=0).fit(X / X.std())
    again = VariationalPCA(random_state=0, tol=1e-14).fit(X / X.std())
    assert (model.n_components_, again.n_components_) == (1, 1)
    assert_allclose(model.free_energy_, again.free_energy_, rtol=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_components_found_by_sweeps_are_orthonormal(method):
    X = low_rank(60, 20, 4, random_state=0).X
    model = BayesianPCA(method, solver="iterative", prior_variance=GIVEN.get(method)).fit(X)
    W = model.components_
    assert model.converged_
    assert_allclose(W @ W.T, np.eye(len(W)), atol=1e-10)


@pytest.mark.parametrize("value", [0.0, 1.0])
@pytest.mark.filterwarnings(f"ignore::{ConvergenceWarning.__module__}.ConvergenceWarning")
def test_a_binary_table_that_is_all_the_same(value):
    for options in ({"max_iter": 50}, {}):
        model = BinaryPCA(**options).fit(np.full((30, 6), value))
        assert np.isfinite(model.transform(np.full((30, 6), value))).all()


def test_an_identity_without_a_row_and_a_column():
    X = np.eye(20)
    X[0], X[:, 0] = np.nan, np.nan
    with pytest.warns(RankWarning, match="without any value"):
        model = VariationalPCA(random_state=0).fit(X)
    assert np.isfinite(model.impute(X)).all()


def test_weights_that_do_not_add_up():
    X = np.random.default_rng(0).integers(0, 2, (30, 5))
    with pytest.raises(ValueError, match=r"3 positive numbers that sum to 1.* with sum 0\.6"):
        BernoulliMixture(3, weights_init=[0.2, 0.2, 0.2]).fit(X)


@pytest.mark.parametrize("has_hole", [False, True])
def test_a_prior_that_the_method_does_not_take(has_hole):
    X = low_rank(30, 5, 2, random_state=0).X
    X[3, 2] = np.nan if has_hole else 0.0
    with pytest.raises(ValueError, match="method 'evb' does not take prior_variance"):
        BayesianPCA(prior_variance=1.0).fit(X)
