"""Probability that a singular value was missed (see the package for the inequality)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betainc, betaincinv


@dataclass(frozen=True)
class Chance:
    """Probability that a singular value was missed, given the largest Ritz value left.

    `ratio` is γ²/θ², the square of the smallest value that must not be missed over that of the Ritz
    value; `n_spent` and `log_damping` are the products and the growth that settled vectors cost.
    """

    ratio: float
    block: int
    n_directions: int
    n_candidates: float
    max_miss: float
    n_spent: float
    log_damping: float

    @property
    def _shape(self) -> tuple[float, float]:
        return 0.5 * self.block, 0.5 * max(self.n_directions - 1, 1)

    @property
    def _rate(self) -> float:
        """Growth per product, as a logarithm."""
        return float(np.arcsinh(np.sqrt(max(self.ratio - 1, 0.0))))

    def missed_after(self, n_products: int) -> float:
        """An upper bound on the probability, after this many products with a full block."""
        exponent = max(n_products - self.n_spent, 0.0) * min(self._rate, 50.0)
        growth = np.sinh(min(exponent, 300.0)) * np.exp(self.log_damping)
        return min(1.0, self.n_candidates * float(betainc(*self._shape, 1 / (1 + growth**2))))

    def products_needed(self) -> float:
        """Number of products it takes to be sure, if the Ritz value stays."""
        level = float(betaincinv(*self._shape, min(self.max_miss / self.n_candidates, 1.0)))
        growth = np.sqrt(1 / level - 1) * np.exp(-self.log_damping)
        return self.n_spent + float(np.arcsinh(growth)) / max(self._rate, 1e-9)
