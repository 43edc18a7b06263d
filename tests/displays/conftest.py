"""Close figures after each test, and fit models that several tests share only once."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.datasets import low_rank
from bayespca.estimators import BayesianPCA


@pytest.fixture(autouse=True)
def plt():
    """matplotlib.pyplot, without windows."""
    matplotlib = pytest.importorskip("matplotlib", reason="plots need matplotlib")
    matplotlib.use("Agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    yield pyplot
    pyplot.close("all")


@pytest.fixture(scope="session")
def X():
    """120×12, three components above noise of variance 1."""
    return low_rank(120, 12, 3, mean=1.0, random_state=0).X


@pytest.fixture(scope="session")
def model(X):
    fitted = BayesianPCA().fit(X)
    assert fitted.n_components_ == 3
    return fitted


@pytest.fixture(scope="session")
def noise():
    """Pure noise of variance 1: rank 0."""
    fitted = BayesianPCA(engine="gram").fit(np.random.default_rng(0).normal(size=(400, 100)))
    assert fitted.n_components_ == 0
    return fitted


@pytest.fixture(scope="session")
def line():
    """Data along one direction, and their model of rank 1."""
    X = low_rank(60, 8, 1, strength=2.0, random_state=1).X
    fitted = BayesianPCA().fit(X)
    assert fitted.n_components_ == 1
    return X, fitted


@pytest.fixture(scope="session")
def per_feature(X):
    """A model fitted iteratively, with a noise variance for each feature."""
    units = np.logspace(-2, 2, X.shape[1])
    return BayesianPCA(noise="per-feature").fit(X * units)
