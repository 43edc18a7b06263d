"""Tiny and odd tables with holes: finite results, or a clear error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayespca import BayesianPCA
from bayespca.estimators.pca import RankWarning
from cases import EVERY_CASE

OPTIONS = [
    {},
    {"scale": True},
    {"noise": "per-feature"},
    {"method": "ml", "n_components": 0},
    {"method": "ml", "n_components": 2},
    {"method": "ml", "n_components": 1, "noise": "per-feature"},
    {"method": "epb"},
    {"method": "emap", "scale": True},
    {"method": "vb"},
    {"method": "vb", "prior_variance": 2.0},
    {"method": "vb", "prior_variance": 2.0, "noise": "per-feature"},
    {"method": "pb", "prior_variance": 2.0},
    {"method": "pb-a"},
    {"method": "pb-b"},
    {"method": "map", "prior_variance": 0.1},
    {"method": "map", "n_components": 1},
    {"center": False},
    {"method": "map", "prior_variance": 1.0, "center": False},
    {"noise_variance": 1.0},
    {"noise_variance": "0db"},
]


@pytest.mark.filterwarnings("ignore::bayespca.estimators.RankWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@settings(max_examples=400 if EVERY_CASE else 200)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 12),
    p=st.integers(1, 8),
    share=st.floats(0.05, 0.95),
    power=st.integers(-3, 3),
    odd=st.sampled_from(["", "constant column", "whole numbers", "equal rows"]),
    options=st.sampled_from(OPTIONS),
)
def test_tiny_tables(seed, n, p, share, power, odd, options):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * 10.0**power + rng.integers(-100, 100)
    if odd == "constant column":
        X[:, 0] = 3.0
    elif odd == "whole numbers":
        X = np.round(X)
    elif odd == "equal rows":
        X[:] = X[0]
    holes = rng.random(X.shape) < share
    holes[0, 0] = not holes.all()
    Y = np.where(holes, np.nan, X)
    if holes.all():
        with pytest.raises(ValueError, match="no value at all"):
            BayesianPCA(**options).fit(Y)
        return
    if options.get("method") == "ml":
        options = options | {"n_components": min(options["n_components"], n, p)}
    model = BayesianPCA(max_iter=200, **options).fit(Y)
    filled, std = model.impute(Y, return_std=True)
    scores, spread = model.transform(Y, return_std=True)
    for array in (filled, std, scores, spread, model.sample_imputations(Y, 1)):
        assert np.isfinite(array).all()
    np.testing.assert_array_equal(filled[~holes], X[~holes])


def of_rank(n, p, rank, noise, *, has_hole):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, p)) + noise * rng.normal(size=(n, p))
    X[3, 4] = np.nan if has_hole else X[3, 4]
    return X


@pytest.mark.parametrize("has_hole", [False, True])
def test_nearly_as_many_components_as_can_be_found(has_hole):
    X = of_rank(200, 6, 4, 0.1, has_hole=has_hole)
    with pytest.warns(RankWarning, match="nearly as many as can be distinguished"):
        model = BayesianPCA(noise="isotropic").fit(X)
    assert "near-rank-bound" in model.status_
    known = BayesianPCA(noise="isotropic", noise_variance=0.01).fit(X)
    assert "near-rank-bound" not in known.status_


@pytest.mark.parametrize("has_hole", [False, True])
def test_a_number_near_the_bound_that_is_not_determined_says_both(has_hole):
    X = of_rank(60, 12, 9, 0.3, has_hole=has_hole)
    with pytest.warns(RankWarning, match="nearly as many as can be distinguished"):
        model = BayesianPCA(noise="isotropic").fit(X)
    assert model.rank_posterior_ is None
    assert "more cannot be told apart from deviations from the model" in str(model.status_)
    with pytest.warns(RankWarning, match="nearly as many as can be distinguished"):
        BayesianPCA(noise="isotropic", n_components=model.n_components_).fit(X)
