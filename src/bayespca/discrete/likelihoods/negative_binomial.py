"""Overdispersed counts: mean eᶻ and variance eᶻ + e²ᶻ/r, with an r for each column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betainc, digamma, gammaln, polygamma

from bayespca.arrays.types import FloatArray

from ..logistic import averages
from .counting import count_quantile, log_mean, log_ratio, mean_rate, rate_at, where_counted
from .likelihood import ExpectedLikelihood, Likelihood, Null

# Bounds of log r. Above them, counts are practically Poisson, and r·⟨σ⟩ has too few digits.
LEAST, MOST = -5.0, 7.0
# The longest step of log r, and how often a step that lowers the likelihood is halved.
LONGEST, HALVINGS = 1.0, 5


@dataclass(frozen=True)
class NegativeBinomial(Likelihood):
    """With t = z − log r and σ(t) the probability of one more count,

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
        constant = where_counted(x, _log_ways, r)
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
        first, second = _derivatives(x, m, v, seen, log_r)
        step = np.clip(first / np.maximum(np.abs(second), 1e-12), -LONGEST, LONGEST)
        before = value(log_r)
        for _ in range(HALVINGS):
            new = np.clip(log_r + step, LEAST, MOST)
            worse = value(new) < before
            if not worse.any():
                return new[:, None]
            step = np.where(worse, 0.5 * step, step)
        return np.where(worse, log_r, new)[:, None]


def _log_ways(x: FloatArray, r: FloatArray) -> FloatArray:
    """log Γ(x + r)/(Γ(r)·x!)"""
    return np.asarray(gammaln(x + r) - gammaln(r) - gammaln(x + 1))


def _of_digammas(x: FloatArray, r: FloatArray) -> FloatArray:
    return np.asarray(digamma(x + r) - digamma(r))


def _of_trigammas(x: FloatArray, r: FloatArray) -> FloatArray:
    return np.asarray(polygamma(1, x + r) - polygamma(1, r))


def _derivatives(
    x: FloatArray, m: FloatArray, v: FloatArray, seen: FloatArray, log_r: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """First and second derivatives of Σ⟨log p⟩ with respect to log r, for each column."""
    r = np.exp(log_r)
    log_norm, probability, slope = averages(m - log_r, v)
    total = x + r
    psi = r * where_counted(x, _of_digammas, r)
    first = psi - x - r * log_norm + total * probability
    curvature = r * r * where_counted(x, _of_trigammas, r)
    second = psi + curvature - r * log_norm + 2 * r * probability - total * slope
    return (first * seen).sum(axis=0), (second * seen).sum(axis=0)


NEGATIVE_BINOMIAL = NegativeBinomial()
