"""Compiled loops: draws of rows and of implicit weights, and predictions from draws.

Functions for NumPy show what they compute: `kernels.by_numpy`, `prior.implicit_by_numpy` and
`draws.averaged_by_numpy`.
"""

from __future__ import annotations

from collections import deque

import numba
import numpy as np

from bayespca.arrays.packing import packed
from bayespca.arrays.parallel import by_shares, in_turn
from bayespca.arrays.types import FloatArray
from bayespca.missing.ratings.cells import RatingsSide, pieces_of
from bayespca.missing.ratings.compiled import (
    _accumulate,
    _backward,
    _factorize,
    _forward,
    _point_fit,
)

from .features import Rated
from .kernels import Chances, DrawnRows, DrawTask
from .prior import LinearMean


def by_loops(side: RatingsSide, task: DrawTask, old: FloatArray, chances: Chances) -> DrawnRows:
    """`kernels.by_numpy`, each row by one thread: draws do not depend on the number of threads."""
    n, K = chances.normal.shape
    found = DrawnRows(np.zeros((n, K)), np.ones(n), np.zeros(n))
    cells, given = (side.starts, side.other, side.values), tuple(task.given())
    noise = (np.ascontiguousarray(task.offsets), task.weights, task.tau, task.nu)
    prior = packed(task.precision[None])[0], task.pull

    def piece(edge: tuple[int, int]) -> None:
        _rows(cells, given, noise, prior, edge, old, tuple(chances), tuple(found))

    deque(in_turn(piece, pieces_of(side, K)), maxlen=0)
    return found


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def _rows(cells, given, noise, prior, edge, old, chances, out):  # type: ignore[no-untyped-def]
    """Draw the rows between two edges; `out` holds the arrays of `DrawnRows`."""
    low, high = edge
    theta, weights, squares = out
    precision, pull = prior
    normal, gamma = chances
    tau, nu = noise[2], noise[3]
    K = pull.shape[1]
    G = np.zeros((high - low, K * (K + 1) // 2))
    r = np.zeros((high - low, K))
    _accumulate(cells, given, low, high, G, r)
    L, P, right, none = np.empty((K, K)), np.empty(G.shape[1]), np.empty(K), np.zeros(K)
    for i in range(low, high):
        own, rest = G[i - low], r[i - low]
        q = _squares(cells, noise, i)
        if gamma.size:
            left = q + _point_fit(old[i], rest, own)
            weights[i] = gamma[i] / (0.5 * (nu + tau * left))
        t = tau * weights[i]
        for k in range(P.size):
            P[k] = t * own[k] + precision[k]
        for k in range(K):
            right[k] = t * rest[k] + pull[i, k]
        _factorize(L, P, none, 1.0)
        _forward(L, right, 1.0, theta[i])
        for k in range(K):
            theta[i, k] += normal[i, k]
        _backward(L, theta[i])
        squares[i] = q + _point_fit(theta[i], rest, own)


@numba.njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def _squares(cells, noise, i):  # type: ignore[no-untyped-def]
    """Σⱼ βⱼ(xᵢⱼ − vⱼ)²"""
    starts, other, values = cells
    offsets, weights = noise[0], noise[1]
    total = 0.0
    for cell in range(starts[i], starts[i + 1]):
        j = other[cell]
        x = values[cell] - offsets[j]
        total += weights[j] * x * x
    return total


def implicit_by_loops(
    left: FloatArray, rated: Rated, now: LinearMean, noise: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """`prior.implicit_by_numpy` with threads, each of which takes some of the factors.

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


@numba.njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def add_draw(own, other, noise, biases, count, out):  # type: ignore[no-untyped-def]
    """Add a draw to means, sums of squares (Welford's method) and sums of noise variances."""
    a, wa, mean_a, rows = own
    b, wb, mean_b, columns = other
    tau, new_row, new_column = noise
    mean, squares, total = out
    H = mean_a.size - (1 if biases else 0)
    for p in range(rows.size):
        i, j = rows[p], columns[p]
        low, w = 0.0, 1.0
        w *= wa[i] if i >= 0 else new_row
        w *= wb[j] if j >= 0 else new_column
        for h in range(H):
            x = a[i, h] if i >= 0 else mean_a[h]
            y = b[j, h] if j >= 0 else mean_b[h]
            low += x * y
        if biases:
            low += a[i, H] if i >= 0 else mean_a[H]
            low += b[j, H] if j >= 0 else mean_b[H]
        change = low - mean[p]
        mean[p] += change / count
        squares[p] += change * (low - mean[p])
        total[p] += 1.0 / (tau * w)
