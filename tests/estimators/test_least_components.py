"""`min_components`: columns for the next step of a pipeline, even if nothing stands out."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from bayespca import BayesianPCA, load
from bayespca.estimators import summarize
from bayespca.estimators.pca import RankWarning
from bayespca.estimators.wording import headline

NOISE = np.random.default_rng(0).normal(size=(100, 20))
CLASSES = np.arange(100) % 2


def unit(vector):
    return vector / np.linalg.norm(vector)


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


def with_holes(X, seed=3):
    return np.where(np.random.default_rng(seed).random(X.shape) < 0.1, np.nan, X)


# Noise whose strongest direction lies below the edge above which EVB has solutions.
WEAK = with_holes(np.random.default_rng(3).normal(size=(100, 20)))
COLUMNS = np.geomspace(1, 100, 20)


@pytest.mark.parametrize("seed", range(6))
def test_holes_leave_the_column(seed):
    X = with_holes(np.random.default_rng(seed).normal(size=(100, 20)), seed)
    first = BayesianPCA(n_components="evb", min_components=1)
    model = make_pipeline(first, LogisticRegression()).fit(X, CLASSES)
    assert model[0].n_components_ == 1
    assert "EVB keeps 0; min_components=1 raises this to 1" in str(model[0].status_)


def test_what_evb_has_no_solution_for_is_that_of_maximum_likelihood(tmp_path):
    model = BayesianPCA(min_components=2).fit(WEAK)
    assert "by maximum likelihood" in str(model.status_)
    same = BayesianPCA("ml", n_components=2).fit(WEAK)
    np.testing.assert_allclose(
        model.components_.T @ model.components_, same.components_.T @ same.components_, atol=1e-6
    )
    assert model.noise_variance_ == pytest.approx(same.noise_variance_)
    model.save(tmp_path / "m.bpca")
    np.testing.assert_array_equal(load(tmp_path / "m.bpca").transform(WEAK), model.transform(WEAK))


@pytest.mark.parametrize("X", [NOISE, WEAK], ids=["complete", "holes"])
def test_what_was_asked_for_is_not_what_was_found(X):
    model, free = BayesianPCA(min_components=2).fit(X), BayesianPCA().fit(X)
    assert headline(summarize(model)) == (
        "Two dimensions, as requested; fewer stand out from the noise."
    )
    size = free.rank_posterior_.size
    np.testing.assert_allclose(model.rank_posterior_[:size], free.rank_posterior_)
    assert not model.rank_posterior_[size:].any()


@pytest.mark.parametrize("X", [NOISE, WEAK], ids=["complete", "holes"])
@pytest.mark.parametrize("noise", ["per-feature", "per-sample", "both", "student-cells"])
def test_noise_that_differs_leaves_the_column(noise, X):
    """Maximum likelihood with unequal noise would take a single column as the component."""
    units = np.ones(20) if noise == "per-sample" else COLUMNS
    model = BayesianPCA(min_components=1, noise=noise).fit(X * units)
    assert (model.n_components_, model.noise_) == (1, noise)
    if noise != "per-sample":
        spread = np.nanvar(X * units, axis=0)
        assert (model.feature_noise_variance_ > 0.6 * spread).all()
        assert np.abs(model.components_[0]).max() < 0.8


@pytest.mark.parametrize("X", [NOISE, WEAK], ids=["complete", "holes"])
def test_noise_that_is_given_leaves_the_column(X):
    model = BayesianPCA(min_components=1, noise_variance=1.0).fit(X)
    assert (model.n_components_, model.transform(X).std() > 0.1) == (1, True)
    # With noise above the variance of the data, the direction is kept but its scores are 0.
    assert BayesianPCA(min_components=1, noise_variance=100.0).fit(X).project(X).std() > 0.1


def test_blocks_of_rows_leave_the_column():
    model = BayesianPCA(min_components=1, noise_variance=1.0)
    for block in np.split(NOISE, 4):
        model.partial_fit(block)
    assert model.n_components_ == 1
    assert BayesianPCA(min_components=1).fit(iter(np.split(NOISE, 4))).n_components_ == 1


@pytest.mark.parametrize("noise", ["auto", "per-feature", "autoregressive"])
@pytest.mark.parametrize(("strength", "least"), [(0.0, 1), (1.0, 0)])
def test_blocks_that_can_be_read_once_are_enough(strength, least, noise):
    """EVB keeps no component: one is asked for, or is the most probable number."""
    rng = np.random.default_rng(1)
    weak = np.outer(rng.normal(size=100), strength * unit(rng.normal(size=20)))
    X = (NOISE + weak) * COLUMNS
    evb = BayesianPCA(noise=noise, n_components="evb").fit(iter(np.split(X, 4)))
    assert evb.n_components_ == 0
    model = BayesianPCA(noise=noise, min_components=least).fit(iter(np.split(X, 4)))
    assert model.noise_ != "isotropic"
    same = BayesianPCA(noise=model.noise_, min_components=least).fit(X)
    assert model.n_components_ == same.n_components_ > 0
    assert model.noise_variance_ == pytest.approx(same.noise_variance_, rel=1e-6)


def test_rows_on_workers_leave_the_column():
    da = pytest.importorskip("dask.array")
    for X in (WEAK, WEAK * COLUMNS):
        model = BayesianPCA(min_components=1).fit(da.from_array(X, chunks=(25, 20)))
        assert model.n_components_ == 1


def test_engines_look_for_as_many_as_are_asked_for():
    X = np.random.default_rng(0).normal(size=(1500, 600))
    assert BayesianPCA(engine="randomized").fit(X).engine_ == "randomized"
    model = BayesianPCA(min_components=7, engine="randomized").fit(X)
    assert model.n_components_ == 7
    same = BayesianPCA(min_components=7, engine="dense").fit(X)
    assert model.noise_variance_ == pytest.approx(same.noise_variance_)


def test_data_without_variance_say_why_they_have_none():
    model = BayesianPCA(min_components=1).fit(np.full((10, 3), 2.5))
    assert model.n_components_ == 0
    assert "so min_components=1 cannot be met" in str(model.status_)
