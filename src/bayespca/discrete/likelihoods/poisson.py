"""Counts whose variance is their mean: x ~ Poisson(eᶻ)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import pdtr

from bayespca.arrays.types import FloatArray

from .counting import (
    count_quantile,
    log_factorial,
    log_mean,
    log_ratio,
    mean_rate,
    rate_at,
)
from .likelihood import ExpectedLikelihood, Likelihood, Null, no_parameters


@dataclass(frozen=True)
class Poisson(Likelihood):
    """log p(x | z) = xz − eᶻ − log x!; its average is exact, as ⟨eᶻ⟩ = exp(m + v/2)."""

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
