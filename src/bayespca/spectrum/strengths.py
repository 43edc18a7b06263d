"""The prior of components: how many there are, and how strong they are.

Components are a Poisson process. Their number has mean 2, and their strengths in units of the
detection limit are half-Cauchy, cut off at 1. The scale is one of two, equally probable:
where the components that are certain are strong, there are few weak ones besides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from .records import FloatArray

Ranks = NDArray[np.int64]

# Scales of the half-Cauchy prior of strengths, in units of the detection limit.
SCALES = (2.0, 8.0)
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
    """A grid of strengths v with s = v/(1 + v).

    `log_prior` has the log prior of each times its width: a row for each of `SCALES`. Those from
    index `strong` on are recoverable.
    """

    v: FloatArray
    s: FloatArray
    log_prior: FloatArray
    strong: int


def recoverable_strength(L: float, M: float) -> float:
    """The strength from which a component can be recovered: its direction is more than half right.

    Of the direction that is found, on the shorter side of an L×M matrix, a share of
    (1 − α/τ²)/(1 + α/τ) lies in the true one (Paul 2007; Benaych-Georges and Nadakuditi 2012),
    where α is the ratio of the sides and v = τ·max(1, L/M). It is one half at τ² − ατ − 2α = 0,
    which is √2 to 2 times the detection limit.

    >>> from bayespca.spectrum import recoverable_strength
    >>> round(recoverable_strength(12, 99), 2)
    0.56
    """
    alpha = min(L, M) / max(L, M)
    tau = 0.5 * (alpha + math.sqrt(alpha * alpha + 8 * alpha))
    return tau * max(1.0, L / M)


def strengths(L: float, M: float, largest: float) -> Strengths:
    """Equal steps in log(1 + v), in which a strong component has the same width everywhere.

    There are steps from the limit to the recoverable strength, and from there on.
    """
    limit, width = float(np.sqrt(L / M)), np.sqrt(2 / M)
    low, cut = np.log1p(limit), np.log1p(recoverable_strength(L, M))
    high = max(np.log(max(largest / M, 1.0)), cut) + 6 * width + 12 / (M / 2 + 1)
    below, above = (
        int(np.clip(np.ceil(span / (STEP * width)), FEWEST // 2, LARGEST_GRID // 2))
        for span in (cut - low, high - cut)
    )
    steps = np.repeat([(cut - low) / below, (high - cut) / above], [below, above])
    u = low + np.cumsum(steps) - 0.5 * steps
    v = np.expm1(u)
    return Strengths(v, v / (1 + v), log_density(u, limit) + np.log(steps), below)


def log_density(u: FloatArray, limit: float) -> FloatArray:
    """Log of the prior density of u = log(1 + v): half-Cauchy in v/limit beyond 1.

    The first axis are `SCALES`.
    """
    scale = np.reshape(SCALES, (-1, *(1,) * u.ndim))
    mass = scale * (np.pi / 2 - np.arctan(1 / scale))
    return np.asarray(u - np.log1p((np.expm1(u) / limit / scale) ** 2) - np.log(mass * limit))
