"""`select_components`: the number of components by held-out log-likelihood."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import KFold

from bayespca import BernoulliMixture, select_components
from bayespca.estimators import ComponentSelection, bernoulli, binary_pca, selection


def blobs(n=240, K=3, p=2, seed=0):
    """Rows sorted by cluster, as tables often are, so that folds must be drawn at random."""
    rng = np.random.default_rng(seed)
    return 6 * np.repeat(np.eye(K, p), n // K, axis=0) + rng.normal(size=(n, p))


@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
def test_gaussian_mixtures_of_scikit_learn(kind):
    model = GaussianMixture(covariance_type=kind, n_init=2, random_state=0)
    found = select_components(model, blobs(), range(1, 6))
    assert found.within_one_error == 3
    assert found.scores.shape == (5, 5)
    assert not hasattr(model, "means_")


@pytest.mark.parametrize("method", ["ml", "vb"])
def test_bernoulli_mixtures_with_holes(method):
    rng = np.random.default_rng(0)
    means = rng.beta(0.3, 0.3, size=(3, 20))
    X = (rng.random((300, 20)) < np.repeat(means, 100, axis=0)).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    model = BernoulliMixture(method=method, n_init=2, random_state=0)
    found = select_components(model, X, [1, 2, 3, 4], cv=3)
    assert found.best == 3
    assert (found.standard_error > 0).all()


def test_the_figures_are_those_of_the_folds():
    X, folds = blobs(), KFold(4, shuffle=True, random_state=3)
    found = select_components(PCA(), X, [1, 2], cv=folds)
    for i, (train, test) in enumerate(folds.split(X)):
        assert found.scores[0, i] == pytest.approx(PCA(1).fit(X[train]).score(X[test]))
    assert found.mean == pytest.approx(found.scores.mean(axis=1))
    assert found.standard_error == pytest.approx(found.scores.std(axis=1, ddof=1) / 2)


def test_models_that_have_only_a_score():
    class Constant(BaseEstimator):
        def __init__(self, n_components=1):
            self.n_components = n_components

        def fit(self, X, y=None):
            return self

        def score(self, X, y=None):
            return float(-abs(self.n_components - 2))

    assert select_components(Constant(), np.zeros((9, 2)), [1, 2, 3], cv=3).best == 2


def test_one_standard_error():
    scores = np.array([[-5.0, -5.2], [-3.0, -3.1], [-2.8, -3.2], [-2.9, -3.3]])
    found = ComponentSelection(np.array([1, 2, 3, 4]), scores)
    assert found.best == 3
    assert found.within_one_error == 2
    assert "best" in str(found)
    assert "within one standard error" in str(found)


def test_the_same_seed_gives_the_same_folds():
    a, b = (select_components(PCA(), blobs(), [2, 1, 2], random_state=4) for _ in range(2))
    assert (a.scores == b.scores).all()
    assert a.n_components.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("model", "counts", "cv", "match"),
    [
        (LinearRegression(), [1], 5, "LinearRegression has no parameter n_components"),
        (KMeans(), [1], 5, "KMeans has no parameter n_components"),
        (PCA(), [], 5, "whole numbers to try"),
        (PCA(), [1.5], 5, r"got 1\.5"),
        (PCA(), [1], 1, "cv must be at least 2 folds, got 1"),
        (BernoulliMixture(binarize=0.0), [230], 5, "n_components=230 is more than the rows"),
    ],
)
def test_mistakes_are_named(model, counts, cv, match):
    with pytest.raises(ValueError, match=match):
        select_components(model, blobs(), counts, cv=cv)


@pytest.mark.parametrize("module", [bernoulli, binary_pca, selection])
def test_examples_in_docstrings(module):
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0
