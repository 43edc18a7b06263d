"""Holes of a matrix filled with the low-rank part of EVB's closed form for that matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from bayespca.arrays.namespaces import array_namespace, row_blocks, to_numpy
from bayespca.arrays.places import at, taken
from bayespca.arrays.signs import fixed_signs
from bayespca.arrays.types import Array, FloatArray, Input
from bayespca.engines.decomposing import decompose
from bayespca.engines.records import Decomposition, Plan
from bayespca.spectrum.solving import solve

from .holes import Holes, IncompleteRows, altered_copy
from .rows import device_blocks

# Rounds of factorizing and refilling: the fewest, and the most as long as the rank falls. A round
# is cheap beside a sweep with too many components.
ROUNDS = 5
MOST_ROUNDS = 30
# Components to start with beyond those found in the filled matrix; the free energy drops them.
SPARE = 3


class Low(NamedTuple):
    """The low-rank part of rows x: scores weights·(x − mean) along the directions `right`.

    `right` and `weights` are (rank, p), `less` is weights·mean; all NumPy arrays.
    """

    right: FloatArray
    weights: FloatArray
    less: FloatArray

    def scores(self, x: Array) -> Array:
        scores = array_namespace(x).matmul(x, at(x, self.weights.T))
        scores -= at(x, self.less)
        return scores


@dataclass(frozen=True, eq=False)
class Filled:
    """A matrix whose holes are filled with the low-rank part of EVB's closed form, at unit scale.

    `right` are the directions of that part, with spare components at a tenth of their strength;
    `spread` are the mean squares of the scores along them. `noise_variance` is that of the closed
    form over the share of observed cells, because holes were filled without noise; it is never less
    than the mean squared residual of observed cells.
    """

    values: Any
    right: FloatArray
    spread: FloatArray
    noise_variance: float


def fill(data: IncompleteRows, *, most: int, exactly: bool = False, engine: str = "auto") -> Filled:
    """Fill holes with zeros (the means), then repeatedly with the closed form's low-rank matrix.

    A filled matrix looks less noisy than the data and its components weaker, so a few more than it
    shows are kept; with `exactly`, as many as `most`.
    """
    filled, before = data.matrix(altered_copy, _refill), np.inf
    lows: tuple[Low, ...] = ()
    for number in count(1):
        low, noise = _low(filled, most, exactly, data.centred, engine)
        lows = (*lows, low)
        filled, (squares, scores) = data.altered(filled, _refill, lows)
        if number >= ROUNDS and (len(low.right) >= before or number == MOST_ROUNDS):
            break
        before = len(low.right)
    n_cells = max(float(data.column_counts.sum()), 1.0)
    left = max(squares / n_cells, noise * math.prod(data.shape) / n_cells, 1e-8)
    return Filled(filled, low.right, scores / data.shape[0], left)


def _refill(filled: Array, data: Holes, low: Low) -> tuple[float, FloatArray]:
    """Put the low-rank part in the holes; return Σ(x − low-rank part)² over observed cells, and the
    sums of the squares of the scores, (rank,).
    """
    xp, right = array_namespace(filled), at(filled, low.right)
    squares, total = 0.0, np.zeros(len(low.right))
    for block in device_blocks(data, len(low.right)):
        scores = low.scores(filled[block.rows, :])
        part = xp.matmul(scores, right)
        full = xp.where(taken(block.seen, block.pattern), block.values, part)
        filled[block.rows, :] = full
        # In holes the difference is 0.
        full -= part
        squares += float(xp.sum(full * full))
        total += to_numpy(xp.sum(scores * scores, axis=0))
    return squares, total


def _low(X: Input, most: int, exactly: bool, centred: bool, engine: str) -> tuple[Low, float]:
    """The low-rank part of a complete matrix, at the rank to start with, and its noise variance."""
    needed = most if exactly else 0
    found = decompose(X, plan=solve, center=centred, engine=engine, n_needed=needed, random_state=0)
    known = found.spectrum.singular_values
    # A component that EVB would drop must not start so weak that it falls to 0.
    solution = solve(found.spectrum, exactly=min(most, known.size) if exactly else None)
    rank = min(most if exactly else solution.rank + SPARE, most, known.size)
    gamma = known[:rank] * found.spectrum.scale
    shrunk = np.append(solution.shrunk_singular_values, np.zeros(rank))[:rank]
    # Spare components enter at a tenth of their strength: enough to grow from.
    weight = np.where(shrunk > 0, shrunk, 0.1 * gamma) / np.where(gamma > 0, gamma, 1)
    return _along(found, rank, weight), solution.noise_variance


def _along(found: Decomposition, rank: int, weight: FloatArray) -> Low:
    """The `Low` with scores (X − mean)·rightᵀ, times a weight for each direction."""
    right = np.asarray(to_numpy(fixed_signs(found.right(rank))), dtype=np.float64)
    weights = right * weight[:, None]
    return Low(right, weights, weights @ np.asarray(to_numpy(found.mean), dtype=np.float64))


def all_kept(
    filled: Filled, data: IncompleteRows, plan: Plan, *, most: int, engine: str = "auto"
) -> tuple[FloatArray, FloatArray, float]:
    """Directions of all components that a plan might keep, the mean squares of the scores along
    them, and its noise variance.

    Components are weaker in a filled matrix than in a complete one, by the share of observed cells.
    """
    X, everything = filled.values, np.iinfo(np.int64).max
    found = decompose(X, plan=plan, center=data.centred, engine=engine, n_needed=everything)
    solution = plan(found.spectrum)
    gamma = found.spectrum.singular_values * found.spectrum.scale
    share = float(data.column_counts.sum()) / np.prod(data.shape)
    above = int(np.count_nonzero(gamma**2 > share * solution.threshold**2))
    rank = min(above + SPARE, most, gamma.size)
    low = _along(found, rank, np.ones(rank))
    sums = data.over(X, _squares_of_scores, low)
    return low.right, sums / data.shape[0], solution.noise_variance


def _squares_of_scores(X: Array, low: Low) -> FloatArray:
    xp, total = array_namespace(X), np.zeros(len(low.right))
    for rows in row_blocks(X):
        scores = low.scores(X[rows, :])
        total += to_numpy(xp.sum(scores * scores, axis=0))
    return total
