"""Views on Dask: fits equal those in memory, and answers are lazy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bayespca import MultiViewPCA, load
from views.simulated import pierced, rows_of, side_by_side, simulated

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")
distributed = pytest.importorskip("distributed")

NAMES = ("genes", "proteins", "clinic")
ROWS = (60, 1, 99, 40)


@pytest.fixture(autouse=True)
def synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


def tables(holes=False, absent=0, seed=1):
    """Three views with a constant column; optionally holes, an empty column and absent rows."""
    _, found, pattern = simulated(seed, n=200, sizes=(40, 30, 20))
    found = pierced(found, 0.1) if holes else found
    found[0][:, 3] = 2.5
    if holes:
        found[1][:, 4] = np.nan
    if absent:
        found[2][-absent:] = np.nan
    return dict(zip(NAMES, found, strict=True)), pattern


def lazy(views, rows=ROWS):
    """The views as Dask arrays, each chunked in a different way."""
    chunks = [(rows, -1), (rows, 7), (-1, -1)]
    return {
        name: da.from_array(x, chunks=how)
        for (name, x), how in zip(views.items(), chunks, strict=False)
    }


def assert_same(found, expected, rtol):
    assert found.active_.tolist() == expected.active_.tolist()
    assert found.n_samples_ == expected.n_samples_
    assert_array_equal(found.feature_names_in_, expected.feature_names_in_)
    assert_allclose(found.free_energy_, expected.free_energy_, rtol=rtol)
    assert_allclose(found.noise_variance_, expected.noise_variance_, rtol=rtol)
    for name in expected.view_names_:
        assert_allclose(found.mean_[name], expected.mean_[name], rtol=rtol, atol=rtol)
        one, other = found.components_[name], expected.components_[name]
        assert_allclose(one, other, rtol=0, atol=np.abs(other).max() * rtol)


@pytest.mark.parametrize("noise", ["auto", "isotropic", "per-feature"])
def test_complete_views_are_fitted_as_in_memory(noise):
    views, pattern = tables()
    expected = MultiViewPCA(noise=noise, tol=1e-10).fit(views)
    found = MultiViewPCA(noise=noise, tol=1e-10).fit(lazy(views))
    assert rows_of(found.active_) == rows_of(pattern)
    assert_same(found, expected, 1e-5)


def test_holes_and_absent_rows_are_fitted_as_in_memory():
    views, _ = tables(holes=True, absent=70)
    expected = MultiViewPCA(noise="isotropic", tol=1e-10).fit(views)
    found = MultiViewPCA(noise="isotropic", tol=1e-10).fit(lazy(views))
    # The starts differ: in memory, noise is that of holes filled once; on Dask, that of a full PCA.
    assert_same(found, expected, 1e-4)
    assert found.status_.advice == expected.status_.advice


@pytest.mark.parametrize("method", ["transform", "impute", "predict_view", "score_samples"])
def test_what_is_lazy_is_what_it_would_be_at_once(method):
    views, _ = tables(holes=True, absent=30)
    model = MultiViewPCA(noise="isotropic", max_iter=20, tol=1e-3).fit(views)
    given = {name: views[name] for name in ("clinic", "genes")}
    options = {"view": "proteins"} if method == "predict_view" else {}
    if method != "score_samples":
        options["return_std"] = True
    expected = getattr(model, method)(given, **options)
    found = getattr(model, method)(lazy(given), **options)
    for one, other in zip(flat(found), flat(expected), strict=True):
        assert isinstance(one, da.Array)
        assert one.shape == other.shape
        assert_allclose(one.compute(), other, rtol=1e-10, atol=1e-10)


def flat(answer):
    """The arrays of an answer: one, several, or dicts of them."""
    answers = answer if isinstance(answer, tuple) else (answer,)
    return [x for one in answers for x in (one.values() if isinstance(one, dict) else [one])]


def test_rows_from_scores_and_drawn_cells():
    views, _ = tables(holes=True)
    model = MultiViewPCA(noise="isotropic", max_iter=20, tol=1e-3).fit(views)
    T = model.transform(views)
    back = model.inverse_transform(da.from_array(T, chunks=(50, -1)))
    for name, x in model.inverse_transform(T).items():
        assert_allclose(back[name].compute(), x, rtol=1e-10, atol=1e-12)
    draws = model.sample_imputations(lazy(views), 2, random_state=0)
    one, other = (draw["genes"].compute() for draw in draws)
    there = ~np.isnan(views["genes"])
    assert_array_equal(one[there], views["genes"][there])
    assert not np.isnan(one).any()
    assert (one[~there] != other[~there]).all()


def test_one_matrix_whose_views_are_mixed_and_a_view_in_memory(tmp_path):
    views, _ = tables()
    X, view = side_by_side(list(views.values()))
    order = np.random.default_rng(0).permutation(view.size)
    X, names = X[:, order], [NAMES[v] for v in view[order]]
    expected = MultiViewPCA(noise="isotropic").fit(X, views=names)
    found = MultiViewPCA(noise="isotropic").fit(da.from_array(X, chunks=(80, 11)), views=names)
    assert found.active_.tolist() == expected.active_.tolist()
    found.save(tmp_path / "m.bpca")
    again = load(tmp_path / "m.bpca")
    # Columns of separate tables are put in the places they had in the matrix.
    mixed = {"genes": lazy(views)["genes"], "clinic": views["clinic"]}
    assert_allclose(
        again.transform(mixed).compute(),
        found.transform({"genes": views["genes"], "clinic": views["clinic"]}),
        rtol=1e-10,
        atol=1e-10,
    )


def test_single_precision_stays():
    views = {name: x.astype(np.float32) for name, x in tables()[0].items()}
    found = MultiViewPCA(noise="isotropic").fit(lazy(views))
    assert found.components_["genes"].dtype == np.float32
    assert found.transform(lazy(views)).dtype == np.float32


def test_what_cannot_be_read_is_answered_with_a_sentence():
    views, _ = tables()
    far = lazy(views)
    frame = dd.from_pandas(pd.DataFrame(views["clinic"]), npartitions=2)
    with pytest.raises(TypeError, match=r"view 'clinic' is a Dask DataFrame.*to_dask_array"):
        MultiViewPCA().fit(far | {"clinic": frame})
    unknown = far["clinic"][far["clinic"][:, 0] > 0]
    with pytest.raises(ValueError, match=r"rows of view 'clinic' is not known: call its"):
        MultiViewPCA().fit(far | {"clinic": unknown})
    with pytest.raises(ValueError, match="view 'clinic' has 100 rows, but 'genes' has 200"):
        MultiViewPCA().fit(far | {"clinic": far["clinic"][:100]})
    with pytest.raises(ValueError, match="view 'clinic' has no value at all: leave it out"):
        MultiViewPCA().fit(far | {"clinic": far["clinic"] * np.nan})
    with pytest.raises(ValueError, match="infinity, first in column 'clinic: 0'"):
        MultiViewPCA().fit(far | {"clinic": far["clinic"] + np.inf})


@pytest.mark.slow
def test_a_cluster_of_processes():
    views, pattern = tables(absent=50)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
        dask.config.set(scheduler=None),
    ):
        found = MultiViewPCA(noise="isotropic").fit(lazy(views))
        assert rows_of(found.active_) == rows_of(pattern)
        scores = found.transform(lazy(views)).compute()
    assert_allclose(scores, found.transform(views), rtol=1e-10, atol=1e-10)
