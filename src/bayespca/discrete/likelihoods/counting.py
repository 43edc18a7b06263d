"""Functions shared by the likelihoods of counts: rates eᶻ, logarithms of means, quantiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import gammaln

from bayespca.arrays.types import FloatArray

# Larger exponents are clipped: no count has such a rate.
LARGEST = 30.0
LOG_FACTORIALS = gammaln(np.arange(1.0, 1025.0))
# Nodes over which distribution functions are averaged.
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(21)
WEIGHTS /= WEIGHTS.sum()


def mean_rate(m: FloatArray, v: FloatArray) -> FloatArray:
    """⟨eᶻ⟩ = exp(m + v/2) over z ~ N(m, v)."""
    return np.asarray(np.exp(np.minimum(m + 0.5 * v, LARGEST)))


def rate_at(z: FloatArray) -> FloatArray:
    return np.asarray(np.exp(np.minimum(z, LARGEST)))


def log_factorial(x: FloatArray) -> FloatArray:
    """log x!, from a table if all counts are in it: every sweep evaluates it for all cells."""
    if x.max(initial=0.0) < LOG_FACTORIALS.size:
        return np.asarray(LOG_FACTORIALS[x.astype(np.intp)])
    return np.asarray(gammaln(x + 1))


def where_counted(x: FloatArray, function: Callable[..., FloatArray], *others: Any) -> FloatArray:
    """f(x) where x is not 0, and 0 elsewhere: most counts are often zeros.

    `others` have one number for each column; f gets that of the column of each x.
    """
    there = np.nonzero(x)
    found = np.zeros(x.shape)
    found[there] = function(x[there], *(np.asarray(each)[there[1]] for each in others))
    return found


def log_mean(x: FloatArray, seen: FloatArray, offset: FloatArray) -> FloatArray:
    """Logarithm of the mean count of each column, with one more cell of half a count added."""
    exposure = (seen * np.exp(offset)).sum(axis=0)
    return np.asarray(np.log((x.sum(axis=0) + 0.5) / (exposure + 1.0)))


def log_ratio(apart: FloatArray) -> FloatArray:
    """log(x/λ) of counts given x/λ − 1, and at least log ¼."""
    return np.log1p(np.maximum(apart, -0.75))


def count_quantile(
    level: float,
    m: FloatArray,
    v: FloatArray,
    distribution: Callable[[FloatArray, FloatArray], FloatArray],
) -> FloatArray:
    """The least k with ⟨p(x ≤ k | z)⟩ ≥ level; `distribution` is p(x ≤ k) of k and the rate."""

    def reached(k: FloatArray) -> np.ndarray:
        parts = (
            w * distribution(k, rate_at(m + np.sqrt(v) * t))
            for t, w in zip(NODES, WEIGHTS, strict=True)
        )
        return np.asarray(sum(parts) >= level)

    low, high = np.full(m.shape, -1.0), np.ceil(mean_rate(m, v))
    while (short := ~reached(high)).any():
        low, high = np.where(short, high, low), np.where(short, 2 * high + 1, high)
    while (high - low > 1).any():
        middle = np.floor(0.5 * (low + high))
        enough = reached(middle)
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high
