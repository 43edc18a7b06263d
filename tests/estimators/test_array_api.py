"""torch and array-api-strict arrays: results are of the same kind, in the same place."""

from __future__ import annotations

import importlib

import array_api_strict
import numpy as np
import pytest

from bayespca import BayesianPCA, denoise, evbmf
from bayespca.arrays import to_numpy
from bayespca.datasets import low_rank
from bayespca.engines import ENGINES


def namespace(name):
    if name == "array_api_strict":
        return array_api_strict
    try:
        return importlib.import_module(name)
    except ImportError:
        pytest.skip(f"{name} is not installed: its wheels are too large to ask of every tester")


IN_MEMORY = ["dense", "gram", "randomized"]
NAMESPACES = ["array_api_strict", "torch"]


@pytest.fixture(params=NAMESPACES)
def xp(request):
    return namespace(request.param)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", [(300, 40), (40, 300)])
@pytest.mark.parametrize("engine", IN_MEMORY)
@pytest.mark.parametrize("options", [{}, {"scale": True, "whiten": True}])
def test_the_same_answer_in_the_same_place(xp, dtype, shape, engine, options):
    X = low_rank(*shape, 3, mean=2.0, random_state=0).X.astype(dtype)
    ours = BayesianPCA(engine=engine, random_state=0, **options).fit(xp.asarray(X))
    theirs = BayesianPCA(engine=engine, random_state=0, **options).fit(X)
    tol = 1e-7 if dtype == "float64" else 2e-3
    assert ours.n_components_ == theirs.n_components_ >= 3
    assert ours.noise_variance_ == pytest.approx(theirs.noise_variance_, rel=tol)
    for name in ("components_", "mean_", "components_std_", "singular_values_"):
        value = getattr(ours, name)
        assert type(value) is type(xp.asarray(X))
        assert value.dtype == getattr(xp, dtype)
        assert to_numpy(value) == pytest.approx(getattr(theirs, name), rel=tol, abs=tol)
    T, std = ours.transform(xp.asarray(X), return_std=True)
    T0, std0 = theirs.transform(X, return_std=True)
    assert T.dtype == getattr(xp, dtype)
    assert to_numpy(T) == pytest.approx(T0, abs=10 * tol * float(np.abs(T0).max()))
    assert to_numpy(std) == pytest.approx(std0, rel=10 * tol)
    again = to_numpy(ours.inverse_transform(T))
    assert again == pytest.approx(
        theirs.inverse_transform(T0), abs=10 * tol * float(np.abs(X).max())
    )
    density = to_numpy(ours.score_samples(xp.asarray(X)))
    assert density == pytest.approx(theirs.score_samples(X), rel=10 * tol)
    assert to_numpy(ours.get_covariance()) == pytest.approx(
        theirs.get_covariance(), abs=10 * tol * float(np.abs(theirs.get_covariance()).max())
    )
    assert ours.sample(4).shape == (4, shape[1])


def test_rank_zero_and_other_methods(xp):
    X = np.random.default_rng(0).normal(size=(100, 8))
    model = BayesianPCA().fit(xp.asarray(X))
    assert model.n_components_ == 0
    assert tuple(model.transform(xp.asarray(X)).shape) == (100, 0)
    for method, n in [("ml", 2), ("map", 3), ("vb", 2), ("epb", 2), ("laplace", 2)]:
        ours = BayesianPCA(method, n_components=n).fit(xp.asarray(X))
        assert ours.n_components_ == BayesianPCA(method, n_components=n).fit(X).n_components_


def test_functions(xp):
    Y = low_rank(30, 90, 3, random_state=0).X
    U, S, V, post = evbmf(xp.asarray(Y))
    U0, S0, V0, post0 = evbmf(Y)
    assert type(U) is type(S) is type(V) is type(xp.asarray(Y))
    assert to_numpy(U @ S @ V.T) == pytest.approx(U0 @ S0 @ V0.T, abs=1e-8)
    assert post["F"] == pytest.approx(post0["F"])
    assert to_numpy(denoise(xp.asarray(Y))) == pytest.approx(denoise(Y), abs=1e-8)


def test_per_feature_noise(xp):
    X = low_rank(300, 8, 2, random_state=0).X
    ours = BayesianPCA(noise="per-feature", tol=1e-6).fit(xp.asarray(X))
    theirs = BayesianPCA(noise="per-feature", tol=1e-6).fit(X)
    assert to_numpy(ours.feature_noise_variance_) == pytest.approx(theirs.feature_noise_variance_)


def test_bad_arrays(xp):
    X = np.random.default_rng(0).normal(size=(20, 4))
    X[3, 2] = np.inf
    with pytest.raises(ValueError, match="infinity, first at row 3, column 2"):
        BayesianPCA().fit(xp.asarray(X))
    with pytest.raises(ValueError, match="2D"):
        BayesianPCA().fit(xp.asarray(X[0]))
    with pytest.raises(ValueError, match="0 sample"):
        BayesianPCA().fit(xp.asarray(X[:0]))
    model = BayesianPCA().fit(xp.asarray(X[:3]))
    with pytest.raises(ValueError, match="4 features"):
        model.transform(xp.asarray(X[:3, :2]))
    with pytest.raises(ValueError, match="infinity"):
        model.transform(xp.asarray(X))
    with pytest.raises(ValueError, match="no value at all"):
        BayesianPCA().fit(xp.asarray(np.full((3, 2), np.nan)))


HOLES = [
    {},
    {"scale": True},
    {"noise": "per-feature"},
    {"method": "emap"},
    {"method": "vb", "prior_variance": 2.0},
    {"method": "ml", "n_components": 2, "center": False},
]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("options", HOLES, ids=str)
def test_holes_stay_where_they_are(xp, dtype, options):
    rng = np.random.default_rng(0)
    X = low_rank(60, 12, 2, mean=2.0, random_state=0).X.astype(dtype)
    Y = np.where(rng.random(X.shape) < 0.2, np.nan, X).astype(dtype)
    Y[7], Y[8] = Y[9], Y[9]  # rows with the same holes
    there = xp.asarray(Y)
    ours, theirs = BayesianPCA(**options).fit(there), BayesianPCA(**options).fit(Y)
    assert ours.engine_ == "holes"
    assert ours.n_components_ == theirs.n_components_
    assert ours.free_energy_ == pytest.approx(theirs.free_energy_, rel=1e-9)
    tol = 1e-6 if dtype == "float64" else 1e-4
    for name in ("components_", "mean_", "components_std_", "singular_values_"):
        value = getattr(ours, name)
        assert type(value) is type(there)
        assert value.dtype == there.dtype
        np.testing.assert_allclose(to_numpy(value), getattr(theirs, name), atol=tol)
    pairs = [
        (ours.transform(there), theirs.transform(Y)),
        (ours.score_samples(there), theirs.score_samples(Y)),
        (ours.denoise(there), theirs.denoise(Y)),
        (ours.project(there), theirs.project(Y)),
        *zip(ours.impute(there, return_std=True), theirs.impute(Y, return_std=True), strict=True),
    ]
    for found, wanted in pairs:
        assert type(found) is type(there)
        size = float(np.abs(wanted).max())
        np.testing.assert_allclose(to_numpy(found), wanted, atol=20 * tol * size)
    draws = ours.sample_imputations(there, 2, random_state=0)
    assert tuple(draws.shape) == (2, 60, 12)
    assert type(draws) is type(there)


@pytest.mark.parametrize("method", ["evb", "map", "laplace"])
def test_complete_data_then_rows_with_holes(xp, method):
    X = low_rank(60, 12, 2, mean=2.0, random_state=0).X
    Y = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    ours, theirs = BayesianPCA(method).fit(xp.asarray(X)), BayesianPCA(method).fit(X)
    for name in ("transform", "score_samples", "denoise", "impute"):
        found, wanted = getattr(ours, name)(xp.asarray(Y)), getattr(theirs, name)(Y)
        assert type(found) is type(xp.asarray(Y))
        np.testing.assert_allclose(to_numpy(found), wanted, rtol=1e-6, atol=1e-6)


def test_integers_become_float64(xp):
    X = np.arange(60).reshape(20, 3) % 7
    assert BayesianPCA().fit(xp.asarray(X)).mean_.dtype == xp.float64


def test_every_engine_for_arrays_in_memory_is_covered():
    assert set(ENGINES) == {*IN_MEMORY, "streaming", "sparse", "dask"}


@pytest.mark.parametrize("engine", ["auto", *IN_MEMORY])
@pytest.mark.parametrize("share", [0.0, 0.2])
def test_columns_that_do_not_vary(xp, engine, share):
    X = low_rank(60, 9, 2, mean=2.0, random_state=0).X
    X[:, 2], X[:, 8] = 2.0, -1e4
    X[np.random.default_rng(0).random(X.shape) < share] = np.nan
    ours, theirs = (BayesianPCA(engine=engine, random_state=0).fit(A) for A in (xp.asarray(X), X))
    assert ours.n_components_ == theirs.n_components_
    assert ours.free_energy_ == pytest.approx(theirs.free_energy_, rel=1e-9)
    assert to_numpy(ours.mean_) == pytest.approx(theirs.mean_, abs=1e-9)
    assert to_numpy(ours.components_) == pytest.approx(theirs.components_, abs=1e-7)
