"""The prior of components: how many there are, and how strong they are.

Components are a Poisson process. Their number has mean 2, and their strengths in units of the
detection limit are half-Cauchy with scale 2, cut off at 1. So the probability of a weak one does
not depend on the number of strong ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from .records import FloatArray

Ranks = NDArray[np.int64]

# Scale of the half-Cauchy prior of strengths, in units of the detection limit.
SCALE = 2.0
# Mean of the Poisson prior of their number.
MEAN = 2.0
# Steps of the grid of strengths, in standard deviations of a strong one's logarithm.
STEP = 0.7
FEWEST, LARGEST_GRID = 24, 400


def log_prior(ranks: Ranks | int) -> FloatArray:
    """Log of the Poisson prior of the ranks, up to a constant."""
    return np.asarray(ranks * np.log(MEAN) - gammaln(ranks + 1))


@dataclass(frozen=True)
class Strengths:
    """A grid of strengths v with s = v/(1 + v), and log prior times width of each."""

    v: FloatArray
    s: FloatArray
    log_prior: FloatArray


def strengths(limit: float, M: float, largest: float) -> Strengths:
    """Equal steps in log(1 + v), in which a strong component has the same width everywhere."""
    width, low = np.sqrt(2 / M), np.log1p(limit)
    high = max(np.log(max(largest / M, 1.0)), low) + 6 * width + 12 / (M / 2 + 1)
    n = int(np.clip(np.ceil((high - low) / (STEP * width)), FEWEST, LARGEST_GRID))
    u = low + (high - low) * (np.arange(n) + 0.5) / n
    v = np.expm1(u)
    return Strengths(v, v / (1 + v), log_density(u, limit) + np.log((high - low) / n))


def log_density(u: FloatArray, limit: float) -> FloatArray:
    """Log of the prior density of u = log(1 + v): half-Cauchy in v/limit beyond 1."""
    t = np.expm1(u) / limit
    mass = SCALE * (np.pi / 2 - np.arctan(1 / SCALE))
    return np.asarray(u - np.log1p((t / SCALE) ** 2) - np.log(mass * limit))
