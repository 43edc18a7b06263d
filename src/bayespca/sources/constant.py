"""Columns that do not vary: one rule, for values at hand and for sums of them.

A constant column has no noise. Counted as a feature it would suggest that there is none anywhere,
so models leave it out and put its value back. Where values are at hand the rule is exact: the
smallest is the largest (`is_constant`). Where only sums are, it allows for rounding
(`varies_beyond_rounding`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.namespaces import array_namespace, to_numpy
from bayespca.arrays.places import taken
from bayespca.arrays.types import Array, DType, FloatArray, Numbers

from .data import Where, where_of


def is_constant(low: Array, high: Array, *, center: bool) -> Array:
    """Whether columns with these extremes are constant; if not centred, whether they are all 0."""
    same = low == high
    return same if center else same & (low == 0)


def extremes(X: Numbers) -> tuple[FloatArray, FloatArray]:
    """Smallest and largest value of each column, holes left out; ∞ and −∞ where there is none."""
    low = np.fmin.reduce(X, axis=0, initial=np.inf, dtype=np.float64)
    high = np.fmax.reduce(X, axis=0, initial=-np.inf, dtype=np.float64)
    return low, high


def constant_columns(X: Array, *, center: bool) -> NDArray[np.intp]:
    """Indices of the columns of a complete matrix in memory that do not vary.

    It looks closely only at columns that agree in three rows, or of which a sparse matrix stores
    all entries or none: most data have no such columns.
    """
    n = int(X.shape[0])
    if where_of(X) is Where.SPARSE:
        columns = X.tocsc()
        filled = np.diff(columns.indptr)
        some = np.flatnonzero((filled == 0) | (filled == n))
        if not some.size:
            return some
        few = columns[:, some]
        low, high = (row.toarray().ravel() for row in (few.min(axis=0), few.max(axis=0)))
        return some[is_constant(low, high, center=center)]
    # Slices: taking rows by index would copy all of an array in column-major order.
    few = array_namespace(X).stack([X[row, :] for row in (0, n // 2, n - 1)])
    candidates = np.flatnonzero(_are_constant(few, center=center))
    if not candidates.size:
        return candidates
    return candidates[_are_constant(taken(X, candidates, axis=1), center=center)]


def _are_constant(X: Array, *, center: bool) -> NDArray[np.bool_]:
    xp = array_namespace(X)
    return to_numpy(is_constant(xp.min(X, axis=0), xp.max(X, axis=0), center=center))


def varies_beyond_rounding(
    norms: FloatArray, mean: FloatArray, n: int, dtype: DType
) -> NDArray[np.bool_]:
    """Mask of the columns that vary by more than the rounding of their mean; all if none does.

    `norms` are the roots of the sums of n squared deviations from it.
    """
    rounding = 4 * np.finfo(dtype).eps * np.abs(mean)
    live = np.asarray(norms > np.sqrt(n) * rounding)
    return live if live.any() else np.ones_like(live)
