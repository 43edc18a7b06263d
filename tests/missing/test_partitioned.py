"""Holes on Dask: the fit equals the one in memory, whatever the chunks and the scheduler."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import bayespca
from bayespca import BayesianPCA
from bayespca.estimators import RankWarning
from bayespca.inference import Looping
from bayespca.lowrank.noise_models import BOTH, PER_SAMPLE
from bayespca.lowrank.observing import observed
from bayespca.missing.dense.fit import fit
from bayespca.sources.cluster import ClusterError
from bayespca.sources.partitions import partitioned
from bayespca.spectrum.forms import ClosedForm

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")


def table(n=300, p=12, rank=3, *, seed=0, missing=0.25, with_empty_columns=True):
    """A matrix with empty rows (a whole block), complete rows (another block), a constant column.

    If `with_empty_columns`, one column is empty and one has a single cell: no row is complete.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, rank)) * 2 @ rng.normal(size=(rank, p)) + rng.normal(size=(n, p))
    X += 10 * rng.normal(size=p)
    X[:, 4] = 7.3
    holes = rng.random(X.shape) < missing
    holes[50:90] = True
    holes[90:140] = False
    holes[[3, n - 5]] = True
    if with_empty_columns:
        holes[:, [5, 6]] = True
        holes[100, 6] = False
    return np.where(holes, np.nan, X)


CHUNKS = {
    "one block": (300, 12),
    "unequal": ((1, 49, 40, 50, 113, 47), 12),
    "both axes": ((50, 40, 50, 160), (5, 4, 3)),
    "many": (25, 12),
}

METHODS = [
    {},
    {"scale": True},
    {"center": False},
    {"noise": "per-feature"},
    {"noise_variance": 1.2},
    {"noise_variance": "0db"},
    {"method": "epb"},
    {"method": "emap"},
    {"method": "vb", "prior_variance": 30.0, "n_components": 4},
    {"method": "vb", "prior_variance": 30.0, "noise": "per-feature", "n_components": 4},
    {"method": "pb", "prior_variance": 30.0},
    {"method": "map", "n_components": 2},
    {"method": "ml", "n_components": 2},
    {"solver": "iterative", "random_state": 3, "n_components": 4, "n_init": 2},
]


def fitted(X, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankWarning)
        # Sweeps with a given number of components take another way in memory, so EVB's is kept.
        number = "evb" if options.get("method", "evb") == "evb" else "auto"
        return BayesianPCA(**{"noise": "isotropic", "n_components": number, **options}).fit(X)


def bytes_of(holes):
    return holes.values.nbytes + holes.patterns.nbytes


@contextmanager
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def advice(model):
    """Codes and texts without their nats, which depend on a draw and on signs of components."""
    return [(one.code, one.text.partition(", by ")[0]) for one in model.status_.advice]


def assert_same(found, expected, X, *, rtol=1e-8):
    """Assert equal rank, noise, free energy, posterior of columns, steps, advice and imputation."""
    assert found.n_components_ == expected.n_components_
    assert found.n_samples_ == expected.n_samples_
    assert found.n_iter_ == expected.n_iter_
    assert advice(found) == advice(expected)
    assert found.engine_ == expected.engine_ == "holes"
    assert found.components_.dtype == expected.components_.dtype
    names = ["noise_variance_", "free_energy_", "mean_"]
    names += [] if expected.rank_posterior_ is None else ["rank_posterior_"]
    for name in names:
        assert_allclose(getattr(found, name), getattr(expected, name), rtol=rtol, atol=rtol)
    for name in ("components_", "components_std_", "singular_values_"):
        assert_allclose(getattr(found, name), getattr(expected, name), rtol=rtol, atol=rtol)
    for one, other in zip(
        found.impute(X, return_std=True), expected.impute(X, return_std=True), strict=True
    ):
        assert_allclose(one, other, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("with_empty_columns", [True, False])
def test_chunks_change_nothing(chunks, with_empty_columns):
    X = table(with_empty_columns=with_empty_columns)
    with one_thread():
        found = fitted(da.from_array(X, chunks=CHUNKS[chunks]))
    assert_same(found, fitted(X), X)


@pytest.mark.parametrize("options", METHODS, ids=str)
def test_every_method_is_that_of_data_in_memory(options):
    X = table(200)
    with one_thread():
        found = fitted(da.from_array(X, chunks=(80, 12)), **options)
    # The free energy is flat around the best prior of equal noise.
    rtol = 1e-6 if "noise" in options else 1e-8
    assert_same(found, fitted(X, **options), X, rtol=rtol)


@pytest.mark.parametrize("noise", [PER_SAMPLE, BOTH], ids=lambda model: model.name)
def test_noise_of_rows_is_that_of_data_in_memory(noise):
    """One block has no values, and one row has a value in the constant column only."""
    X = table(150)
    X[95] = np.where(np.arange(12) == 4, 7.3, np.nan)
    options = {"form": ClosedForm(), "looping": Looping(), "noise": noise}
    with one_thread():
        D = partitioned(da.from_array(X, chunks=(40, 12)))
        found, expected = (fit(data, **options) for data in (D, X))
    assert found.n_components == expected.n_components
    assert found.free_energy == pytest.approx(expected.free_energy, rel=1e-9)
    assert_allclose(found.posterior.mean, expected.posterior.mean, rtol=1e-6, atol=1e-8)
    assert_array_equal(found.posterior.learned_from, expected.posterior.learned_from)


def test_rows_of_unknown_number():
    X = table()
    D = da.from_array(X, chunks=(70, 12))
    D = D[da.from_array(np.arange(len(X)) != 7, chunks=70)]
    assert np.isnan(D.shape[0])
    kept = np.delete(X, 7, axis=0)
    with one_thread():
        found = fitted(D)
        assert_same(found, fitted(kept), kept)
        filled, std = found.impute(D, return_std=True)
        expected = found.impute(kept, return_std=True)
        assert_allclose(dask.compute(filled, std), expected, rtol=1e-12)


def test_a_table_with_names():
    pd = pytest.importorskip("pandas")
    X = table()
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(12)])
    with one_thread():
        found = fitted(dd.from_pandas(frame, npartitions=4))
        assert_same(found, fitted(frame), frame)
        assert list(found.feature_names_in_) == list(frame.columns)
        filled = found.impute(dd.from_pandas(frame, npartitions=3)).compute()
    assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])


def test_float32_stays_float32():
    X = table().astype(np.float32)
    with one_thread():
        found = fitted(da.from_array(X, chunks=(100, 12)))
        filled = found.impute(da.from_array(X, chunks=(100, 12)))
    assert_same(found, fitted(X), X, rtol=1e-5)
    assert filled.dtype == filled.compute().dtype == np.float32


def test_more_columns_than_rows():
    X = table(145, 90, missing=0.2)[130:]
    with one_thread():
        found = fitted(da.from_array(X, chunks=(11, 30)))
    assert_same(found, fitted(X), X)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_numbers_of_any_size(scale):
    X = table()
    with one_thread():
        found = fitted(da.from_array(scale * X, chunks=(100, 12)))
    expected = fitted(X)
    assert found.n_components_ == expected.n_components_
    assert_allclose(found.noise_variance_ / scale**2, expected.noise_variance_, rtol=1e-6)


# --- filling ----------------------------------------------------------------------------------


def test_filling_is_lazy_and_that_of_arrays():
    X = table()
    D = da.from_array(X, chunks=(77, 12))
    with one_thread():
        model = fitted(D, noise="auto")
        for return_std in (True, "mean"):
            found = model.impute(D, return_std=return_std)
            assert all(isinstance(part, da.Array) for part in found)
            assert_allclose(dask.compute(*found), model.impute(X, return_std=return_std))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RankWarning)
            filled = bayespca.impute(D, n_components="evb").compute()
            assert_allclose(filled, model.impute(X))
        T, std = model.transform(D, return_std=True)
        assert_allclose(dask.compute(T, std), model.transform(X, return_std=True), atol=1e-12)
        assert_allclose(model.score(D), model.score(X))


def test_a_model_of_complete_data_fills_holes_on_dask():
    X = table()
    complete = np.where(np.isnan(X), 0.0, X)
    with one_thread():
        model = fitted(da.from_array(complete, chunks=(100, 12)))
        assert model.engine_ == "dask"
        filled = model.impute(da.from_array(X, chunks=(90, 12))).compute()
    assert_allclose(filled, model.impute(X))


def test_draws_have_the_mean_and_spread_that_are_told():
    X = table()
    D = da.from_array(X, chunks=((120, 0, 180), 12))
    with one_thread():
        model = fitted(D, random_state=0)
        draws = model.sample_imputations(D, 400)
        assert isinstance(draws, da.Array)
        assert draws.shape == (400, *X.shape)
        drawn = draws.compute()
        assert_array_equal(drawn, draws.compute())
        assert model.sample_imputations(D, 0).shape == (0, *X.shape)
    filled, std = model.impute(X, return_std=True)
    holes = np.isnan(X)
    assert_array_equal(drawn[:, ~holes], np.tile(X[~holes], (400, 1)))
    away = (drawn.mean(axis=0) - filled)[holes] / (std[holes] / 20)
    # About 1600 cells, which share loadings and means in each draw: the mean of their variances has
    # an error of 0.024 from 100 draws, 0.012 from 400.
    assert np.abs(away).max() < 5
    assert abs(np.mean(drawn.var(axis=0)[holes] / std[holes] ** 2) - 1) < 0.05


def test_loadings_and_means_are_drawn_once_for_all_blocks_of_a_copy():
    """Holes of one column in two blocks share the error of its mean, σ²/n."""
    X = np.random.default_rng(1).normal(size=(12, 500))
    X[[0, 11]] = np.nan
    X[[0, 11], 0] = 0.0
    with one_thread():
        D = da.from_array(X, chunks=(6, 500))
        model = fitted(D, n_components=0)
        drawn = model.sample_imputations(D, 8, random_state=2).compute()
    errors = (drawn - model.impute(X))[:, [0, 11], 1:]
    shared = np.mean(errors[:, 0] * errors[:, 1])
    # 4000 products of numbers with variance σ²(1 + 1/10).
    expected, spread = model.noise_variance_ / 10, 1.1 * model.noise_variance_ / np.sqrt(4000)
    assert abs(shared - expected) < 4 * spread
    assert shared > 2 * spread


# --- messages and stored state -----------------------------------------------------------------


def test_the_model_does_not_grow_with_the_rows():
    def size(n):
        X = np.tile(table(150), (n, 1))
        with one_thread():
            return len(pickle.dumps(fitted(da.from_array(X, chunks=(150, 12))).posterior_))

    assert size(4) == size(1)


def test_dask_knows_how_large_blocks_are():
    """Dask decides by these sizes which blocks to move out of memory."""
    from dask.sizeof import sizeof

    holes = observed(table(with_empty_columns=False)[90:140], center=True, scale=False)
    assert sizeof(holes) >= bytes_of(holes) > 50 * 12 * 8


def test_a_fit_that_was_broken_off_is_taken_up(tmp_path, monkeypatch):
    monkeypatch.setattr("bayespca.inference.checkpoint.EVERY", 0.0)
    X = table()
    D = da.from_array(X, chunks=(90, 12))
    path, seen = tmp_path / "checkpoint", []

    def breaks(number, info):
        if number == 3:
            raise KeyboardInterrupt

    with one_thread():
        model = BayesianPCA(n_components="evb", checkpoint=path, noise="isotropic")
        with pytest.raises(KeyboardInterrupt):
            model.fit(D, callback=breaks)
        assert not hasattr(model, "components_")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RankWarning)
            model.fit(D, callback=lambda number, info: seen.append(number))
        other = da.from_array(np.where(X == X[0, 0], 0.0, X), chunks=(90, 12))
        assert seen[0] == 3
        assert_same(model, fitted(X), X)
        with pytest.raises(KeyboardInterrupt):
            model.fit(D, callback=breaks)
        with pytest.raises(ValueError, match="checkpoint of another fit"):
            fitted(other, checkpoint=path)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda X: np.full_like(X, np.nan), {}, "no value at all: its 3600 cells are NaN"),
        (lambda X: np.where(X == X[0, 0], -np.inf, X), {}, r"infinity, first in column 0 \("),
        (lambda X: X, {"solver": "closed"}, "no closed form for holes"),
        (lambda X: X, {"method": "laplace"}, "Minka's evidence"),
        (lambda X: X, {"method": "map"}, "fits every observed cell"),
        (lambda X: X, {"engine": "gram"}, "cannot read Dask collections"),
    ],
)
def test_what_cannot_be_fitted(change, options, message):
    model = BayesianPCA(**options)
    with one_thread(), pytest.raises(ValueError, match=message):
        model.fit(da.from_array(change(table()), chunks=(100, 12)))
    assert not hasattr(model, "components_")


# --- schedulers --------------------------------------------------------------------------------


def test_threads():
    X = table()
    with dask.config.set(scheduler="threads"):
        found = fitted(da.from_array(X, chunks=(40, 12)))
    assert_same(found, fitted(X), X)


@contextmanager
def cluster():
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "5s"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as running,
        distributed.Client(running) as client,
    ):
        yield running, client


def test_processes_and_a_worker_that_is_killed():
    X = table()
    D = da.from_array(X, chunks=(80, 12))
    options = {"n_components": 3, "tol": 1e-5, "noise": "isotropic"}
    expected = fitted(X, **options)
    with cluster() as (_, client):
        victims = list(client.run(os.getpid).values())

        def kills(number, info):
            if number == 3:
                os.kill(victims[0], signal.SIGKILL)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RankWarning)
            model = BayesianPCA(**options).fit(D, callback=kills)
        assert victims[0] not in client.run(os.getpid).values()
        assert_same(model, expected, X)
        filled = model.impute(D).compute()
        # Nothing of a fit stays on the workers.
        gc.collect()
        assert not client.futures
    assert_allclose(filled, expected.impute(X), rtol=1e-8)


def test_a_scheduler_that_is_lost():
    D = da.from_array(table(), chunks=(60, 12))
    model = BayesianPCA()
    with cluster() as (running, _):

        def closes(number, info):
            if number == 2:
                running.close()

        with pytest.raises(ClusterError, match="connection to the Dask scheduler was lost"):
            model.fit(D, callback=closes)
    assert not hasattr(model, "components_")
