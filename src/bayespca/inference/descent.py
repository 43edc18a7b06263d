"""Descent by gradients (L-BFGS) as a pure step: its memory is part of the state.

SciPy's keeps its memory inside, so an interrupted run could not resume with the same digits, and a
run taken in steps would start over at each of them. `rows_descended` makes many small descents at
once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg.blas import daxpy

from bayespca.arrays.types import FloatArray, Index, Vector

# Number of steps remembered, and where each row has a descent of its own.
MEMORY, MEMORY_OF_ROWS = 30, 10
# Share of the fall promised by the gradient that a step must bring, and how many times a step is
# shortened until it does.
SUFFICIENT, SHORTER = 1e-4, 20
# A pair is not remembered if the curvature along it is below this, relative to both lengths.
LEAST_CURVATURE = 1e-10

Objective = Callable[[FloatArray], tuple[float, FloatArray]]
# Step size of each coordinate at a point: about the inverse of the curvature along it.
Metric = Callable[[FloatArray], FloatArray]

# Energies (m,) and gradients (m, size) of some rows, by their index, at points (m, size).
RowObjective = Callable[[FloatArray, Index], tuple[FloatArray, FloatArray]]


def plain(x: FloatArray) -> FloatArray:
    """The metric of coordinates that are all alike."""
    return np.ones_like(x)


@dataclass(frozen=True, eq=False)
class Secant:
    """A step, the change of the gradient along it, and their product."""

    step: Vector
    change: Vector
    curvature: float


@dataclass(frozen=True, eq=False)
class Descent:
    """A point, the free energy and the gradient there, and the last steps."""

    x: Vector
    energy: float
    gradient: Vector
    secants: tuple[Secant, ...] = ()


def begun(objective: Objective, x: FloatArray) -> Descent:
    """A descent that has not moved yet."""
    return Descent(x, *objective(x))


def descended(objective: Objective, now: Descent, count: int, metric: Metric = plain) -> Descent:
    """The descent after `count` more steps, or fewer where none leads lower."""
    for _ in range(count):
        found = _step(objective, now, metric)
        if found is None and now.secants:
            # The memory itself may mislead.
            now = replace(now, secants=())
            found = _step(objective, now, metric)
        if found is None:
            break
        now = found
    return now


def _step(objective: Objective, now: Descent, metric: Metric) -> Descent | None:
    """A step along L-BFGS's direction that leads lower; None where there is none."""
    direction = -_two_loops(now, metric(now.x))
    slope = float(direction @ now.gradient)
    if not slope < 0:
        return None
    length = 1.0 if now.secants else min(1.0, 1.0 / float(np.abs(direction).sum()))
    for _ in range(SHORTER):
        x = now.x + length * direction
        energy, gradient = objective(x)
        fall = now.energy - energy
        if np.isfinite(energy) and fall >= -SUFFICIENT * length * slope:
            s, y = x - now.x, gradient - now.gradient
            curvature = float(s @ y)
            if not curvature > LEAST_CURVATURE * float(np.linalg.norm(s) * np.linalg.norm(y)):
                return replace(now, x=x, energy=energy, gradient=gradient)
            secants = (*now.secants[-MEMORY + 1 :], Secant(s, y, curvature))
            return Descent(x, energy, gradient, secants)
        # The minimum of the parabola through the known values and slope.
        bend = 2 * (-fall - length * slope)
        best = -slope * length**2 / bend if np.isfinite(bend) and bend > 0 else 0.0
        length = float(np.clip(best, 0.1 * length, 0.5 * length))
    return None


def _two_loops(now: Descent, metric: FloatArray) -> FloatArray:
    """The memory's inverse Hessian times the gradient (Nocedal 1980)."""
    q = now.gradient.copy()
    shares = []
    for past in reversed(now.secants):
        shares.append(float(past.step @ q) / past.curvature)
        q = daxpy(past.change, q, a=-shares[-1])
    q *= metric
    if now.secants:
        last = now.secants[-1]
        q *= last.curvature / float(last.change @ (metric * last.change))
    for past, share in zip(now.secants, reversed(shares), strict=True):
        q = daxpy(past.step, q, a=share - float(past.change @ q) / past.curvature)
    return q


# --- many at once ------------------------------------------------------------------------------


def rows_descended(
    objective: RowObjective, x: FloatArray, *, most: int, settled: float
) -> FloatArray:
    """Points (n, size) where the energy of each row is lowest, after `most` steps at most.

    Each row has its own point, memory and step length, so its result does not depend on the rows
    beside it. Rows that have settled are left alone.

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
        steps = [*steps[-MEMORY_OF_ROWS + 1 :], s]
        changes = [*changes[-MEMORY_OF_ROWS + 1 :], y]
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
