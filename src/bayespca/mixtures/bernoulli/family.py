"""Estimates of π and p from sums over rows: maximum likelihood, or their posteriors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, psi

from bayespca.arrays.types import FloatArray
from bayespca.mixtures.weights import Dirichlet, PointWeights, log_weights
from bayespca.spectrum.tolerances import LEAST_PROBABILITY, TINY


@dataclass(frozen=True, eq=False)
class BernoulliSums:
    """Sums over rows weighted by responsibilities: Σ_n q_nk (K,), Σ_n q_nk x_nd and
    Σ_n q_nk over the rows in which d is observed (both K, p).
    """

    sizes: FloatArray
    ones: FloatArray
    seen: FloatArray

    @property
    def zeros(self) -> FloatArray:
        """Σ_n q_nk (1 − x_nd), kept from going negative by rounding."""
        return np.maximum(self.seen - self.ones, 0.0)

    def only(self, which: NDArray[np.intp] | NDArray[np.bool_]) -> BernoulliSums:
        return BernoulliSums(self.sizes[which], self.ones[which], self.seen[which])

    def paired(self, k: NDArray[np.intp], l: NDArray[np.intp]) -> BernoulliSums:
        """Sums of each pair of clusters k, l taken as one."""
        return BernoulliSums(*(a[k] + a[l] for a in (self.sizes, self.ones, self.seen)))

    def merged(self, k: int, l: int) -> BernoulliSums:
        """Merge cluster l into cluster k."""
        into = [a.copy() for a in (self.sizes, self.ones, self.seen)]
        for a in into:
            a[k] += a[l]
        return BernoulliSums(*into).only(np.arange(self.sizes.size) != l)


@dataclass(frozen=True, eq=False)
class BernoulliLogs:
    """Logarithms, or their expectations, of π (K,), of p and of 1 − p (both K, p)."""

    weights: FloatArray
    ones: FloatArray
    zeros: FloatArray

    @classmethod
    def of(cls, weights: FloatArray, means: FloatArray) -> BernoulliLogs:
        """Logarithms of given π and p."""
        p = np.clip(means, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
        return cls(log_weights(weights), np.log(p), np.log1p(-p))

    def only(self, which: NDArray[np.bool_]) -> BernoulliLogs:
        return BernoulliLogs(self.weights[which], self.ones[which], self.zeros[which])


@dataclass(frozen=True)
class MaximumLikelihood:
    """π_k = Σ_n q_nk / N, p_kd = Σ_n q_nk x_nd / Σ_n q_nk (lecture, the M step).

    The number of clusters is given: none is dropped.
    """

    drops: ClassVar[bool] = False

    def merged(self, sums: BernoulliSums) -> BernoulliSums | None:
        return None

    def logs(self, sums: BernoulliSums) -> BernoulliLogs:
        weights, means, _ = self.averages(sums)
        return BernoulliLogs.of(weights, means)

    def cost(self, sums: BernoulliSums) -> float:
        """−⟨log likelihood⟩ of the rows and their cluster assignments."""
        return -product(sums, self.logs(sums))

    def averages(self, sums: BernoulliSums) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means of π and p, and the standard deviations of p."""
        means = np.where(sums.seen > 0, sums.ones / np.maximum(sums.seen, TINY), 0.5)
        means = np.clip(means, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
        return PointWeights().means(sums.sizes), means, np.zeros_like(means)


@dataclass(frozen=True)
class Bayes:
    """π ~ Dirichlet(α₀, …, α₀) and p_kd ~ Beta(a₀, b₀): `concentration`, `ones` and `zeros`.

    Clusters that the data do not support are dropped.
    """

    concentration: float
    ones: float = 1.0
    zeros: float = 1.0
    drops: ClassVar[bool] = True

    @property
    def weights(self) -> Dirichlet:
        return Dirichlet(self.concentration)

    def merged(self, sums: BernoulliSums) -> BernoulliSums | None:
        """Sums with two clusters merged: the pair for which the free energy falls most, or rises
        least, if each row belongs to one cluster only.
        """
        k, l = np.triu_indices(sums.sizes.size, 1)
        if not k.size:
            return None
        of_each, of_pairs = self.cluster_costs(sums), self.cluster_costs(sums.paired(k, l))
        best = int(np.argmin(of_pairs - of_each[k] - of_each[l]))
        return sums.merged(int(k[best]), int(l[best]))

    def logs(self, sums: BernoulliSums) -> BernoulliLogs:
        """⟨log π_k⟩ = ψ(α_k) − ψ(Σα), ⟨log p⟩ = ψ(a) − ψ(a + b), ⟨log(1 − p)⟩ = ψ(b) − ψ(a + b)"""
        a, b = self._posterior(sums)
        both = psi(a + b)
        return BernoulliLogs(self.weights.expected_logs(sums.sizes), psi(a) - both, psi(b) - both)

    def cost(self, sums: BernoulliSums) -> float:
        """−log ∫ p(π, p) exp⟨log likelihood⟩ d(π, p): ratios of normalising constants."""
        return float(self.cluster_costs(sums).sum() + self.weights.total_cost(sums.sizes))

    def cluster_costs(self, sums: BernoulliSums) -> FloatArray:
        """The part of `cost` that each cluster contributes: (K,)."""
        a, b = self._posterior(sums)
        of_cells = (betaln(a, b) - betaln(self.ones, self.zeros)).sum(axis=1)
        return np.asarray(self.weights.cluster_costs(sums.sizes) - of_cells)

    def averages(self, sums: BernoulliSums) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means of π and p, and the standard deviations of p."""
        a, b = self._posterior(sums)
        means = a / (a + b)
        std = np.sqrt(means * (1 - means) / (a + b + 1))
        return self.weights.means(sums.sizes), means, std

    def _posterior(self, sums: BernoulliSums) -> tuple[FloatArray, FloatArray]:
        return self.ones + sums.ones, self.zeros + sums.zeros


BernoulliFamily = MaximumLikelihood | Bayes


def product(sums: BernoulliSums, logs: BernoulliLogs) -> float:
    """Σ_n Σ_k q_nk ⟨log π_k p(x_n | p_k)⟩"""
    of_cells = (sums.ones * logs.ones).sum() + (sums.zeros * logs.zeros).sum()
    return float(sums.sizes @ logs.weights + of_cells)
