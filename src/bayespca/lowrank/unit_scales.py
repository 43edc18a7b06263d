"""Noise variances whose geometric mean is 1, where a given prior of loadings is in their units.

Then noise variance and scales cannot share their size as they like, and the best of those with the
right mean are wanted: Σᵢ log⟨1/uᵢ⟩ is to be a given number, with a multiplier λ. Shapes stay
α + Nᵢ/2, as they are without (`scales`), and

    ⟨1/uᵢ⟩ = (α + Nᵢ/2 − λ)/(β + Rᵢ/2).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma

from bayespca.arrays.types import FloatArray

from .scales import LARGEST_SHAPE, LEAST_SHAPE, LONGEST, MOST_STEPS, ROUNDING, Scales, learned

# α and β to the last digits.
FARTHEST = 50.0
EXACT: Any = {"maxiter": 200, "ftol": 1e-15, "gtol": 1e-11}


def at_unit_scale(squares: FloatArray, counts: FloatArray, units: FloatArray) -> Scales:
    """The best r(u) and the best prior of those whose ⟨1/u⟩·units has a geometric mean of 1."""
    R = np.maximum(squares, np.finfo(np.float64).tiny)
    N, goal = np.asarray(counts, dtype=np.float64), -float(np.log(units).mean())

    def at(logs: FloatArray) -> Scales:
        alpha, beta = np.exp(logs)
        shape = alpha + 0.5 * N
        free = Scales(shape, np.zeros(N.size), float(alpha), float(beta), counts=N)
        return free.with_precision(_with_mean(shape, beta + 0.5 * R, goal))

    def energy(logs: FloatArray) -> tuple[float, FloatArray]:
        """½Σ(⟨1/u⟩R + N⟨log u⟩) + KL, and its slope: that of KL, for r(u) is at its best."""
        new = at(logs)
        value = 0.5 * float(new.precision @ R + N @ new.log_variance) + new.divergence
        by_alpha = new.shape * (digamma(new.shape) - logs[1] + new.log_variance.mean())
        by_beta = new.rate * new.precision.mean() - new.shape
        return value / N.size, np.array([by_alpha, by_beta])

    begin = learned(R, N)
    move = float(np.log(begin.precision).mean()) - goal
    start = np.log([begin.shape, begin.rate]) + np.array([0.0, move])
    # Columns without a square of their own leave β free: it stays in the range of numbers.
    near = (start[1] - FARTHEST, start[1] + FARTHEST)
    bounds = [(np.log(LEAST_SHAPE), np.log(LARGEST_SHAPE)), near]
    found = minimize(energy, start, jac=True, bounds=bounds, method="L-BFGS-B", options=EXACT)
    return at(found.x)


def _with_mean(shape: FloatArray, rate: FloatArray, goal: float) -> FloatArray:
    """(shape − λ)/rate whose logarithms have the mean `goal`, by Newton's method."""
    # λ = min shape − e^t: there are no ends to t, with which the mean rises.
    above, logs, t = shape - shape.min(), np.log(rate), float(np.log(shape.min()))
    for _ in range(MOST_STEPS):
        top = above + np.exp(t)
        gap = float((np.log(top) - logs).mean()) - goal
        t -= float(np.clip(gap / (np.exp(t) / top).mean(), -LONGEST, LONGEST))
        if abs(gap) < ROUNDING:
            break
    return np.asarray((above + np.exp(t)) / rate)
