"""Noise variances with geometric mean 1, for use where a given prior of loadings is in their units.

The noise variance and the scales then cannot trade size freely, and the best scales with the right
mean are needed: Σᵢ log⟨1/uᵢ⟩ is fixed, with a multiplier λ. Shapes stay α + Nᵢ/2, as they are
without the constraint (`scales`), and

    ⟨1/uᵢ⟩ = (α + Nᵢ/2 − λ)/(β + Rᵢ/2).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma

from bayespca.arrays.types import FloatArray

from .scales import LARGEST_SHAPE, LEAST_SHAPE, LONGEST, MOST_STEPS, ROUNDING, Scales, learned

# Largest move of log β, and options that find α and β to the last digits.
FARTHEST = 50.0
EXACT: Any = {"maxiter": 200, "ftol": 1e-15, "gtol": 1e-11}


def at_unit_scale(squares: FloatArray, counts: FloatArray, units: FloatArray) -> Scales:
    """The best r(u) and prior among those whose ⟨1/u⟩·units has a geometric mean of 1."""
    R = np.maximum(squares, np.finfo(np.float64).tiny)
    N, goal = np.asarray(counts, dtype=np.float64), -float(np.log(units).mean())

    def at(logs: FloatArray) -> Scales:
        alpha, beta = np.exp(logs)
        shape = alpha + 0.5 * N
        free = Scales(shape, np.zeros(N.size), float(alpha), float(beta), counts=N)
        return free.with_precision(_with_mean(shape, beta + 0.5 * R, goal))

    def energy(logs: FloatArray) -> tuple[float, FloatArray]:
        """½Σ(⟨1/u⟩R + N⟨log u⟩) + KL per variance, and its slope: that of KL at the best r(u)."""
        new = at(logs)
        value = 0.5 * float(new.precision @ R + N @ new.log_variance) + new.divergence
        by_alpha = new.shape * (digamma(new.shape) - logs[1] + new.log_variance.mean())
        by_beta = new.rate * new.precision.mean() - new.shape
        return value / N.size, np.array([by_alpha, by_beta])

    begin = learned(R, N)
    move = float(np.log(begin.precision).mean()) - goal
    start = np.log([begin.shape, begin.rate]) + np.array([0.0, move])
    # Columns whose squares are 0 leave β undetermined: bounds keep it finite.
    near = (start[1] - FARTHEST, start[1] + FARTHEST)
    bounds = [(np.log(LEAST_SHAPE), np.log(LARGEST_SHAPE)), near]
    found = minimize(energy, start, jac=True, bounds=bounds, method="L-BFGS-B", options=EXACT)
    return at(found.x)


def _with_mean(shape: FloatArray, rate: FloatArray, goal: float) -> FloatArray:
    """(shape − λ)/rate whose logarithms have the mean `goal`, by Newton's method."""
    # λ = min shape − e^t: t is unbounded, and the mean rises with it.
    above, logs, t = shape - shape.min(), np.log(rate), float(np.log(shape.min()))
    for _ in range(MOST_STEPS):
        top = above + np.exp(t)
        gap = float((np.log(top) - logs).mean()) - goal
        t -= float(np.clip(gap / (np.exp(t) / top).mean(), -LONGEST, LONGEST))
        if abs(gap) < ROUNDING:
            break
    return np.asarray((above + np.exp(t)) / rate)
