"""Counts with the mean eᶻ: Poisson, or negative binomial where they are overdispersed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betainc, digamma, gammaln, pdtr, polygamma

from bayespca.arrays.types import FloatArray

from .bernoulli import averages
from .likelihood import ExpectedLikelihood, Likelihood, Null, no_parameters

# Larger exponents are clipped: no count has such a rate.
LARGEST = 30.0
LOG_FACTORIALS = gammaln(np.arange(1.0, 1025.0))
# Nodes over which distribution functions are averaged.
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(21)
WEIGHTS /= WEIGHTS.sum()
# Bounds of log r. Above them, counts are practically Poisson, and r·⟨σ⟩ has too few digits.
LEAST, MOST = -5.0, 7.0
# The longest step of log r, and how often a step that lowers the likelihood is halved.
LONGEST, HALVINGS = 1.0, 5


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


@dataclass(frozen=True)
class Poisson(Likelihood):
    """The variance is the mean: log p(x | z) = xz − eᶻ − log x!.

    Its average is exact, as ⟨eᶻ⟩ = exp(m + v/2).
    """

    name: str = "poisson"

    def expected(
        self, x: FloatArray, m: FloatArray, v: FloatArray, parameters: FloatArray
    ) -> ExpectedLikelihood:
        rate = mean_rate(m, v)
        return ExpectedLikelihood(x * m - rate - log_factorial(x), x - rate, rate)

    def null(self, x: FloatArray, seen: FloatArray, offset: FloatArray) -> Null:
        return Null(log_mean(x, seen, offset), no_parameters(x.shape[1]))

    def reach(self, apart: FloatArray) -> FloatArray:
        return log_ratio(apart)

    def mean(self, m: FloatArray, v: FloatArray, parameters: FloatArray) -> FloatArray:
        return mean_rate(m, v)

    def variance(self, z: FloatArray, parameters: FloatArray) -> FloatArray:
        return rate_at(z)

    def quantile(
        self, level: float, m: FloatArray, v: FloatArray, parameters: FloatArray
    ) -> FloatArray:
        return count_quantile(level, m, v, pdtr)

    def drawn(self, z: FloatArray, parameters: FloatArray, rng: np.random.Generator) -> FloatArray:
        return rng.poisson(rate_at(z)).astype(np.float64)


POISSON = Poisson()


@dataclass(frozen=True)
class NegativeBinomial(Likelihood):
    """The variance is eᶻ + e²ᶻ/r. With t = z − log r and σ(t) the probability of one more count,

        log p(x | z) = log Γ(x + r) − log Γ(r) − log x! + xt − (x + r) log(1 + eᵗ),

    whose averages follow from those of the logistic function. The parameter is log r.
    """

    name: str = "negative-binomial"

    def expected(
        self, x: FloatArray, m: FloatArray, v: FloatArray, parameters: FloatArray
    ) -> ExpectedLikelihood:
        log_r = parameters[:, 0]
        r = np.exp(log_r)
        t = m - log_r
        log_norm, probability, slope = averages(t, v)
        total = x + r
        # log Γ(x + r)/(Γ(r)·x!)
        constant = where_counted(x, lambda x, r: gammaln(x + r) - gammaln(r) - gammaln(x + 1), r)
        return ExpectedLikelihood(
            constant + x * t - total * log_norm, x - total * probability, total * slope
        )

    def null(self, x: FloatArray, seen: FloatArray, offset: FloatArray) -> Null:
        """r by moments: mean²/(variance − mean)."""
        mean, count = log_mean(x, seen, offset), np.maximum(seen.sum(axis=0), 1.0)
        rate = np.exp(mean + offset)
        beyond = (seen * ((x - rate) ** 2 - rate)).sum(axis=0) / count
        square = (seen * rate**2).sum(axis=0) / count
        log_r = np.log(square / np.maximum(beyond, np.exp(-MOST) * square))
        return Null(mean, np.clip(log_r, LEAST, MOST)[:, None])

    def reach(self, apart: FloatArray) -> FloatArray:
        return log_ratio(apart)

    def mean(self, m: FloatArray, v: FloatArray, parameters: FloatArray) -> FloatArray:
        return mean_rate(m, v)

    def variance(self, z: FloatArray, parameters: FloatArray) -> FloatArray:
        rate = rate_at(z)
        return np.asarray(rate + rate**2 * np.exp(-parameters[:, 0]))

    def quantile(
        self, level: float, m: FloatArray, v: FloatArray, parameters: FloatArray
    ) -> FloatArray:
        r = np.exp(parameters[:, 0])

        def distribution(k: FloatArray, rate: FloatArray) -> FloatArray:
            return np.where(k < 0, 0.0, betainc(r, np.maximum(k, 0) + 1, r / (r + rate)))

        return count_quantile(level, m, v, distribution)

    def drawn(self, z: FloatArray, parameters: FloatArray, rng: np.random.Generator) -> FloatArray:
        r = np.exp(parameters[:, 0])
        return rng.poisson(rate_at(z) * rng.gamma(r, 1 / r, size=z.shape)).astype(np.float64)

    def updated(
        self, x: FloatArray, m: FloatArray, v: FloatArray, seen: FloatArray, parameters: FloatArray
    ) -> FloatArray:
        """Take a step of Newton's method in log r, shortened where it lowers the likelihood."""

        def value(log_r: FloatArray) -> FloatArray:
            found = self.expected(x, m, v, log_r[:, None]).log_likelihood
            return np.asarray((found * seen).sum(axis=0))

        log_r = parameters[:, 0]
        r, total = np.exp(log_r), x + np.exp(log_r)
        log_norm, probability, slope = averages(m - log_r, v)
        psi = r * where_counted(x, lambda x, r: digamma(x + r) - digamma(r), r)
        trigammas = where_counted(x, lambda x, r: polygamma(1, x + r) - polygamma(1, r), r)
        # First and second derivatives of Σ⟨log p⟩ with respect to log r, for each column.
        down = psi - x - r * log_norm + total * probability
        bent = psi + r * r * trigammas - r * log_norm + 2 * r * probability - total * slope
        first, second = (down * seen).sum(axis=0), (bent * seen).sum(axis=0)
        step = np.clip(first / np.maximum(np.abs(second), 1e-12), -LONGEST, LONGEST)
        before = value(log_r)
        for _ in range(HALVINGS):
            new = np.clip(log_r + step, LEAST, MOST)
            worse = value(new) < before
            if not worse.any():
                return new[:, None]
            step = np.where(worse, 0.5 * step, step)
        return np.where(worse, log_r, new)[:, None]


NEGATIVE_BINOMIAL = NegativeBinomial()
