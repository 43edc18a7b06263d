"""Which likelihood whole numbers have: what a column by itself prefers.

Each way to describe the histogram of a column has a log-likelihood and a number of parameters d;
the least −2 log p + d log n wins (Schwarz 1978). Ranks have a probability for each value, counts
are Poisson's or negative binomial, and numbers are normal with bins of width 1.
"""

from __future__ import annotations

import numpy as np
from scipy import optimize
from scipy.special import gammaln

from bayespca.arrays.types import FloatArray
from bayespca.spectrum.tolerances import LOG_2PI

# More different values than these are no ranks, and larger numbers no counts: identifiers, or
# amounts of money.
MOST_RANKS = 12
LARGEST_COUNT = 1e9


def likelihood_of_whole(x: FloatArray) -> str:
    """The name of the likelihood of whole numbers of at least 0."""
    if x.max() > LARGEST_COUNT:
        return "normal"
    costs = {
        "poisson": _schwarz(_poisson(x), 1, x.size),
        "negative-binomial": _schwarz(_negative_binomial(x), 2, x.size),
        "normal": _schwarz(_normal(x), 2, x.size),
    }
    values, counts = np.unique(x, return_counts=True)
    if values.size <= MOST_RANKS and np.ptp(values) < MOST_RANKS:
        own = float((counts * np.log(counts / x.size)).sum())
        costs["ordinal"] = _schwarz(own, values.size - 1, x.size)
    return min(costs, key=lambda name: costs[name])


def _schwarz(log_likelihood: float, parameters: int, n: int) -> float:
    return -2 * log_likelihood + parameters * float(np.log(n))


def _poisson(x: FloatArray) -> float:
    mean = max(float(x.mean()), 1e-9)
    return float((x * np.log(mean) - mean - gammaln(x + 1)).sum())


def _negative_binomial(x: FloatArray) -> float:
    mean = max(float(x.mean()), 1e-9)

    def cost(log_r: float) -> float:
        r = np.exp(log_r)
        chance = gammaln(x + r) - gammaln(r) - gammaln(x + 1)
        return -float((chance + x * np.log(mean / (r + mean)) + r * np.log(r / (r + mean))).sum())

    found = optimize.minimize_scalar(cost, bounds=(-5, 10), method="bounded")
    return -float(found.fun)


def _normal(x: FloatArray) -> float:
    # Numbers are rounded to whole ones: no distribution of them is narrower than a bin.
    variance = max(float(x.var()), 1 / 12)
    return -0.5 * x.size * (LOG_2PI + float(np.log(variance))) - 0.5 * x.size
