"""Data of exactly or nearly low rank: rounding errors are neither components nor noise."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bayespca import BayesianPCA, rank_report
from bayespca.estimators.pca import RankWarning

NOISES = ("auto", "isotropic", "per-feature", "per-sample", "both", "autoregressive")


def product(n, p, k, noise=0.0):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, k)) @ rng.normal(size=(k, p)) + noise * rng.normal(size=(n, p))


def in_blocks(X):
    model = BayesianPCA()
    for block in np.array_split(X, 3):
        model.partial_fit(block)
    return model


@pytest.mark.parametrize("turned", [False, True])
def test_every_rule_finds_the_rank_of_a_product(turned):
    """The rank must not depend on the order of the rows."""
    X = product(50, 12, 2)
    X = X.T if turned else X
    for rows in (X, X[::-1], X[np.random.default_rng(1).permutation(len(X))]):
        report = rank_report(rows)
        assert set(report.ranks().values()) == {2}, report
        assert set(report.stability.ranks) == {2}


def test_minka_finds_one_component_in_redundant_columns():
    """The columns are multiples of one another, as in scikit-learn's own test."""
    X = np.outer(np.random.default_rng(0).normal(size=100), np.arange(1.0, 21))
    assert BayesianPCA("laplace").fit(X).n_components_ == 1


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("size", [0.0, 1e-12, 1e-8])
def test_every_noise_model_finds_the_rank_where_there_is_hardly_noise(noise, size):
    assert BayesianPCA(noise=noise).fit(product(50, 12, 2, size)).n_components_ == 2


@pytest.mark.parametrize("size", [0.0, 1e-9, 1e-8])
def test_a_single_pass_says_that_it_cannot_see_the_noise(size):
    X = product(200, 20, 3, size)
    for fit in (in_blocks, lambda X: BayesianPCA().fit(iter(np.array_split(X, 3)))):
        with pytest.warns(RankWarning, match="a single pass"):
            model = fit(X)
        assert model.n_components_ == 3
        assert not model.status_.exact


ENGINES = ("auto", "dense", "gram", "randomized", "streaming")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("size", [1e-4, 1e-5, 1e-6])
def test_float32_shows_what_noise_it_can_hold(engine, size):
    """Numbers in float32 have seven digits, so noise shows only above the last of them."""
    X = product(300, 30, 3, size).astype(np.float32)
    model = BayesianPCA(noise="isotropic", engine=engine).fit(X)
    assert model.n_components_ == 3
    assert model.components_.dtype == np.float32
    assert_allclose(model.noise_variance_, size**2, rtol=0.05)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("size", [1e-8, 0.0])
def test_rounding_to_float32_is_no_component(engine, size):
    model = BayesianPCA(engine=engine).fit(product(300, 30, 3, size).astype(np.float32))
    assert model.n_components_ == 3
    assert "noise-free" in model.status_
