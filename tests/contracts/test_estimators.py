"""scikit-learn's own checks over every public estimator, none missing from the table."""

from __future__ import annotations

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

import bayespca
from bayespca import BayesianPCA, BayesianPCAImputer, GibbsPCA, VariationalPCA

ESTIMATORS = [
    BayesianPCA(),
    BayesianPCA("ml", n_components=1),
    BayesianPCA("map", prior_variance=10.0),
    BayesianPCA(scale=True, whiten=True),
    BayesianPCA(noise="per-feature", max_iter=100, tol=1e-4),
    BayesianPCA(engine="randomized", random_state=0),
    BayesianPCA(solver="iterative", random_state=0),
    BayesianPCAImputer(max_iter=100, tol=1e-6),
    GibbsPCA(2, n_draws=20, n_warmup=20, n_chains=2, random_state=0),
    VariationalPCA(random_state=0),
    VariationalPCA(2, prior="unit", center=False, random_state=0),
]


@pytest.mark.filterwarnings("ignore::bayespca.estimators.RankWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_every_public_estimator_is_in_the_table():
    public = {
        value
        for value in (getattr(bayespca, name) for name in bayespca.__all__)
        if isinstance(value, type) and issubclass(value, BaseEstimator)
    }
    assert public == {type(estimator) for estimator in ESTIMATORS}
