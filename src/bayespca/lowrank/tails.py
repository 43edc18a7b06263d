"""Student's t for rows that have a variance of their own, which scales their noise and scores.

With 1/u ~ Gamma(α, β) and a row normal with covariance u·C, the row is t with 2α degrees of freedom
and the scale matrix (β/α)·C. Infinite α is the normal distribution.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from bayespca.arrays.namespaces import array_namespace
from bayespca.arrays.types import Array, FloatArray
from bayespca.spectrum.tolerances import LOG_2PI


@dataclass(frozen=True)
class Tails:
    """α (`shape`) and β (`rate`) of the gamma distribution of 1/u."""

    shape: float = np.inf
    rate: float = np.inf

    @property
    def are_heavy(self) -> bool:
        """Whether variances differ, so that tails are heavier than normal."""
        return bool(np.isfinite(self.shape))

    @property
    def spread(self) -> float:
        """⟨u⟩ for predictions: β/(α − 1), but never more than 3β/α, three times the typical
        variance, because the mean grows without bound as α falls to 1.
        """
        return float(self._mean(0.0, 0.0)) if self.are_heavy else 1.0

    def spread_given(self, distance: Array, p: FloatArray | float) -> Array:
        """`spread` of rows whose p cells lie at these squared distances from the mean."""
        return self._mean(distance, p) if self.are_heavy else distance * 0 + 1.0

    def _mean(self, distance: Array | float, p: FloatArray | float) -> Array:
        shape = self.shape + 0.5 * p
        return (self.rate + 0.5 * distance) / np.maximum(shape - 1, shape / 3)

    def draws_given(
        self, distance: FloatArray, p: FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        """Draws of √u for rows whose p cells lie at these squared distances from the mean."""
        if not self.are_heavy:
            return np.ones_like(distance)
        return np.sqrt((self.rate + 0.5 * distance) / rng.gamma(self.shape + 0.5 * p))

    def log_density(self, distance: Array, log_det: Array | float, p: Array | float) -> Array:
        """Log density of rows with p cells, from their squared distances xᵀC⁻¹x and log|C|."""
        if not self.are_heavy:
            return -0.5 * (distance + (p * LOG_2PI + log_det))
        xp, a = array_namespace(distance), self.shape
        constant = gammaln(a + 0.5 * p) - gammaln(a) - 0.5 * p * np.log(2 * np.pi * self.rate)
        logs = xp.log1p(distance / (2 * self.rate))
        return constant - 0.5 * log_det - (a + 0.5 * p) * logs

    def draws(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Draws of √u for n rows."""
        if not self.are_heavy:
            return np.ones(n)
        return np.sqrt(self.rate / rng.gamma(self.shape, 1.0, n))


NORMAL = Tails()
