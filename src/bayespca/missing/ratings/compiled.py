"""Compiled loops over ratings; `kernels.by_numpy` shows what they compute."""

from __future__ import annotations

from collections import deque

import numba
import numpy as np

from bayespca.arrays.parallel import in_turn

from .cells import RatingsSide, pieces_of
from .kernels import RatingsRows, RowsTask

# Bytes of the other factor to work with at a time, so that they stay in the cache.
CACHED = 1 << 20


def by_loops(side: RatingsSide, task: RowsTask) -> RatingsRows:
    """`kernels.by_numpy`, each row by one thread: the sums do not depend on the number of threads.

    The threads are Python's: numba's own would abort if fits ran in several threads.
    """
    n, K = side.n_rows, task.prior.size
    cov = np.zeros((n if task.integrated else 0, K * (K + 1) // 2))
    found = RatingsRows(np.zeros((n, K)), cov, np.zeros(n), np.zeros(n))
    cells, given, out = (side.starts, side.other, side.values), tuple(task.given), tuple(found)
    ridge = 1 / task.prior

    def piece(edge: tuple[int, int]) -> None:
        _rows(cells, given, ridge, task.s2, edge, out)

    deque(in_turn(piece, pieces_of(side, K)), maxlen=0)
    return found


# Inner products may be summed in another order, which lets them use vector instructions.
@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def _rows(cells, given, ridge, s2, edge, out):  # type: ignore[no-untyped-def]
    """Compute the rows between two edges; `out` holds the arrays of `RatingsRows`."""
    low, high = edge
    mean, cov, log_dets, fits = out
    K = ridge.size
    G = np.zeros((high - low, K * (K + 1) // 2))
    r = np.zeros((high - low, K))
    _accumulate(cells, given, low, high, G, r)
    L = np.empty((K, K))
    for i in range(low, high):
        log_dets[i] = _factorize(L, G[i - low], ridge, s2)
        _forward(L, r[i - low], s2, mean[i])
        _backward(L, mean[i])
        if cov.shape[0]:
            _invert(L, cov[i])
            fits[i] = _fit(mean[i], cov[i], r[i - low], G[i - low])
        else:
            log_dets[i] = 0.0
            fits[i] = _point_fit(mean[i], r[i - low], G[i - low])


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def _accumulate(cells, given, low, high, G, r):  # type: ignore[no-untyped-def]
    """Add up G and r of each row, over blocks of columns that fit into the cache.

    The cells of a row are sorted by column.
    """
    starts, other, values = cells
    second, mean_z, drift = given
    size, K = G.shape[1], r.shape[1]
    width = CACHED // (8 * (size + 2 * K) + 1) + 1
    at = starts[low:high].copy()
    for first in range(0, second.shape[0], width):
        limit = first + width
        for i in range(high - low):
            cell, end = at[i], starts[low + i + 1]
            while cell < end and other[cell] < limit:
                j = other[cell]
                x = values[cell]
                for q in range(size):
                    G[i, q] += second[j, q]
                for k in range(K):
                    r[i, k] += x * mean_z[j, k] - drift[j, k]
                cell += 1
            at[i] = cell


@numba.njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def _factorize(L, G, ridge, s2):  # type: ignore[no-untyped-def]
    """Set L with L·Lᵀ = G/σ² + diag(ridge), return log|(LLᵀ)⁻¹|. Inner loops run along rows."""
    K = ridge.size
    at = 0
    for h in range(K):
        for k in range(h, K):
            L[k, h] = G[at] / s2
            at += 1
        L[h, h] += ridge[h]
    log_det = 0.0
    for g in range(K):
        for h in range(g + 1):
            total = L[g, h]
            for k in range(h):
                total -= L[g, k] * L[h, k]
            L[g, h] = np.sqrt(total) if g == h else total / L[h, h]
        log_det -= 2 * np.log(L[g, g])
    return log_det


@numba.njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def _forward(L, r, s2, out):  # type: ignore[no-untyped-def]
    """L⁻¹r/σ²"""
    for h in range(r.size):
        total = r[h] / s2
        for k in range(h):
            total -= L[h, k] * out[k]
        out[h] = total / L[h, h]


@numba.njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def _backward(L, out):  # type: ignore[no-untyped-def]
    """L⁻ᵀ·out, in place."""
    K = out.size
    for h in range(K - 1, -1, -1):
        total = out[h]
        for k in range(h + 1, K):
            total -= L[k, h] * out[k]
        out[h] = total / L[h, h]


@numba.njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def _invert(L, packed):  # type: ignore[no-untyped-def]
    """(LLᵀ)⁻¹, packed; L⁻ᵀ overwrites L above the diagonal, and its diagonal that of L."""
    K = L.shape[0]
    for h in range(K):
        L[h, h] = 1 / L[h, h]
        for g in range(h + 1, K):
            total = L[g, h] * L[h, h]
            for k in range(h + 1, g):
                total += L[g, k] * L[h, k]
            L[h, g] = -total / L[g, g]
    at = 0
    for h in range(K):
        for k in range(h, K):
            total = 0.0
            for g in range(k, K):
                total += L[h, g] * L[k, g]
            packed[at] = total
            at += 1


@numba.njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def _fit(mean, cov, r, G):  # type: ignore[no-untyped-def]
    """−2θᵀr + tr⟨θθᵀ⟩G"""
    total = 0.0
    at = 0
    for h in range(r.size):
        total += mean[h] * (mean[h] * G[at] - 2 * r[h]) + cov[at] * G[at]
        at += 1
        for k in range(h + 1, r.size):
            total += 2 * G[at] * (mean[h] * mean[k] + cov[at])
            at += 1
    return total


@numba.njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def _point_fit(mean, r, G):  # type: ignore[no-untyped-def]
    """−2θᵀr + θᵀGθ"""
    total = 0.0
    at = 0
    for h in range(r.size):
        total += mean[h] * (mean[h] * G[at] - 2 * r[h])
        at += 1
        for k in range(h + 1, r.size):
            total += 2 * G[at] * mean[h] * mean[k]
            at += 1
    return total
