"""BayesianPCA on Dask collections: the same answers as in memory, lazy where possible."""

from __future__ import annotations

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import bayespca
from bayespca import BayesianPCA, load, rank_report

ROWS, COLUMNS = (100, 1, 0, 259, 140), (5, 2, 3)


def matrix(n=500, p=10, *, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = 2 * rng.normal(size=(n, 3)) @ rng.normal(size=(3, p)) + rng.normal(size=(n, p)) + 5
    return X.astype(dtype)


def lazy(X, rows=ROWS, columns=COLUMNS):
    return da.from_array(X, chunks=(rows, columns))


def same(ours, theirs, tol=1e-8):
    """Assert that two fits agree in everything that is identified."""
    assert ours.n_components_ == theirs.n_components_
    assert ours.n_samples_ == theirs.n_samples_
    assert np.asarray(ours.noise_variance_) == pytest.approx(theirs.noise_variance_, rel=tol)
    assert ours.singular_values_ == pytest.approx(theirs.singular_values_, rel=tol)
    assert ours.mean_ == pytest.approx(theirs.mean_, rel=tol, abs=tol)
    overlap = np.linalg.svd(ours.components_ @ theirs.components_.T, compute_uv=False)
    assert overlap == pytest.approx(np.ones(ours.n_components_), abs=tol)


OPTIONS = [
    {},
    {"center": False},
    {"scale": True},
    {"scale": True, "center": False},
    {"whiten": True},
    {"noise": "per-feature"},
    {"noise": "per-feature", "center": False},
    {"noise_variance": "0db"},
    {"n_components": 1},
    {"solver": "iterative", "init": "closed"},
]
METHODS = [
    {"method": "epb"},
    {"method": "emap"},
    {"method": "vb", "prior_variance": 3.0},
    {"method": "pb", "prior_variance": 3.0},
    {"method": "map", "prior_variance": 3.0},
    {"method": "ml", "n_components": 2},
    {"method": "laplace"},
]
QUIET = pytest.mark.filterwarnings("ignore::bayespca.estimators.pca.RankWarning")


@QUIET
@pytest.mark.parametrize("options", [*OPTIONS, *METHODS], ids=str)
@pytest.mark.parametrize("is_wide", [False, True])
def test_options_and_methods(options, is_wide):
    X = matrix()
    x = lazy(X)
    if is_wide:
        X, x = np.ascontiguousarray(X.T), x.T
    # test_dask_noise.py tests the choice of the noise.
    options = {"noise": "isotropic"} | options
    found = BayesianPCA(**options).fit(x)
    # Wide data are gathered in memory if each column has its own noise.
    gathered = is_wide and options["noise"] == "per-feature"
    assert found.engine_ == ("dense" if gathered else "dask")
    same(found, BayesianPCA(**options).fit(X))
    scores = found.transform(x)
    assert isinstance(scores, da.Array)
    assert scores.compute() == pytest.approx(
        BayesianPCA(**options).fit(X).transform(X), rel=1e-7, abs=1e-7
    )


@pytest.mark.parametrize("rows", [(500,), (250, 250), (1,) * 500, (0, 499, 1, 0)], ids=len)
@pytest.mark.parametrize("columns", [(10,), (1, 9)], ids=len)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_chunks_and_types(rows, columns, dtype):
    X = np.round(matrix() * 50).astype(dtype)
    with dask.config.set(scheduler="synchronous"):
        found = BayesianPCA().fit(lazy(X, rows, columns))
    same(found, BayesianPCA().fit(X), 1e-8 if dtype != np.float32 else 1e-5)
    assert found.components_.dtype == (np.float32 if dtype == np.float32 else np.float64)


@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes"])
def test_schedulers(scheduler):
    X = matrix()
    with dask.config.set(scheduler=scheduler):
        same(BayesianPCA().fit(lazy(X)), BayesianPCA().fit(X))


def test_unknown_chunk_sizes_stay_unknown():
    X = matrix()
    x = lazy(X)
    x, X = x[x[:, 0] > 5], X[X[:, 0] > 5]
    found = BayesianPCA().fit(x)
    same(found, BayesianPCA().fit(X))
    scores = found.transform(x)
    assert np.isnan(scores.chunks[0]).all()
    assert scores.shape[1] == found.n_components_
    assert scores.compute() == pytest.approx(found.transform(X), abs=1e-10)
    assert found.score(x) == pytest.approx(found.score(X), rel=1e-12)


def test_few_rows_of_unknown_number():
    """There are more columns than rows, but Dask cannot know that."""
    X = np.ascontiguousarray(matrix().T)
    x = da.from_array(X, chunks=(4, 200))
    same(BayesianPCA().fit(x[x[:, 0] > -np.inf]), BayesianPCA().fit(X))


def test_signals_far_above_the_noise_take_a_second_pass():
    """The scatter matrix squares the condition number; triangular factors do not."""
    rng = np.random.default_rng(0)
    X = 1e7 * rng.normal(size=(300, 2)) @ rng.normal(size=(2, 20)) + rng.normal(size=(300, 20))
    exact = BayesianPCA(engine="dense")
    same(BayesianPCA().fit(da.from_array(X, chunks=(70, 6))), exact.fit(X), 1e-6)
    wide = np.ascontiguousarray(X.T)
    same(BayesianPCA().fit(da.from_array(wide, chunks=(6, 70))), exact.fit(wide), 1e-6)


@pytest.mark.parametrize("shape", [(300, 8), (8, 300)])
def test_constant_columns_and_rank_zero(shape):
    rng = np.random.default_rng(0)
    X = rng.normal(size=shape)
    X[:, [0, 3]] = 3.25, 0.0
    x = da.from_array(X, chunks=(100, 5))
    found = BayesianPCA().fit(x)
    assert found.n_components_ == 0
    assert found.transform(x).compute().shape == (shape[0], 0)
    assert found.inverse_transform(found.transform(x)).compute() == pytest.approx(
        np.broadcast_to(X.mean(axis=0), shape), abs=1e-12
    )
    same(found, BayesianPCA().fit(X))
    flat = BayesianPCA().fit(da.full(shape, 7.5, chunks=(100, 5)))
    assert flat.n_components_ == 0
    assert flat.mean_ == pytest.approx(np.full(shape[1], 7.5))


@pytest.mark.parametrize("factor", [1e-150, 1e150])
@pytest.mark.parametrize("is_wide", [False, True])
def test_numbers_of_any_size(factor, is_wide):
    X = matrix().T if is_wide else matrix()
    found = BayesianPCA().fit(da.from_array(X * factor, chunks=(90, 90)))
    assert found.n_components_ == 3
    reference = BayesianPCA().fit(X).noise_variance_
    assert found.noise_variance_ / factor / factor == pytest.approx(reference, rel=1e-7)


# --- methods of a fitted model -----------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_everything_that_is_lazy(dtype):
    X = matrix(dtype=dtype)
    x = lazy(X)
    found = BayesianPCA(whiten=True).fit(x)
    holes = X.copy()
    holes[::7, 2] = np.nan
    calls = {
        "transform": (found.transform, X),
        "project": (found.project, X),
        "denoise": (found.denoise, X),
        "impute": (found.impute, holes),
        "score_samples": (found.score_samples, X),
        "inverse_transform": (found.inverse_transform, found.transform(X)),
    }
    for name, (method, data) in calls.items():
        chunks = (ROWS, data.shape[1])
        answer, expected = method(da.from_array(data, chunks=chunks)), method(data)
        assert isinstance(answer, da.Array), name
        assert answer.chunks[0] == ROWS, name
        assert answer.shape == expected.shape, name
        assert answer.dtype == expected.dtype, name
        values = answer.compute()
        assert values.dtype == expected.dtype, name
        assert values == pytest.approx(expected, rel=1e-4 if dtype == np.float32 else 1e-9), name
    for method in (found.transform, found.impute):
        both = method(lazy(holes), return_std=True)
        for answer, expected in zip(both, method(holes, return_std=True), strict=True):
            assert answer.compute() == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert found.score(x) == pytest.approx(found.score(X), rel=1e-6)


def test_nothing_is_computed_before_it_is_asked_for():
    computations = []

    def seen(block):
        computations.append(len(block))
        return block

    X = matrix()
    x = lazy(X, columns=(10,)).map_blocks(seen, meta=np.empty((0, 0)))
    found = BayesianPCA().fit(X)
    scores = found.transform(x)
    found.score_samples(x)
    assert computations == []
    scores.blocks[1].compute()
    assert computations == [1]


def test_a_refit_does_not_change_what_was_asked_before():
    X = matrix()
    found = BayesianPCA().fit(X)
    before, expected = found.transform(lazy(X)), found.transform(X)
    found.fit(matrix(seed=1))
    assert before.compute() == pytest.approx(expected, abs=1e-12)


def test_fit_transform_and_other_rows():
    X = matrix()
    scores = BayesianPCA().fit_transform(lazy(X))
    assert isinstance(scores, da.Array)
    found = BayesianPCA().fit(lazy(X))
    assert scores.compute() == pytest.approx(found.transform(X), abs=1e-9)
    with pytest.raises(ValueError, match="has 4 features, but BayesianPCA is expecting 10"):
        found.transform(da.zeros((5, 4)))
    with pytest.raises(ValueError, match="expected an array with 3 columns"):
        found.inverse_transform(da.zeros((5, 4)))


def test_tables():
    X = matrix()
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(10)])
    table = dd.from_pandas(frame, npartitions=3)
    found = BayesianPCA().fit(table)
    same(found, BayesianPCA().fit(frame))
    assert list(found.feature_names_in_) == list(frame.columns)
    assert found.transform(table).compute() == pytest.approx(found.transform(frame), abs=1e-10)
    with pytest.raises(ValueError, match="feature names"):
        found.transform(table.rename(columns={"x0": "other"}))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        found.transform(lazy(X))


def test_the_record_is_that_of_any_fit(tmp_path):
    X = matrix()
    found = BayesianPCA(random_state=0).fit(lazy(X))
    found.save(tmp_path / "dask.bpca")
    again = load(tmp_path / "dask.bpca")
    assert again.engine_ == "dask"
    assert np.array_equal(again.transform(X), found.transform(X))
    assert found.sample(5, random_state=0).shape == (5, 10)
    assert found.get_covariance() == pytest.approx(BayesianPCA().fit(X).get_covariance())


def test_rank_rules():
    X = matrix()
    # The other rules need the rows themselves.
    spectral, whole = rank_report(lazy(X)).ranks(), rank_report(X).ranks()
    assert {"EVB", "kept by default", "Minka", "ScreeNOT", "parallel analysis"} <= set(spectral)
    assert spectral == {name: whole[name] for name in spectral}


def test_files_by_workers(tmp_path):
    frame = pd.DataFrame(matrix(dtype=np.float32), columns=[f"x{j}" for j in range(10)])
    frame.to_parquet(tmp_path / "a.parquet", row_group_size=37)
    frame.to_parquet(tmp_path / "b.parquet", row_group_size=120)
    found = BayesianPCA(engine="dask").fit(tmp_path / "*.parquet")
    same(found, BayesianPCA(engine="streaming").fit(tmp_path), 1e-5)
    assert list(found.feature_names_in_) == list(frame.columns)


def test_arrays_in_memory_may_be_cut_up():
    X = matrix()
    found = BayesianPCA(engine="dask").fit(X)
    assert found.engine_ == "dask"
    same(found, BayesianPCA().fit(X))


# --- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("is_wide", [False, True])
def test_infinity_is_named_and_leaves_the_estimator_alone(scale, is_wide):
    X = matrix()
    X[350, 7] = np.inf
    x = lazy(X).T if is_wide else lazy(X)
    model = BayesianPCA(scale=scale)
    with pytest.raises(ValueError, match="infinity in row"):
        model.fit(x)
    assert not hasattr(model, "components_")


@pytest.mark.parametrize("is_wide", [False, True])
def test_rules_that_need_complete_data_are_not_tried_with_holes(is_wide):
    X = matrix()
    X[350, 7] = np.nan
    report = bayespca.rank_report(lazy(X).T if is_wide else lazy(X))
    assert report.n_components == report.evb == 3
    assert report.minka is None
    assert "Because of the holes" in report.not_asked


def test_engines_that_cannot():
    with pytest.raises(ValueError, match="engine='gram' cannot read Dask"):
        BayesianPCA(engine="gram").fit(lazy(matrix()))


@pytest.mark.parametrize("X", [da.zeros((0, 3)), da.zeros((3, 0))])
def test_nothing_to_fit(X):
    with pytest.raises(ValueError, match="holds no numbers"):
        BayesianPCA().fit(X)


def test_no_rows_at_all():
    x = lazy(matrix())
    with pytest.raises(ValueError, match="holds no rows"):
        BayesianPCA().fit(x[x[:, 0] > np.inf])


OTHERS = [
    name
    for name in bayespca.__all__
    if isinstance(getattr(bayespca, name), type)
    and hasattr(getattr(bayespca, name), "fit")
    # Views on Dask have tests of their own.
    and name not in ("BayesianPCA", "MultiViewPCA")
]


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("kind", ["array", "table"])
def test_other_estimators_refuse(name, kind):
    array = da.from_array(np.round(np.abs(matrix())), chunks=(100, 10))
    table = dd.from_pandas(pd.DataFrame(matrix()), npartitions=2)
    with pytest.raises(TypeError, match="read Dask collections"):
        getattr(bayespca, name)().fit({"array": array, "table": table}[kind])


def test_other_functions_refuse():
    x = lazy(matrix())
    for call in (
        lambda: bayespca.evbmf(x),
        lambda: BayesianPCA().partial_fit(x),
    ):
        with pytest.raises(TypeError, match="data must be in memory"):
            call()
