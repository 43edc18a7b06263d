"""Predictive distributions of single cells whose noise variance is uncertain itself."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special, stats

# Points at which a precision is integrated over, and the probability beyond them.
POINTS, BEYOND = 201, 1e-15


@dataclass(frozen=True)
class StudentT:
    """x ~ N(mean, variance/τ) with τ ~ Gamma(shape, shape); normal where the shape is infinite."""

    variance: np.ndarray
    shape: np.ndarray

    def log_density(self, errors: np.ndarray) -> np.ndarray:
        """Log density of cells at such distances from their means."""
        return np.asarray(self._of_errors.logpdf(errors))

    def inside(self, errors: np.ndarray, share: float = 0.95) -> np.ndarray:
        """Whether cells lie in the central interval that has such a share."""
        return np.abs(self._of_errors.cdf(errors) - 0.5) <= 0.5 * share

    @property
    def _of_errors(self) -> Any:
        return stats.t(2 * self.shape, scale=np.sqrt(self.variance))


@dataclass(frozen=True)
class NormalAndT:
    """x ~ N(mean, fixed + variance/τ) with τ ~ Gamma(shape, shape), one shape for all cells."""

    fixed: np.ndarray
    variance: np.ndarray
    shape: float

    def log_density(self, errors: np.ndarray) -> np.ndarray:
        total = self._variances
        at = -0.5 * (np.log(2 * np.pi * total) + errors[:, None] ** 2 / total)
        return np.asarray(special.logsumexp(self._points[1] + at, axis=1))

    def inside(self, errors: np.ndarray, share: float = 0.95) -> np.ndarray:
        below = stats.norm.cdf(errors[:, None] / np.sqrt(self._variances))
        return np.abs(below @ np.exp(self._points[1]) - 0.5) <= 0.5 * share

    @property
    def _variances(self) -> np.ndarray:
        return self.fixed[:, None] + self.variance[:, None] * np.exp(-self._points[0])

    @cached_property
    def _points(self) -> tuple[np.ndarray, np.ndarray]:
        """log τ, and logarithms of the weights there."""
        a = self.shape
        low = np.log(special.gammaincinv(a, BEYOND) / a)
        high = np.log(special.gammainccinv(a, BEYOND) / a)
        nodes, weights = np.polynomial.legendre.leggauss(POINTS)
        half = 0.5 * (high - low)
        logs = low + half * (1 + nodes)
        density = a * (np.log(a) + logs - np.exp(logs)) - special.gammaln(a)
        return logs, np.log(half * weights) + density


def typical(variance: np.ndarray, shape: np.ndarray | float) -> np.ndarray:
    """The variance at τ = 1 of one that is a mean over τ, as `BayesianPCA.impute` has it: where it
    has hardly a bound, three times the typical one.
    """
    return variance * np.maximum(shape - 1, shape / 3) / shape
