"""Counts whose variance is their mean: x ~ Poisson(eᶻ)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from bayespca.arrays.types import FloatArray

from .likelihood import ExpectedLikelihood, Likelihood, Null, log_mean, no_parameters

# Larger exponents stand for rates that no count has.
LARGEST = 80.0


def mean_rate(m: FloatArray, v: FloatArray) -> FloatArray:
    """⟨eᶻ⟩ = exp(m + v/2) over z ~ N(m, v)."""
    return np.asarray(np.exp(np.minimum(m + 0.5 * v, LARGEST)))


@dataclass(frozen=True)
class Poisson(Likelihood):
    """log p(x | z) = xz − eᶻ − log x!, whose average is exact with ⟨eᶻ⟩ = exp(m + v/2)."""

    name: str = "poisson"

    def expected(
        self, x: FloatArray, m: FloatArray, v: FloatArray, parameters: FloatArray
    ) -> ExpectedLikelihood:
        rate = mean_rate(m, v)
        return ExpectedLikelihood(x * m - rate - gammaln(x + 1), x - rate, rate)

    def null(self, x: FloatArray, seen: FloatArray, offset: FloatArray) -> Null:
        return Null(log_mean(x, seen, offset), no_parameters(x.shape[1]))

    def mean(self, m: FloatArray, v: FloatArray, parameters: FloatArray) -> FloatArray:
        return mean_rate(m, v)

    def drawn(self, z: FloatArray, parameters: FloatArray, rng: np.random.Generator) -> FloatArray:
        return rng.poisson(np.exp(np.minimum(z, 40.0))).astype(np.float64)


POISSON = Poisson()
