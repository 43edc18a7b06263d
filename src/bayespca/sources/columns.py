"""Scales of columns, and data divided by them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from bayespca.arrays.namespaces import array_namespace, row_blocks
from bayespca.arrays.types import Array, DType, Input
from bayespca.spectrum.records import samples

from .data import Where, where_of
from .deviations import column_deviations, divided
from .records import Partitions, Source


def column_scales(X: Input, *, center: bool) -> Array:
    """Standard deviations of the columns in float64, 1 for those that do not vary.

    They are over as many samples as the model counts, so that scaled columns have mean square 1.
    Without centring they are root mean squares.
    """
    return _SCALES[where_of(X)](X, center=center)


def rescaled_columns(X: Input, scale: Array) -> Any:
    """X with its columns divided by `scale`, of the same kind and type."""
    return _RESCALED[where_of(X)](X, scale)


# --- scales ------------------------------------------------------------------------------------


def _array_scales(X: Array, *, center: bool) -> Array:
    parts = [_dense_scales(X[:, columns], center=center) for columns in row_blocks(X, axis=1)]
    return array_namespace(X).concat(parts)


def _dense_scales(X: Array, *, center: bool) -> Array:
    xp = array_namespace(X)
    n = X.shape[0]
    wide = xp.astype(X, xp.float64)
    # Relative to the largest magnitude, so that squares stay within range.
    peak = xp.max(xp.abs(wide), axis=0)
    peak = xp.where(peak > 0, peak, xp.ones_like(peak))
    wide = wide / peak
    if center:
        wide = wide - xp.mean(wide, axis=0)
    std = xp.sqrt(xp.sum(wide * wide, axis=0) / samples(n, center))
    # A constant column is left with the rounding of its mean.
    return xp.where(std > 8 * xp.finfo(X.dtype).eps, std * peak, xp.ones_like(std))


def _sparse_scales(X: Input, *, center: bool) -> np.ndarray:
    n = X.shape[0]
    columns = sp.csc_array(X, dtype=np.float64)
    filled = np.diff(columns.indptr)
    # As for arrays: squares stay within range.
    peak = abs(columns).max(axis=0).toarray().ravel()
    peak[peak == 0] = 1.0
    data = columns.data / np.repeat(peak, filled)
    mean = _of_columns(data, columns.indptr) / n if center else np.zeros(X.shape[1])
    sums = _of_columns((data - np.repeat(mean, filled)) ** 2, columns.indptr)
    std = np.sqrt((sums + (n - filled) * mean**2) / samples(n, center))
    return np.where(std > 8 * np.finfo(X.dtype).eps * np.abs(mean), std * peak, 1.0)


def _of_columns(data: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Sums over the entries of each column of a sparse matrix."""
    return np.add.reduceat(np.append(data, 0.0), starts[:-1]) * (np.diff(starts) > 0)


def _source_scales(source: Source, *, center: bool) -> np.ndarray:
    """Scales from one pass; blocks merge by means and sums of squares (Chan et al. 1983)."""
    n, mean, sums = 0, np.zeros(source.n_features), np.zeros(source.n_features)
    for block in source.blocks():
        rows = block.shape[0]
        middle = block.mean(axis=0, dtype=np.float64) if center else 0.0
        sums += ((block - middle) ** 2).sum(axis=0)
        if center:
            sums += (middle - mean) ** 2 * (n * rows / (n + rows))
            mean += (middle - mean) * (rows / (n + rows))
        n += rows
    return _deviation_scales(n, mean, sums, source.dtype, center=center)


def _partitions_scales(partitions: Partitions, *, center: bool) -> np.ndarray:
    found = column_deviations(partitions, center=center)
    return _deviation_scales(found.n, found.mean, found.squares, partitions.dtype, center=center)


def _deviation_scales(
    n: int, mean: np.ndarray, sums: np.ndarray, dtype: DType, *, center: bool
) -> np.ndarray:
    std = np.sqrt(sums / samples(n, center))
    return np.where(std > 8 * np.finfo(dtype).eps * np.abs(mean), std, 1.0)


_SCALES: dict[Where, Callable[..., Array]] = {
    Where.DENSE: _array_scales,
    Where.SPARSE: _sparse_scales,
    Where.BLOCKS: _source_scales,
    Where.PARTITIONS: _partitions_scales,
}


# --- data divided by them ----------------------------------------------------------------------


def _rescaled_array(X: Array, scale: Array) -> Array:
    return X / array_namespace(X).astype(scale, X.dtype)


def _rescaled_sparse(X: Input, scale: np.ndarray) -> Any:
    return sp.csr_array(X @ sp.diags_array(1 / scale), dtype=X.dtype)


def _rescaled_source(X: Source, scale: np.ndarray) -> Source:
    divisor = np.asarray(scale, dtype=X.dtype)
    return replace(X, blocks=lambda: (block / divisor for block in X.blocks()))


_RESCALED: dict[Where, Callable[..., Any]] = {
    Where.DENSE: _rescaled_array,
    Where.SPARSE: _rescaled_sparse,
    Where.BLOCKS: _rescaled_source,
    Where.PARTITIONS: divided,
}
