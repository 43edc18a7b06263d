"""Many small independent descents at once (L-BFGS).

Each row has its own point, memory and step length, so its result does not depend on the rows beside
it. Rows that have settled are left alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bayespca.arrays.types import FloatArray, Index

from .descending import SHORTER, SUFFICIENT

# Pairs that each row remembers, and the relative curvature below which one does not count.
MEMORY, LEAST_CURVATURE = 10, 1e-10

# Energies (m,) and gradients (m, size) of some rows, by their index, at points (m, size).
RowObjective = Callable[[FloatArray, Index], tuple[FloatArray, FloatArray]]


def rows_descended(
    objective: RowObjective, x: FloatArray, *, most: int, settled: float
) -> FloatArray:
    """Points (n, size) where the energy of each row is lowest, after `most` steps at most.

    A row has settled when a step lowers its energy by less than `settled`, or none leads lower.
    """
    x = x.copy()
    index = np.arange(len(x))
    energy, gradient = objective(x, index)
    steps: list[FloatArray] = []
    changes: list[FloatArray] = []
    for _ in range(most):
        if not index.size:
            break
        direction = _directions(gradient, steps, changes)
        new, found, slope = _searched(objective, x[index], (energy, gradient), direction, index)
        s, y = new - x[index], slope - gradient
        fall = energy - found
        x[index], energy, gradient = new, found, slope
        steps, changes = [*steps[-MEMORY + 1 :], s], [*changes[-MEMORY + 1 :], y]
        goes_on = fall > settled
        if not goes_on.all():
            index, energy, gradient = index[goes_on], energy[goes_on], gradient[goes_on]
            steps = [one[goes_on] for one in steps]
            changes = [one[goes_on] for one in changes]
    return x


def _directions(
    gradient: FloatArray, steps: list[FloatArray], changes: list[FloatArray]
) -> FloatArray:
    """−(inverse Hessian)·gradient of each row; pairs without curvature do not count."""
    q = gradient.copy()
    shares = []
    for s, y in zip(reversed(steps), reversed(changes), strict=True):
        share = _dot(s, q) * _inverse_curvature(s, y)
        shares.append(share)
        q -= share[:, None] * y
    size = np.abs(gradient).sum(axis=1)
    scale = 1 / np.maximum(size, 1.0)
    for s, y in zip(steps, changes, strict=True):
        known = _inverse_curvature(s, y) > 0
        scale = np.where(known, _dot(s, y) / np.maximum(_dot(y, y), 1e-300), scale)
    q *= scale[:, None]
    for s, y, share in zip(steps, changes, reversed(shares), strict=True):
        q += (share - _dot(y, q) * _inverse_curvature(s, y))[:, None] * s
    return np.where((_dot(q, gradient) > 0)[:, None], -q, -gradient * scale[:, None])


def _searched(
    objective: RowObjective,
    x: FloatArray,
    here: tuple[FloatArray, FloatArray],
    direction: FloatArray,
    index: Index,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Points along the directions that lead lower, with their energies and gradients.

    The old ones stay where there is none.
    """
    energy, gradient = here
    slope = _dot(direction, gradient)
    length = np.ones(len(x))
    new, found, slopes = x.copy(), energy.copy(), gradient.copy()
    open_rows = np.arange(len(x))
    for _ in range(SHORTER):
        at = x[open_rows] + length[open_rows, None] * direction[open_rows]
        value, g = objective(at, index[open_rows])
        wanted = energy[open_rows] + SUFFICIENT * length[open_rows] * slope[open_rows]
        good = value <= wanted
        done = open_rows[good]
        new[done], found[done], slopes[done] = at[good], value[good], g[good]
        open_rows = open_rows[~good]
        if not open_rows.size:
            break
        length[open_rows] *= 0.3
    return new, found, slopes


def _dot(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.einsum("ij,ij->i", a, b)


def _inverse_curvature(s: FloatArray, y: FloatArray) -> FloatArray:
    """1/sᵀy of each row, and 0 where sᵀy is too small."""
    curvature = _dot(s, y)
    least = LEAST_CURVATURE * np.sqrt(_dot(s, s) * _dot(y, y))
    return np.where(curvature > least, 1 / np.where(curvature > least, curvature, 1.0), 0.0)
