"""Dask arrays and tables as blocks of whole rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bayespca.arrays.types import Input, Numbers
from bayespca.io.records import float_type

from .checks import is_number
from .cluster import dask_module
from .records import Partitions

# Largest size of blocks of rows that are joined from pieces.
JOINED_BYTES = 128 * 2**20


def is_dask(X: Input) -> bool:
    """Whether X is one of Dask's collections, without importing Dask."""
    return any(base.__module__.partition(".")[0] == "dask" for base in type(X).__mro__)


def is_dask_table(X: Input) -> bool:
    """Whether X is a Dask DataFrame."""
    # Look at the type: a Delayed claims to have every attribute.
    return is_dask(X) and hasattr(type(X), "map_partitions") and hasattr(type(X), "columns")


def partitioned(X: Input, *, wide: bool = True) -> Partitions:
    """A two-dimensional Dask array or a Dask DataFrame of numbers as blocks of whole rows.

    If `wide`, arrays with more columns than rows come as blocks of whole columns as well.
    """
    if is_dask_table(X):
        return _of_table(X)
    if not (is_dask(X) and hasattr(type(X), "chunks") and hasattr(type(X), "to_delayed")):
        raise TypeError(
            f"a Dask {type(X).__name__} is neither an array nor a table: give a two-dimensional "
            "Dask array or a Dask DataFrame."
        )
    if X.ndim != 2:
        raise ValueError(
            f"the Dask array has {X.ndim} dimension{'s' * (X.ndim != 1)}, but must have two: rows "
            "are samples, columns are features."
        )
    if X.dtype is None or X.dtype.kind not in "fbiu":
        raise ValueError(f"the Dask array is of type {X.dtype}: only real numbers can be analysed.")
    n, p = X.shape
    if np.isnan(p):
        raise ValueError(
            "the number of columns of the Dask array is not known: call its compute_chunk_sizes() "
            "first."
        )
    rows = _rows_of(X)
    is_wide = wide and not np.isnan(n) and n < p
    return replace(rows, columns=_rows_of(X.T)) if is_wide else rows


def as_partitions(X: Numbers) -> Partitions:
    """An array in memory as partitions, cut up as Dask would."""
    return partitioned(dask_module("array").from_array(X))


def rows_joined(X: Input) -> Any:
    """A Dask array with whole rows in every chunk; pieces are joined to chunks of modest size."""
    if X.numblocks[1] == 1:
        return X
    heights = X.chunks[0]
    if np.isnan(heights).any():
        return X.rechunk({1: -1})
    row_bytes = max(X.shape[1] * X.dtype.itemsize, 1)
    most = max(JOINED_BYTES // row_bytes, 1)
    split: list[int] = []
    for height in map(int, heights):
        n = max(-(-height // most), 1)
        split += [height * (i + 1) // n - height * i // n for i in range(n)]
    return X.rechunk({0: tuple(split), 1: -1})


def _rows_of(X: Input) -> Partitions:
    X = rows_joined(X)
    heights = X.chunks[0]
    # Optimising a graph that depends on results that workers keep would lose them.
    layers = [layer for layer in X.dask.layers.values() if layer.is_materialized()]
    modules = (type(value).__module__ for layer in layers for value in layer.values())
    is_persisted = any(module.partition(".")[0] == "distributed" for module in modules)
    return Partitions(
        chunks=tuple(X.to_delayed(optimize_graph=not is_persisted)[:, 0]),
        n_features=int(X.shape[1]),
        dtype=np.dtype(float_type(X.dtype)),
        stored=X.dtype,
        lengths=None if np.isnan(heights).any() else tuple(int(height) for height in heights),
    )


def _of_table(X: Input) -> Partitions:
    names = [str(name) for name in X.columns]
    for name, dtype in zip(names, X.dtypes, strict=True):
        if not is_number(dtype):
            raise ValueError(
                f"column {name!r} of the Dask DataFrame is of type {dtype}, which is not a number: "
                "remove the column or turn it into numbers first."
            )
    if not names:
        raise ValueError("the Dask DataFrame has no columns.")
    is_short = all(dtype.kind == "f" and dtype.itemsize <= 4 for dtype in X.dtypes)
    return Partitions(
        chunks=tuple(X.to_delayed(optimize_graph=True)),
        n_features=len(names),
        dtype=np.dtype(np.float32 if is_short else np.float64),
        names=tuple(names),
    )
