"""The order of the autoregression of noise along the features."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq

from bayespca.arrays.types import FloatArray
from bayespca.lowrank.filtering import longer

from .squares import LARGEST_PARTIAL, Products

# The highest order, and the most operations p·q² that the variances of p columns may take in a
# round: beyond these, it takes many times as long as one with order one.
HIGHEST, MOST_WORK = 64, 1e7
# Nats that an order may gain for each nat that it promises: found 0.1 to 1.7 on spectra, images
# and panels.
MOST_GAINED = 2.0


def highest_order(p: int) -> int:
    """The highest power of two that is tried as the order for p features."""
    most = min(HIGHEST, p - 1, int(math.sqrt(MOST_WORK / p)))
    return 1 << (max(most, 1).bit_length() - 1)


def most_promising_order(left: Products, price: float) -> tuple[int, float]:
    """The power of two that promises the most evidence as the order, given products of neighbours
    in the residuals, if each partial autocorrelation has this price in nats; and that evidence.
    """
    gains = np.cumsum(gains_of_partials(left) - price)
    orders = 2 ** np.arange(gains.size.bit_length())
    best = int(orders[gains[orders - 1].argmax()])
    return best, float(gains[best - 1])


def gains_of_partials(left: Products) -> FloatArray:
    """Nats that each partial autocorrelation κᵢ gains, one after the other, over those before it.

    With N products in each sum and the variance that is best for each order, κᵢ minimises
    ½Np·log βᵀDβ − ½N Σᵢ i·log(1 − κᵢ²) (Kay, "Recursive maximum likelihood estimation of
    autoregressive processes", IEEE Transactions on Acoustics, Speech, and Signal Processing 31,
    1983). Autocovariances alone would not do where noise is smooth: what is missing at the ends of
    the features exceeds the small errors of long predictions.
    """
    D, p, weights = left.of_predictions(), left.own.size, np.ones(1)
    gains = np.zeros(len(left.beside))
    for i in range(1, gains.size + 1):
        both = np.array([np.append(weights, 0.0), np.append(0.0, -weights[::-1])])
        (before, cross), (_, square) = both @ D[: i + 1, : i + 1] @ both.T
        kappa = _best_partial(before, cross, square, p / i)
        after = before + 2 * kappa * cross + kappa**2 * square
        if not min(before, after) > 0:
            # Rounding errors are all that is left to predict.
            break
        fall = p * np.log(before / after) + i * np.log1p(-kappa * kappa)
        gains[i - 1], weights = 0.5 * left.number * fall, longer(weights, kappa)
    return gains


def _best_partial(before: float, cross: float, square: float, share: float) -> float:
    """κ that minimises share·log(before + 2κ·cross + κ²·square) − log(1 − κ²)."""

    def slope(kappa: float) -> float:
        rise = share * (cross + kappa * square) * (1 - kappa**2)
        return rise + kappa * (before + 2 * kappa * cross + kappa**2 * square)

    # The slope is negative at −1 and positive at 1, but for rounding errors.
    least, most = -LARGEST_PARTIAL, LARGEST_PARTIAL
    if slope(least) >= 0 or slope(most) <= 0:
        return least if slope(least) >= 0 else most
    return float(brentq(slope, least, most))
