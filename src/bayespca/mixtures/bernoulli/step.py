"""Mixtures of products of Bernoulli distributions: one sweep for EM and for variational Bayes.

    p(x_n | z_n = k) = Π_d p_kd^{x_nd} (1 − p_kd)^{1 − x_nd},   p(z_n = k) = π_k

over the cells d of row n that are there (lecture, "Product of Bernoulli Mixture Model"). A sweep
finds the responsibilities q_nk ∝ π_k p(x_n | p_k) and sums them up; all that follows is a function
of these sums. Maximum likelihood takes the best π and p; with priors π ~ Dirichlet(α₀) and
p_kd ~ Beta(a₀, b₀) logarithms of π and p are replaced by their expectations. Holes are cells that
are in no sum.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammaln, psi

from bayespca.arrays.parallel import in_turn
from bayespca.arrays.types import FloatArray
from bayespca.inference.loop import Info
from bayespca.spectrum.tolerances import LEAST_PROBABILITY, TINY

from .data import Cells

# Clusters with fewer rows are tried to do without after each sweep; others at the end.
EMPTY = 0.5


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over rows with their responsibilities: Σ_n q_nk (K,), Σ_n q_nk x_nd and
    Σ_n q_nk over the rows in which d is there (both K, p).
    """

    sizes: FloatArray
    ones: FloatArray
    seen: FloatArray

    @property
    def zeros(self) -> FloatArray:
        """Rounding must not leave less than nothing."""
        return np.maximum(self.seen - self.ones, 0.0)

    def only(self, which: NDArray[np.intp] | NDArray[np.bool_]) -> Sums:
        return Sums(self.sizes[which], self.ones[which], self.seen[which])

    def paired(self, k: NDArray[np.intp], l: NDArray[np.intp]) -> Sums:
        """Of pairs of clusters."""
        return Sums(*(a[k] + a[l] for a in (self.sizes, self.ones, self.seen)))

    def merged(self, k: int, l: int) -> Sums:
        """With cluster l as a part of cluster k."""
        into = [a.copy() for a in (self.sizes, self.ones, self.seen)]
        for a in into:
            a[k] += a[l]
        return Sums(*into).only(np.arange(self.sizes.size) != l)


@dataclass(frozen=True, eq=False)
class Logs:
    """Logarithms, or their expectations, of π (K,), of p and of 1 − p (both K, p)."""

    weights: FloatArray
    ones: FloatArray
    zeros: FloatArray

    def only(self, which: NDArray[np.bool_]) -> Logs:
        return Logs(self.weights[which], self.ones[which], self.zeros[which])


class Family(Protocol):
    """What is made of sums: logarithms, what is left of the free energy once π and p are at their
    best, and the averages of π and p with the standard deviations of p.
    """

    @property
    def drops(self) -> bool: ...
    def logs(self, sums: Sums) -> Logs: ...
    def cost(self, sums: Sums) -> float: ...
    def averages(self, sums: Sums) -> tuple[FloatArray, FloatArray, FloatArray]: ...


@dataclass(frozen=True)
class MaximumLikelihood:
    """π_k = Σ_n q_nk / N, p_kd = Σ_n q_nk x_nd / Σ_n q_nk (lecture, the M step)."""

    @property
    def drops(self) -> bool:
        """Whether clusters without rows go: their number is given."""
        return False

    def logs(self, sums: Sums) -> Logs:
        weights, means, _ = self.averages(sums)
        return Logs(np.log(np.maximum(weights, TINY)), np.log(means), np.log1p(-means))

    def cost(self, sums: Sums) -> float:
        """−⟨log likelihood⟩ of rows and clusters together."""
        return -_product(sums, self.logs(sums))

    def averages(self, sums: Sums) -> tuple[FloatArray, FloatArray, FloatArray]:
        means = np.where(sums.seen > 0, sums.ones / np.maximum(sums.seen, TINY), 0.5)
        means = np.clip(means, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
        return sums.sizes / sums.sizes.sum(), means, np.zeros_like(means)


@dataclass(frozen=True)
class Bayes:
    """π ~ Dirichlet(α₀, …, α₀) and p_kd ~ Beta(a₀, b₀): `concentration`, `ones` and `zeros`."""

    concentration: float
    ones: float = 1.0
    zeros: float = 1.0

    @property
    def drops(self) -> bool:
        """Whether clusters without rows go."""
        return True

    def logs(self, sums: Sums) -> Logs:
        """⟨log π_k⟩ = ψ(α_k) − ψ(Σα), ⟨log p⟩ = ψ(a) − ψ(a + b), ⟨log(1 − p)⟩ = ψ(b) − ψ(a + b)"""
        alpha, a, b = self._posterior(sums)
        both = psi(a + b)
        return Logs(psi(alpha) - psi(alpha.sum()), psi(a) - both, psi(b) - both)

    def cost(self, sums: Sums) -> float:
        """−log ∫ p(π, p) exp⟨log likelihood⟩ d(π, p): ratios of normalising constants."""
        whole = sums.sizes.size * self.concentration
        of_total = gammaln(whole) - gammaln(whole + sums.sizes.sum())
        return float(self.cluster_costs(sums).sum() - of_total)

    def cluster_costs(self, sums: Sums) -> FloatArray:
        """What each cluster has in it."""
        alpha, a, b = self._posterior(sums)
        of_weight = gammaln(alpha) - gammaln(self.concentration)
        of_cells = (betaln(a, b) - betaln(self.ones, self.zeros)).sum(axis=1)
        return np.asarray(-(of_weight + of_cells))

    def averages(self, sums: Sums) -> tuple[FloatArray, FloatArray, FloatArray]:
        alpha, a, b = self._posterior(sums)
        means = a / (a + b)
        return alpha / alpha.sum(), means, np.sqrt(means * (1 - means) / (a + b + 1))

    def _posterior(self, sums: Sums) -> tuple[FloatArray, FloatArray, FloatArray]:
        return self.concentration + sums.sizes, self.ones + sums.ones, self.zeros + sums.zeros


@dataclass(frozen=True, eq=False)
class State:
    """All that the next sweep needs. `energy` is the free energy of responsibilities and family."""

    sums: Sums
    energy: float = np.inf

    @property
    def n_clusters(self) -> int:
        return int(self.sums.sizes.size)


def step(state: State, data: Cells, family: Family) -> tuple[State, Info]:
    """A sweep, and without the clusters that have come to be empty if the free energy is lower."""
    logs = family.logs(state.sums)
    new = _sweep(logs, data, family)
    staying = new.sums.sizes >= EMPTY
    if family.drops and not staying.all():
        less = _sweep(logs.only(staying), data, family)
        new = less if less.energy < new.energy else new
    return new, Info(new.energy, new.n_clusters, float("nan"))


def _sweep(logs: Logs, data: Cells, family: Family) -> State:
    """Responsibilities, their sums, and the free energy

    F = Σ_n Σ_k q_nk log q_nk + cost(sums).

    Since log q_nk = ⟨log π_k p(x_n | p_k)⟩ − log Σ_k, the first term follows from the sums.
    """
    sums, log_norm = _summed(in_turn(lambda rows: _of_block(data, rows, logs), data.blocks))
    return State(sums, _product(sums, logs) - log_norm + family.cost(sums))


def log_joint(x: FloatArray, known: FloatArray | None, logs: Logs) -> FloatArray:
    """log π_k + Σ_d log p(x_nd | p_kd) over the cells that are there: (n, K)."""
    found = x @ (logs.ones - logs.zeros).T
    found += logs.weights
    found += logs.zeros.sum(axis=1) if known is None else known @ logs.zeros.T
    return found


def normalised(log_joints: FloatArray) -> tuple[FloatArray, FloatArray]:
    """exp of each row over its sum, in the place of the logarithms, and the log of that sum."""
    largest = log_joints.max(axis=1)
    log_joints -= largest[:, None]
    np.exp(log_joints, out=log_joints)
    total = log_joints.sum(axis=1)
    log_joints /= total[:, None]
    return log_joints, largest + np.log(total)


def sums_of(data: Cells, rows: slice, q: FloatArray) -> Sums:
    """Of a block of rows with responsibilities, which are multiplied by the weights of rows."""
    return _sums(data.values(rows), data.known(rows), q)


def added(parts: Iterable[Sums]) -> Sums:
    first, *others = parts
    sizes, ones, seen = first.sizes, first.ones, first.seen
    for part in others:
        sizes, ones, seen = sizes + part.sizes, ones + part.ones, seen + part.seen
    return Sums(sizes, ones, seen)


def without_one(state: State, family: Bayes) -> State | None:
    """With two clusters in one: the two for which the free energy falls most, or rises least, if
    rows belong to one cluster each.
    """
    sums, (k, l) = state.sums, np.triu_indices(state.n_clusters, 1)
    if not k.size:
        return None
    of_each, of_pairs = family.cluster_costs(sums), family.cluster_costs(sums.paired(k, l))
    best = int(np.argmin(of_pairs - of_each[k] - of_each[l]))
    return State(sums.merged(int(k[best]), int(l[best])))


def _of_block(data: Cells, rows: slice, logs: Logs) -> tuple[Sums, float]:
    x, known = data.values(rows), data.known(rows)
    q, log_norms = normalised(log_joint(x, known, logs))
    if data.weights is None:
        return _sums(x, known, q), float(log_norms.sum())
    weights = data.weights[rows]
    return _sums(x, known, q * weights[:, None]), float(weights @ log_norms)


def _sums(x: FloatArray, known: FloatArray | None, q: FloatArray) -> Sums:
    sizes = q.sum(axis=0)
    # All cells are there: one number stands for a row of equal ones.
    everywhere = np.broadcast_to(sizes[:, None], (sizes.size, x.shape[1]))
    seen = everywhere if known is None else q.T @ known
    return Sums(sizes, q.T @ x, seen)


def _summed(parts: Iterable[tuple[Sums, float]]) -> tuple[Sums, float]:
    found = list(parts)
    return added(sums for sums, _ in found), sum(log_norm for _, log_norm in found)


def _product(sums: Sums, logs: Logs) -> float:
    """Σ_n Σ_k q_nk ⟨log π_k p(x_n | p_k)⟩"""
    of_cells = (sums.ones * logs.ones).sum() + (sums.zeros * logs.zeros).sum()
    return float(sums.sizes @ logs.weights + of_cells)
