"""The loop that draws what columns say of who rates them; `implicit.by_numpy` says what it does."""

from __future__ import annotations

import numba
import numpy as np

from bayespca.arrays.types import FloatArray

from .prior import LinearMean
from .rated import Rated


def by_loops(rest: FloatArray, rated: Rated, now: LinearMean, noise: FloatArray) -> FloatArray:
    """One column after another, by one thread."""
    y = now.weights.copy()
    left = rest * rated.active[:, None] - rated.raw(y)
    count = int(rated.active.sum())
    cells = rated.other.starts, rated.other.other, rated.scale
    sums = rated.centre, rated.totals, rated.squares
    _implicit(cells, sums, now.ridge, count, noise, left, y)
    return y


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def _implicit(cells, sums, ridge, count, noise, left, y):  # type: ignore[no-untyped-def]
    """`left` has what y leaves of the rows, less Σⱼ f̄ⱼyⱼ, which all share: `shared`."""
    starts, other, scale = cells
    centre, totals, squares = sums
    K = y.shape[1]
    shared, over_rows, change = np.zeros(K), np.zeros(K), np.empty(K)
    for j in range(y.shape[0]):
        for k in range(K):
            shared[k] += centre[j] * y[j, k]
    for i in range(left.shape[0]):
        for k in range(K):
            over_rows[k] += left[i, k]
    for j in range(y.shape[0]):
        change[:] = 0.0
        for cell in range(starts[j], starts[j + 1]):
            i = other[cell]
            for k in range(K):
                change[k] += scale[i] * left[i, k]
        for k in range(K):
            found = change[k] + totals[j] * shared[k]
            found -= centre[j] * (over_rows[k] + count * shared[k])
            found = (found + squares[j] * y[j, k]) / (ridge + squares[j]) + noise[j, k]
            change[k] = found - y[j, k]
            y[j, k] = found
            shared[k] += centre[j] * change[k]
            over_rows[k] -= totals[j] * change[k]
        for cell in range(starts[j], starts[j + 1]):
            i = other[cell]
            for k in range(K):
                left[i, k] -= scale[i] * change[k]
