"""Zeros and ones, p(x = 1) = σ(z), by averages of the logistic function in closed form.

The logistic function is, to 2·10⁻⁹ everywhere, a mixture of normal distribution functions,

    σ(z) = Σ_k p_k Φ(s_k z)                                  (Monahan and Stefanski 1992),

so that with z ~ N(m, v), u_k = s_k m / t_k and t_k = √(1 + s_k² v)

    ⟨σ(z)⟩ = Σ p_k Φ(u_k),   ⟨σ'(z)⟩ = Σ p_k s_k φ(u_k)/t_k,
    ⟨log(1 + eᶻ)⟩ = Σ p_k (m Φ(u_k) + t_k φ(u_k)/s_k),

and the derivatives of the last with respect to m and v are exactly the first and half the second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from bayespca.arrays.types import FloatArray

from .likelihood import ExpectedLikelihood, Likelihood, Measurement, Null, no_parameters

SHARES = (
    *(0.003246343272134, 0.051517477033972, 0.195077912673858, 0.315569823632818),
    *(0.274149576158423, 0.131076880695470, 0.027912418727972, 0.001449567805354),
)
SLOPES = (
    *(1.365340806296348, 1.059523971016916, 0.830791313765644, 0.650732166639391),
    *(0.508135425366489, 0.396313345166341, 0.308904252267995, 0.238212616409306),
)
# Cells computed at a time: their arrays stay in a core's cache.
CHUNK = 1 << 12
ROOT_2PI = float(np.sqrt(2 * np.pi))


class Averages(NamedTuple):
    """⟨log(1 + eᶻ)⟩, ⟨σ(z)⟩ and ⟨σ'(z)⟩ of each cell."""

    log_norm: FloatArray
    probability: FloatArray
    slope: FloatArray


def averages(mean: FloatArray, variance: FloatArray) -> Averages:
    """Averages over z ~ N(mean, variance), each with the shape of `mean`."""
    m, v = mean.ravel(), variance.ravel()
    found = np.zeros((3, m.size))
    for first in range(0, m.size, CHUNK):
        some = slice(first, first + CHUNK)
        log_norm, probability, slope = found[:, some]
        for p, s in zip(SHARES, SLOPES, strict=True):
            t = np.sqrt(1 + s * s * v[some])
            u = s * m[some] / t
            density = p / ROOT_2PI * np.exp(-0.5 * u * u)
            probability += p * ndtr(u)
            slope += s * density / t
            log_norm += t * density / s
        log_norm += m[some] * probability
    return Averages(*(values.reshape(mean.shape) for values in found))


@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """log p(x | z) = xz − log(1 + eᶻ), by its closed forms."""

    name: str = "bernoulli"

    def expected(
        self, x: FloatArray, m: FloatArray, v: FloatArray, parameters: FloatArray
    ) -> ExpectedLikelihood:
        log_norm, probability, slope = averages(m, v)
        return ExpectedLikelihood(x * m - log_norm, x - probability, slope)

    def null(self, x: FloatArray, seen: FloatArray, offset: FloatArray) -> Null:
        """The logit of the share of ones, with half a cell of each kind added."""
        shares = (x.sum(axis=0) + 0.5) / (seen.sum(axis=0) + 1.0)
        return Null(np.log(shares / (1 - shares)), no_parameters(x.shape[1]))

    def mean(self, m: FloatArray, v: FloatArray, parameters: FloatArray) -> FloatArray:
        return averages(m, v).probability

    def variance(self, z: FloatArray, parameters: FloatArray) -> FloatArray:
        p = averages(z, np.zeros_like(z)).probability
        return np.asarray(p * (1 - p))

    def quantile(
        self, level: float, m: FloatArray, v: FloatArray, parameters: FloatArray
    ) -> FloatArray:
        return (1 - averages(m, v).probability < level).astype(np.float64)

    def augmented(
        self, x: FloatArray, z: FloatArray, parameters: FloatArray, rng: np.random.Generator
    ) -> Measurement:
        """σ(z)ˣσ(−z)¹⁻ˣ = ½⟨exp((x − ½)z − ½ωz²)⟩ over ω ~ PG(1, 0)."""
        from ..polya_gamma import polya_gamma

        return Measurement(polya_gamma(z, rng), x - 0.5)

    def drawn(self, z: FloatArray, parameters: FloatArray, rng: np.random.Generator) -> FloatArray:
        probability = averages(z, np.zeros_like(z)).probability
        return (rng.random(z.shape) < probability).astype(np.float64)


BERNOULLI = Bernoulli()
