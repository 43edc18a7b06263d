"""Compiled loops over ratings that draw rows; `kernels.by_numpy` shows what they compute."""

from __future__ import annotations

from collections import deque

import numba
import numpy as np

from bayespca.arrays.packing import packed
from bayespca.arrays.parallel import in_turn
from bayespca.arrays.types import FloatArray
from bayespca.missing.ratings.cells import RatingsSide, pieces_of
from bayespca.missing.ratings.compiled import (
    _accumulate,
    _backward,
    _factorize,
    _forward,
    _point_fit,
)

from .kernels import Chances, DrawnRows, DrawTask


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
