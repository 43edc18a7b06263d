"""Choice of the likelihood of whole numbers, one column at a time.

Each description of a column's histogram has a log-likelihood and d parameters; the least
−2 log p + d log n wins (Schwarz 1978). Ranks have a probability for each value, counts are Poisson
or negative binomial, and numbers are normal with bins of width 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import optimize
from scipy.special import gammaln

from bayespca.arrays.types import FloatArray
from bayespca.spectrum.tolerances import LOG_2PI

# A column with more different values is not of ranks, and one with larger numbers not of counts:
# they are identifiers, or amounts of money.
MOST_RANKS = 12
LARGEST_COUNT = 1e9


class Histogram(NamedTuple):
    """Distinct whole numbers of at least 0, and how often each occurs."""

    values: FloatArray
    counts: FloatArray

    @property
    def size(self) -> float:
        return float(self.counts.sum())

    @property
    def mean(self) -> float:
        return float(self.values @ self.counts) / self.size

    @property
    def variance(self) -> float:
        return float((self.values - self.mean) ** 2 @ self.counts) / self.size


def likelihood_of_whole(x: FloatArray) -> str:
    """The name of the likelihood of whole numbers of at least 0."""
    if x.max() > LARGEST_COUNT:
        return "normal"
    values, counts = np.unique(x, return_counts=True)
    found = Histogram(values, counts.astype(np.float64))
    costs = _costs_of_counts(found) | {"normal": _schwarz(_normal(found), 2, found.size)}
    if values.size <= MOST_RANKS and np.ptp(values) < MOST_RANKS:
        own = float((counts * np.log(counts / x.size)).sum())
        costs["ordinal"] = _schwarz(own, values.size - 1, found.size)
    return min(costs, key=lambda name: costs[name])


def likelihood_of_counts(found: Histogram) -> str:
    """The name of the likelihood of counts."""
    costs = _costs_of_counts(found)
    return min(costs, key=lambda name: costs[name])


def _costs_of_counts(found: Histogram) -> dict[str, float]:
    return {
        "poisson": _schwarz(_poisson(found), 1, found.size),
        "negative-binomial": _schwarz(_negative_binomial(found), 2, found.size),
    }


def _schwarz(log_likelihood: float, parameters: int, n: float) -> float:
    return -2 * log_likelihood + parameters * float(np.log(n))


def _poisson(found: Histogram) -> float:
    x, mean = found.values, max(found.mean, 1e-9)
    return float((x * np.log(mean) - mean - gammaln(x + 1)) @ found.counts)


def _negative_binomial(found: Histogram) -> float:
    x, mean = found.values, max(found.mean, 1e-9)

    def cost(log_r: float) -> float:
        r = np.exp(log_r)
        chance = gammaln(x + r) - gammaln(r) - gammaln(x + 1)
        each = chance + x * np.log(mean / (r + mean)) + r * np.log(r / (r + mean))
        return -float(each @ found.counts)

    best = optimize.minimize_scalar(cost, bounds=(-5, 10), method="bounded")
    return -float(best.fun)


def _normal(found: Histogram) -> float:
    # The numbers are rounded: no distribution is narrower than a bin, of variance 1/12.
    variance = max(found.variance, 1 / 12)
    return -0.5 * found.size * (LOG_2PI + float(np.log(variance)) + 1)
