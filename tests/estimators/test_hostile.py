"""Data on which fits once broke: each must end in a usable answer or a clear error."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from bayespca import GPLVM, BayesianPCA, BernoulliMixture, BinaryPCA, VariationalPCA
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
    """Residuals computed as differences lost all their digits, and steps raised the free energy."""
    rng = np.random.default_rng(seed)
    k, n, p = rng.integers(1, 4), rng.integers(8, 40), rng.integers(5, 20)
    X = rng.integers(1, 9, (n, k)) @ rng.integers(1, 9, (k, p)).astype(float)
    given = {"prior_variance": GIVEN.get(method), "center": bool(seed % 2)}
    with warnings.catch_warnings():
        warnings.simplefilter("error", FreeEnergyWarning)
        BayesianPCA(method, solver="iterative", random_state=seed, **given).fit(X)


def test_bishops_model_ends_at_the_least_noise():
    """Noise-free data are treated as having a little noise, and steps still descend."""
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
    with pytest.warns(RankWarning, match="no values"):
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


# --- curves ------------------------------------------------------------------------------------

T = np.random.default_rng(0).uniform(0, 3, size=60)
CURVE = np.stack([np.cos(T), np.sin(T), np.cos(2 * T), np.sin(2 * T)], axis=1)
CURVE += 0.05 * np.random.default_rng(1).normal(size=CURVE.shape)
FEW = {"n_components": 3, "n_inducing": 10, "random_state": 0}


def assert_usable(model, X):
    """Assert that all outputs are finite, for the rows of X and for a row without values."""
    empty = np.full((1, X.shape[1]), np.nan)
    for rows in (X, empty):
        for part in (*model.transform(rows, return_std=True), *model.impute(rows, return_std=True)):
            assert np.isfinite(part).all()
        assert np.isfinite(model.score_samples(rows)).all()
    assert np.isfinite(model.sample(3)).all()


def test_columns_that_do_not_vary_take_no_part_in_curves():
    X = np.insert(CURVE, 1, 2.5, axis=1)
    model, without = GPLVM(**FEW).fit(X), GPLVM(**FEW).fit(CURVE)
    assert "Constant columns were ignored: column 1." in str(model.status_)
    assert model.free_energy_ == pytest.approx(without.free_energy_)
    assert_allclose(model.denoise(X)[:, 1], 2.5)
    assert_usable(model, X)


ANYTHING = {
    "duplicates": np.repeat(CURVE[:6], 10, axis=0),
    "two points": np.repeat(CURVE[:2], 20, axis=0),
    "few rows": CURVE[:6],
    "two rows": CURVE[:2],
    "one column": CURVE[:, :1],
    "exact": ONE,
    "huge": 1e120 * CURVE,
    "tiny": 1e-120 * CURVE,
    "bits": (CURVE > 0).astype(float),
}


@pytest.mark.parametrize("name", ANYTHING)
def test_curves_through_anything(name):
    X = ANYTHING[name]
    assert_usable(GPLVM(3, n_inducing=min(10, len(X)), random_state=0).fit(X), X)


def test_more_inducing_points_than_rows():
    model = GPLVM(**FEW).fit(CURVE[:6])
    assert "n_inducing=10 exceeds the number of rows: 6 were used." in str(model.status_)
    assert len(model.inducing_points_) == 6


def test_rows_without_a_value_have_the_prior():
    X = CURVE.copy()
    X[7] = np.nan
    model = GPLVM(**FEW).fit(X)
    assert_allclose(model.embedding_[7], 0.0, atol=1e-3)
    assert_allclose(model.embedding_std_[7] ** 2, model.relevance_, rtol=1e-2)


@pytest.mark.parametrize(
    ("options", "X", "sentence"),
    [
        ({}, np.ones((9, 3)), "No column of X varies"),
        ({"kernel": "matern"}, CURVE, "unknown part 'matern'; known parts are 'squared-exp"),
        ({"kernel": "linear+"}, CURVE, "has the unknown part ''"),
        ({"kernel": 3}, CURVE, "kernel must be names of parts"),
        ({"method": "map"}, np.where(CURVE > 0.9, np.nan, CURVE), "method='map' is for complete"),
        ({"method": "map", "noise": "per-feature"}, CURVE, "has one noise variance"),
        ({}, np.where(CURVE > 0.9, np.inf, CURVE), "contains infinity"),
        ({}, np.column_stack([CURVE, np.full(60, np.nan)]), "no value in column 4"),
    ],
)
def test_curves_say_what_is_wrong(options, X, sentence):
    with pytest.raises(ValueError, match=sentence):
        GPLVM(**FEW, **options).fit(X)
