"""Zeros and ones: p(x = 1) = σ(z)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayespca.arrays.types import FloatArray

from ..logistic import averages
from ..sites import Measurement
from .likelihood import ExpectedLikelihood, Likelihood, Null, no_parameters


@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """log p(x | z) = xz − log(1 + eᶻ), by the closed forms of `logistic`."""

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
