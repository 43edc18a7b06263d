"""The eigenvalues of pure noise (Marchenko & Pastur 1967).

Let V be an L×M matrix of independent noise of variance σ². As L and M grow at a fixed ratio
y = L/M, the L eigenvalues of VVᵀ/M follow a density between σ²(1 − √y)² and σ²(1 + √y)². For y > 1,
a share 1 − 1/y of them is zero.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq

from .records import FloatArray


def support(variance: float, ratio: float) -> tuple[float, float]:
    """The interval σ²(1 ∓ √y)² that holds the eigenvalues other than zero."""
    root = float(np.sqrt(ratio))
    return variance * (1 - root) ** 2, variance * (1 + root) ** 2


def density(x: FloatArray, variance: float, ratio: float) -> FloatArray:
    """√((b − x)(x − a)) / (2πσ²yx) on the support (a, b); its mass is min(1, 1/y)."""
    # In units of the noise: squares of variances may leave the range of floating-point numbers.
    a, b = support(1.0, ratio)
    at = x / variance
    at = np.where((at > a) & (at < b), at, b)
    return np.sqrt((b - at) * (at - a)) / (2 * np.pi * ratio * at) / variance


def density_of_nonzero(x: FloatArray, variance: float, ratio: float) -> FloatArray:
    """`density` among the min(L, M) eigenvalues that the shape does not make zero: mass 1."""
    return density(x, variance, ratio) * max(1.0, ratio)


def largest_singular_value(variance: float, shape: tuple[float, float]) -> float:
    """σ(√L + √M): the edge of the support as a singular value of V."""
    L, M = shape
    return float(np.sqrt(variance) * (np.sqrt(L) + np.sqrt(M)))


@lru_cache(maxsize=256)
def marchenko_pastur_median(beta: float) -> float:
    """The median of the Marčenko–Pastur law of eigenvalues, ratio β ≤ 1, noise 1.

    With x = lower + width·sin²θ its density √((upper − x)(x − lower))/(2πβx) is smooth in θ.

    >>> from bayespca.spectrum import marchenko_pastur_median
    >>> round(marchenko_pastur_median(1.0), 3)
    0.653
    """
    lower, width = (1 - np.sqrt(beta)) ** 2, 4 * np.sqrt(beta)

    def density(theta: float) -> float:
        sin2, cos2 = np.sin(theta) ** 2, np.cos(theta) ** 2
        if lower == 0:
            return float(width * cos2 / (np.pi * beta))
        return float(width**2 * sin2 * cos2 / (np.pi * beta * (lower + width * sin2)))

    theta = brentq(lambda t: quad(density, 0, t)[0] - 0.5, 0, np.pi / 2, xtol=1e-14)
    return float(lower + width * np.sin(theta) ** 2)


def quantiles(ratio: float, shares: FloatArray) -> FloatArray:
    """Quantiles of the eigenvalues other than zero, in units of σ² where L ≤ M."""
    y = min(ratio, 1 / ratio)
    lower, width = support(1.0, y)[0], 4 * np.sqrt(y)
    theta = (np.arange(512) + 0.5) / 512 * np.pi / 2
    x = lower + width * np.sin(theta) ** 2
    mass = np.cumsum((np.sin(theta) * np.cos(theta)) ** 2 / x)
    return np.asarray(np.interp(shares, mass / mass[-1], x))


def lower_means(ratios: FloatArray, share: float) -> FloatArray:
    """∫ t f(t) dt of the density f up to the quantile `share`, noise 1, for ratios of at most 1.

    The smallest L·share eigenvalues of VVᵀ add up to this times LMσ².
    """
    return np.interp(ratios, *_lower_means(share))


@lru_cache(maxsize=8)
def _lower_means(share: float) -> tuple[FloatArray, FloatArray]:
    """Ratios between 0 and 1, and the integrals for them."""
    ratios = np.linspace(0.0, 1.0, 257)
    root = np.sqrt(ratios)[:, None]
    theta = (np.arange(2048) + 0.5) / 2048 * np.pi / 2
    t = (1 - root) ** 2 + 4 * root * np.sin(theta) ** 2
    # f(t) dt up to a constant.
    density = np.sin(2 * theta) ** 2 / t
    below, moments = np.cumsum(density, axis=1), np.cumsum(density * t, axis=1)
    whole = below[:, -1:]
    rows = zip(below / whole, moments / whole, strict=True)
    return ratios, np.array([np.interp(share, shares, moment) for shares, moment in rows])
