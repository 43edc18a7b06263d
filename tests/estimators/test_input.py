"""`read` turns every kind of X into one record of where its numbers are and what is missing."""

from __future__ import annotations

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from bayespca import (
    BayesianPCA,
    BayesianPCAImputer,
    BayesianTucker,
    GibbsPCA,
    MatrixFactorization,
    PCAMixture,
    VariationalPCA,
    evbmf,
    io,
)
from bayespca.estimators import _input
from bayespca.sources.checks import not_finite
from bayespca.sources.data import Where

X = np.random.default_rng(0).normal(size=(30, 4)).round(3)
HOLED = X.copy()
HOLED[[3, 3, 20], [0, 2, 1]] = np.nan
NAMES = ["a", "b", "c", "d"]


def frame(values):
    return pd.DataFrame(values, columns=NAMES)


def masked(values):
    return np.ma.masked_array(np.nan_to_num(values), mask=np.isnan(values))


def table(values):
    return io.Table(values, NAMES)


def torch_array(values):
    return pytest.importorskip("torch", reason="torch is not installed").asarray(values)


def memory_map(values, folder):
    return np.lib.format.open_memmap(npy(values, folder), mode="r")


def npy(values, folder):
    np.save(folder / "x.npy", values)
    return str(folder / "x.npy")


def csv(values, folder):
    frame(values).to_csv(folder / "x.csv", index=False)
    return folder / "x.csv"


def blocks(values):
    return iter(np.array_split(values, 3))


def lazy(values):
    return da.from_array(values, chunks=(10, 4))


# For each kind of X: how to make it, where its numbers are after `read`, and whether it has names.
IN_MEMORY = {
    "NumPy": (np.asarray, Where.DENSE, False),
    "float32": (lambda a: a.astype(np.float32), Where.DENSE, False),
    "Fortran": (np.asfortranarray, Where.DENSE, False),
    "every second": (lambda a: np.repeat(a, 2, axis=0)[::2], Where.DENSE, False),
    "list": (lambda a: a.tolist(), Where.DENSE, False),
    "masked": (masked, Where.DENSE, False),
    "pandas": (frame, Where.DENSE, True),
    "pandas NA": (lambda a: frame(a).astype("Float64"), Where.DENSE, True),
    "polars": (lambda a: pl.from_pandas(frame(a)), Where.DENSE, True),
    "Table": (table, Where.DENSE, True),
    "torch": (torch_array, Where.DENSE, False),
}
LATER = {
    "memory map": (memory_map, Where.BLOCKS, False),
    "npy": (npy, Where.BLOCKS, False),
    "csv": (csv, Where.BLOCKS, True),
    "iterator": (lambda a, _: blocks(a), Where.BLOCKS, False),
    "frames": (lambda a, _: map(frame, np.array_split(a, 3)), Where.BLOCKS, True),
    "Dask": (lambda a, _: lazy(a), Where.PARTITIONS, False),
    "Dask frame": (lambda a, _: dd.from_pandas(frame(a), 3), Where.PARTITIONS, True),
}


def check(data, where, is_named):
    assert data.where is where
    assert data.features.count == 4
    assert (None if data.features.names is None else list(data.features.names)) == (
        NAMES if is_named else None
    )


@pytest.mark.parametrize("values", [X, HOLED], ids=["complete", "holes"])
@pytest.mark.parametrize("kind", IN_MEMORY)
def test_data_in_memory(kind, values):
    made, where, is_named = IN_MEMORY[kind]
    estimator = BayesianPCA()
    data = _input.read(estimator, made(values), dask=True)
    check(data, where, is_named)
    assert data.holes == np.isnan(values).sum()
    assert data.shape == (30, 4)
    assert str(data.dtype).endswith("float32" if kind == "float32" else "float64")
    assert np.allclose(np.asarray(data.values), values, rtol=1e-6, equal_nan=True)
    assert vars(estimator) == vars(BayesianPCA())


@pytest.mark.parametrize("kind", LATER)
def test_data_that_are_read_later(kind, tmp_path):
    made, where, is_named = LATER[kind]
    engine = "streaming" if where is Where.BLOCKS else "auto"
    data = _input.read(BayesianPCA(engine=engine), made(X, tmp_path), dask=True)
    check(data, where, is_named)
    assert data.holes is None
    assert data.shape == (None, 4)
    assert data.dtype == np.float64
    assert not data.is_empty


@pytest.mark.parametrize("kind", ["memory map", "npy", "csv"])
def test_what_must_be_in_memory_is_read_whole(kind, tmp_path):
    made, _, is_named = LATER[kind]
    data = _input.read(BayesianPCA(), made(HOLED, tmp_path), in_memory=True)
    check(data, Where.DENSE, is_named)
    assert data.holes == 3


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_matrix, sp.coo_array])
def test_sparse_matrices(kind):
    data = _input.read(BayesianPCA(), kind(np.where(X > 0, X, 0.0)))
    check(data, Where.SPARSE, is_named=False)
    assert (data.holes, data.values.format) == (0, "csr")
    dense = _input.read(BayesianPCA(), kind(HOLED), dense=True)
    check(dense, Where.DENSE, is_named=False)
    assert dense.holes == 3


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_, np.float16])
def test_other_numbers_become_float64(dtype):
    data = _input.read(BayesianPCA(), (X > 0).astype(dtype))
    assert (data.dtype, data.holes) == (np.float64, 0)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sums_that_overflow_are_no_infinities(scale, dtype):
    values = np.full((50, 3), scale if dtype is np.float64 else np.finfo(dtype).max, dtype)
    assert not not_finite(values)
    values[7, 1] = np.nan
    assert not_finite(values).nan == 1


ESTIMATORS = [
    BayesianPCA(),
    BayesianPCA(scale=True),
    BayesianPCAImputer(),
    VariationalPCA(),
    GibbsPCA(),
    MatrixFactorization(),
    BayesianTucker(),
    PCAMixture(),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
@pytest.mark.parametrize("kind", ["complete", "holes", "one cell"])
@pytest.mark.parametrize("size", [1e-170, 1e155, 1e300])
def test_numbers_without_squares_are_answered_with_a_sentence(estimator, kind, size):
    values = X.copy()
    values[2, 1] = np.nan if kind == "holes" and type(estimator) is not GibbsPCA else 0.1
    if kind == "one cell" and size > 1:
        values[3, 1] = size
    else:
        values *= size
    with pytest.raises(ValueError, match="leave the range of floating-point numbers: divide the"):
        clone(estimator).fit(values)


def test_blocks_and_matrices_without_squares_are_answered_with_a_sentence():
    for fit in (BayesianPCA().partial_fit, evbmf, BayesianPCA().fit):
        for values in (X * 1e160, sp.csr_array(X * 1e160) if fit != evbmf else X * 1e-160):
            with pytest.raises((ValueError, TypeError), match=r"leave the range|[Ss]parse"):
                fit(values)


@pytest.mark.parametrize(
    "made", [np.asarray, torch_array, np.asfortranarray, lambda a: a[:, ::-1][:, ::-1]]
)
def test_infinities_that_cancel_are_seen(made):
    values = X.copy()
    values[2, 1], values[9, 0] = np.inf, -np.inf
    with pytest.raises(ValueError, match="infinity, first at row 2, column 1"):
        _input.read(BayesianPCA(), made(values))


def test_nothing_but_holes():
    data = _input.read(BayesianPCA(), np.full((5, 3), np.nan))
    assert data.is_empty
    with pytest.raises(ValueError, match="no value at all: its 15 cells are NaN"):
        _input.check_any_value(data)


@pytest.mark.parametrize(
    ("made", "options", "sentence"),
    [
        (lambda: np.where(X > 2, np.inf, X), {}, "contains infinity, first at row"),
        (lambda: sp.csr_array(HOLED), {}, "NaN, first at column 0"),
        (lambda: blocks(X), {"in_memory": True}, "this fit needs all rows at once"),
        (lambda: blocks(X), {"twice": True}, "an iterator can be read only once"),
        (lambda: X[None], {}, "X has 3 axes"),
        (lambda: lazy(X), {}, "must be in memory"),
        (lambda: lazy(X)[:0], {"dask": True}, "holds no numbers"),
        (lambda: X[:0], {}, r"Found array with 0 sample\(s\) .* required by BayesianPCA"),
        (lambda: torch_array([1.0, 1.0, 1.0]), {}, "Expected 2D array"),
        (lambda: X + 1j, {}, "Complex data not supported"),
    ],
)
def test_what_will_not_do(made, options, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        _input.read(BayesianPCA(), made(), **options)


def test_holes_are_refused_with_their_place():
    with pytest.raises(ValueError, match="NaN, first at row 3, column 0"):
        _input.check_complete(_input.read(GibbsPCA(), HOLED, dense=True))


def test_names_are_forgotten_by_the_next_fit():
    model = BayesianPCA().fit(frame(X))
    assert list(model.feature_names_in_) == NAMES
    with pytest.raises(ValueError, match="infinity"):
        model.fit(np.where(X > 2, np.inf, X))
    assert list(model.feature_names_in_) == NAMES
    model.fit(X[:, :3])
    assert (model.n_features_in_, hasattr(model, "feature_names_in_")) == (3, False)
