"""Views that are Dask arrays: checked, joined and selected on the workers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayespca.arrays.places import columns_of
from bayespca.arrays.types import Counts, Input, Numbers
from bayespca.sources.cluster import dask_module
from bayespca.sources.partitions import is_dask, is_dask_table, partitioned
from bayespca.sources.records import DaskArray
from bayespca.views.data import ViewsLook


def distant_array(table: Input, name: str) -> DaskArray:
    """Return `table` if it is a Dask matrix with a known number of rows; raise otherwise."""
    if is_dask_table(table) or not hasattr(table, "chunks"):
        raise TypeError(
            f"{name} is a Dask {type(table).__name__}, but views on Dask are arrays, whose rows "
            "belong together by their place: give what its to_dask_array(lengths=True) makes."
        )
    if table.ndim == 2 and np.isnan(table.shape[0]):
        raise ValueError(
            f"the number of rows of {name} is not known: call its compute_chunk_sizes() first."
        )
    if table.ndim == 2 and not all(table.shape):
        raise ValueError(
            f"{name} has {table.shape[0]} rows and {table.shape[1]} columns: leave it out."
        )
    partitioned(table, wide=False)  # raises unless it is a matrix of numbers
    return table


def beside(tables: Sequence[Numbers | DaskArray]) -> Numbers | DaskArray:
    """Tables with the same rows, side by side; a Dask array if any of them is one."""
    if not any(map(is_dask, tables)):
        return np.concatenate(tables, axis=1)
    array = dask_module("array")
    first: DaskArray = next(table for table in tables if is_dask(table))
    rows = first.chunks[0]
    lazy = [t if is_dask(t) else array.from_array(t, chunks=(rows, -1)) for t in tables]
    return array.concatenate(lazy, axis=1)


def nothing(like: DaskArray, p: int) -> DaskArray:
    """p columns of NaN with the rows, chunks and dtype of `like`."""
    shape, rows = (like.shape[0], p), like.chunks[0]
    return dask_module("array").full(shape, np.nan, chunks=(rows, -1), dtype=like.dtype)


def rows_of_view(values: DaskArray, look: ViewsLook, view: Counts, v: int) -> DaskArray | None:
    """The rows with values in view v; None if there are fewer than two or they do not vary."""
    js, columns = np.flatnonzero(view == v), look.columns
    if look.rows[v] < 2 or not (columns.high > columns.low)[js].any():
        return None
    x = columns_of(values, js)
    if look.rows[v] == columns.n_rows:
        return x
    return x[~dask_module("array").isnan(x).all(axis=1)]
