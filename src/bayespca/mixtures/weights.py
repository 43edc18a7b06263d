"""Weights of clusters: their Dirichlet distribution, or a point estimate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, gammaln, xlogy

from bayespca.arrays.types import FloatArray
from bayespca.spectrum.tolerances import TINY


@dataclass(frozen=True)
class Dirichlet:
    """Weights π ~ Dir(α₀, …, α₀), integrated out: given counts N, r(π) = Dir(α₀ + N)."""

    concentration: float

    def expected_logs(self, counts: FloatArray) -> FloatArray:
        """⟨log πₖ⟩ = ψ(α₀ + Nₖ) − ψ(Kα₀ + N)."""
        alpha = self.concentration + counts
        return np.asarray(digamma(alpha) - digamma(alpha.sum()))

    def means(self, counts: FloatArray) -> FloatArray:
        alpha = self.concentration + counts
        return alpha / alpha.sum()

    def cost(self, counts: FloatArray) -> float:
        """KL(π) − Σ Nₖ⟨log πₖ⟩ = log B(α₀, …, α₀) − log B(α₀ + N)."""
        return float(self.cluster_costs(counts).sum()) + self.total_cost(counts)

    def cluster_costs(self, counts: FloatArray) -> FloatArray:
        """The part of `cost` that each cluster contributes: log Γ(α₀) − log Γ(α₀ + Nₖ)."""
        return np.asarray(gammaln(self.concentration) - gammaln(self.concentration + counts))

    def total_cost(self, counts: FloatArray) -> float:
        """The part of `cost` that all clusters share: log Γ(Kα₀ + N) − log Γ(Kα₀)."""
        whole = counts.size * self.concentration
        return float(gammaln(whole + counts.sum()) - gammaln(whole))


@dataclass(frozen=True)
class PointWeights:
    """Maximum likelihood: πₖ = Nₖ/N."""

    def expected_logs(self, counts: FloatArray) -> FloatArray:
        return log_weights(self.means(counts))

    def means(self, counts: FloatArray) -> FloatArray:
        return counts / counts.sum()

    def cost(self, counts: FloatArray) -> float:
        """−Σ Nₖ log πₖ"""
        return -float(counts @ self.expected_logs(counts))

    def cluster_costs(self, counts: FloatArray) -> FloatArray:
        """The part of `cost` that each cluster contributes: −Nₖ log Nₖ."""
        return -np.asarray(xlogy(counts, counts), np.float64)


Weights = Dirichlet | PointWeights


def log_weights(weights: FloatArray) -> FloatArray:
    """log π, finite where π is 0."""
    return np.log(np.maximum(weights, TINY))
