"""Means and deviations of columns, and data divided by scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bayespca.arrays.namespaces import array_namespace, row_blocks
from bayespca.arrays.types import Array, FloatArray, Input, Sparse
from bayespca.spectrum.records import samples

from .checks import check_complete
from .cluster import computed
from .data import Where, where_of
from .records import Block, Partitions
from .tasks import mapped, reduced, sent

# --- means and deviations ----------------------------------------------------------------------


@dataclass(frozen=True)
class Deviations:
    """Count, mean, and sum of squared deviations from it, of each column."""

    n: int
    mean: FloatArray
    squares: FloatArray

    def above(self, other: Deviations) -> Deviations:
        """Deviations over the rows of both, by Chan, Golub and LeVeque (1983)."""
        n = self.n + other.n
        if not n:
            return self
        apart = other.mean - self.mean
        squares = self.squares + other.squares + apart**2 * (self.n * other.n / n)
        return Deviations(n, self.mean + apart * (other.n / n), squares)

    def beside(self, other: Deviations) -> Deviations:
        """Deviations of the columns of both."""
        mean = np.concatenate([self.mean, other.mean])
        return Deviations(self.n, mean, np.concatenate([self.squares, other.squares]))


def _deviations(block: Block, *, center: bool) -> Deviations:
    n, p = block.shape
    mean = block.mean(axis=0, dtype=np.float64) if center and n else np.zeros(p)
    return Deviations(n, mean, ((block - mean) ** 2).sum(axis=0))


def column_deviations(partitions: Partitions, *, center: bool) -> Deviations:
    """Deviations of all columns, in one pass; about zero if not centred."""
    columns = partitions.columns
    if columns is not None:
        each = [range(len(columns.chunks)), columns.offsets or ()]
        parts = mapped(columns, _deviations_of_columns, center, each=each)
        return computed(reduced(parts, Deviations.beside))[0]
    indices = range(len(partitions.chunks))
    parts = mapped(partitions, _deviations_of_rows, center, partitions.names, each=[indices])
    return computed(reduced(parts, Deviations.above))[0]


def _deviations_of_rows(
    block: Block, i: int, center: bool, names: Sequence[str] | None
) -> Deviations:
    check_complete(block, i, names, None)
    return _deviations(block, center=center)


def _deviations_of_columns(block: Block, i: int, first: int, center: bool) -> Deviations:
    check_complete(block, i, None, first)
    return _deviations(block.T, center=center)


# --- scales, and data divided by them ----------------------------------------------------------


def column_scales(X: Input, *, center: bool) -> Array:
    """Standard deviations of the columns in float64, 1 for those that do not vary.

    They are over as many samples as the model counts, so that scaled columns have mean square 1.
    Without centring they are root mean squares.
    """
    where = where_of(X)
    if where is Where.DENSE:
        parts = [_dense_scales(X[:, columns], center=center) for columns in row_blocks(X, axis=1)]
        return array_namespace(X).concat(parts)
    if where is Where.SPARSE:
        return _sparse_scales(X, center=center)
    if where is Where.BLOCKS:
        found = Deviations(0, np.zeros(X.n_features), np.zeros(X.n_features))
        for block in X.blocks():
            found = found.above(_deviations(block, center=center))
    else:
        found = column_deviations(X, center=center)
    std = np.sqrt(found.squares / samples(found.n, center))
    return np.where(std > 8 * np.finfo(X.dtype).eps * np.abs(found.mean), std, 1.0)


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


def _sparse_scales(X: Sparse, *, center: bool) -> FloatArray:
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


def _of_columns(data: FloatArray, starts: NDArray[np.integer[Any]]) -> FloatArray:
    """Sums over the entries of each column of a sparse matrix."""
    return np.add.reduceat(np.append(data, 0.0), starts[:-1]) * (np.diff(starts) > 0)


def rescaled_columns(X: Input, scale: Array) -> Any:
    """X with its columns divided by `scale`, of the same kind and type."""
    where = where_of(X)
    if where is Where.DENSE:
        return X / array_namespace(X).astype(scale, X.dtype)
    if where is Where.SPARSE:
        return sp.csr_array(X @ sp.diags_array(1 / scale), dtype=X.dtype)
    divisor = np.asarray(scale, dtype=X.dtype)
    if where is Where.BLOCKS:
        return replace(X, blocks=lambda: (block / divisor for block in X.blocks()))
    columns = X.columns
    if columns is not None:
        lengths, offsets = columns.lengths or (), columns.offsets or ()
        slices = [
            divisor[first : first + n, None] for first, n in zip(offsets, lengths, strict=True)
        ]
        columns = replace(columns, divisors=tuple(slices))
    return replace(X, divisors=(sent(divisor),) * len(X.chunks), columns=columns)
