"""Descent by gradients (L-BFGS) as a pure step: its memory is part of the state.

SciPy's keeps its memory inside, so an interrupted run could not resume with the same digits, and a
run taken in steps would start over at each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg.blas import daxpy

from bayespca.arrays.types import FloatArray, Vector

# Number of steps remembered.
MEMORY = 30
# Share of the fall promised by the gradient that a step must bring, and how many times a step is
# shortened until it does.
SUFFICIENT, SHORTER = 1e-4, 20
# A pair is not remembered if the curvature along it is below this, relative to both lengths.
LEAST_CURVATURE = 1e-10

Objective = Callable[[FloatArray], tuple[float, FloatArray]]
# Step size of each coordinate at a point: about the inverse of the curvature along it.
Metric = Callable[[FloatArray], FloatArray]


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
            return _remembering(now, x, energy, gradient)
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


def _remembering(now: Descent, x: FloatArray, energy: float, gradient: FloatArray) -> Descent:
    s, y = x - now.x, gradient - now.gradient
    curvature = float(s @ y)
    if not curvature > LEAST_CURVATURE * float(np.linalg.norm(s) * np.linalg.norm(y)):
        return replace(now, x=x, energy=energy, gradient=gradient)
    return Descent(x, energy, gradient, (*now.secants[-MEMORY + 1 :], Secant(s, y, curvature)))
