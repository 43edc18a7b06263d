"""`min_components`: columns for the next step of a pipeline, where nothing stands out."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from bayespca import BayesianPCA
from bayespca.estimators.pca import RankWarning

NOISE = np.random.default_rng(0).normal(size=(100, 20))
CLASSES = np.arange(100) % 2


def test_a_pipeline_gets_its_column():
    model = make_pipeline(BayesianPCA(min_components=1), LogisticRegression()).fit(NOISE, CLASSES)
    assert model[0].n_components_ == 1
    assert "EVB keeps 0" in str(model[0].status_)
    assert model[1].n_features_in_ == 1


def test_the_column_is_the_strongest_direction():
    model = BayesianPCA(min_components=1).fit(NOISE)
    strongest = np.linalg.svd(NOISE - NOISE.mean(axis=0))[2][0]
    assert abs(float(model.components_[0] @ strongest)) == pytest.approx(1.0)
    assert 0 < model.transform(NOISE).std() < model.project(NOISE).std()


def test_no_column_is_a_warning_where_it_would_go_on():
    with pytest.warns(RankWarning, match="min_components=1"):
        assert BayesianPCA().fit_transform(NOISE).shape == (100, 0)


def test_what_stands_out_is_not_changed():
    rng = np.random.default_rng(1)
    X = NOISE + 3 * rng.normal(size=(100, 3)) @ rng.normal(size=(3, 20))
    model = BayesianPCA(min_components=2).fit(X)
    assert model.n_components_ == 3
    assert "min_components" not in str(model.status_)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"min_components": -1}, "min_components must be a whole number"),
        ({"min_components": 1, "method": "map"}, "min_components=1 needs method='evb'"),
        ({"min_components": 2, "n_components": 1}, "more than n_components=1 allows"),
        ({"min_components": 1, "solver": "iterative"}, "leave solver at 'auto'"),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(ValueError, match=words):
        BayesianPCA(**options).fit(NOISE)


def test_data_without_variance_say_why_they_have_none():
    model = BayesianPCA(min_components=1).fit(np.full((10, 3), 2.5))
    assert model.n_components_ == 0
    assert "no solution with min_components=1" in str(model.status_)
