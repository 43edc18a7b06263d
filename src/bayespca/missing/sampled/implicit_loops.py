"""Compiled loop that draws implicit weights; `implicit.by_numpy` shows what it computes."""

from __future__ import annotations

import numba
import numpy as np

from bayespca.arrays.parallel import by_shares
from bayespca.arrays.types import FloatArray

from .prior import LinearMean
from .rated import Rated


def by_loops(
    left: FloatArray, rated: Rated, now: LinearMean, noise: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """`implicit.by_numpy` with threads, each of which takes some of the factors.

    With the noise drawn beforehand, a factor of a column depends on the same factor of the other
    columns only.
    """
    y, after = np.empty_like(now.weights), np.empty_like(left)
    count = int(rated.active.sum())
    cells = rated.other.starts, rated.other.other, rated.scale
    sums = rated.centre, rated.totals, rated.squares

    def piece(some: slice) -> None:
        own, rest = now.weights[:, some].copy(), left[:, some].copy()
        shared = np.zeros(own.shape[1])
        _implicit(cells, sums, now.ridge, count, noise[:, some].copy(), rest, own, shared)
        y[:, some], after[:, some] = own, rest + shared

    by_shares(piece, y.shape[1])
    return y, after * rated.active[:, None]


# No fastmath: sums keep the order of the cells, so a factor does not depend on its thread.
@numba.njit(nogil=True, cache=True)
def _implicit(cells, sums, ridge, count, noise, left, y, shared):  # type: ignore[no-untyped-def]
    """Draw y in place; residuals become `left` + `shared`, the change of Σⱼ f̄ⱼyⱼ in all rows."""
    starts, other, scale = cells
    centre, totals, squares = sums
    K = y.shape[1]
    over_rows, change = np.zeros(K), np.empty(K)
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
