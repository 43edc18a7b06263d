"""Mixtures of products of Bernoulli distributions: one sweep for EM and for variational Bayes.

    p(x_n | z_n = k) = Π_d p_kd^{x_nd} (1 − p_kd)^{1 − x_nd},   p(z_n = k) = π_k

over the observed cells d of row n (lecture, "Product of Bernoulli Mixture Model"). A sweep computes
the responsibilities q_nk ∝ π_k p(x_n | p_k) and sums over rows with them; everything else is a
function of these sums. Maximum likelihood takes the best π and p. With priors π ~ Dirichlet(α₀) and
p_kd ~ Beta(a₀, b₀), the logarithms of π and p are replaced by their expectations. The sums leave
holes out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from bayespca.arrays.parallel import in_turn
from bayespca.arrays.types import FloatArray
from bayespca.inference.loop import Info

from .data import BernoulliRows
from .family import BernoulliFamily, BernoulliLogs, BernoulliSums, product

# After each sweep, clusters with fewer rows than this are dropped if that lowers the free energy.
EMPTY = 0.5


@dataclass(frozen=True, eq=False)
class BernoulliState:
    """All that the next sweep needs. `energy` is the free energy after the last one."""

    sums: BernoulliSums
    energy: float = np.inf

    @property
    def n_clusters(self) -> int:
        return int(self.sums.sizes.size)


def step(
    state: BernoulliState, data: BernoulliRows, family: BernoulliFamily
) -> tuple[BernoulliState, Info]:
    """Do one sweep, and drop empty clusters if that lowers the free energy."""
    logs = family.logs(state.sums)
    new = _sweep(logs, data, family)
    staying = new.sums.sizes >= EMPTY
    if family.drops and not staying.all():
        less = _sweep(logs.only(staying), data, family)
        new = less if less.energy < new.energy else new
    return new, Info(new.energy, new.n_clusters, float("nan"))


def _sweep(logs: BernoulliLogs, data: BernoulliRows, family: BernoulliFamily) -> BernoulliState:
    """Responsibilities, their sums, and the free energy

    F = Σ_n Σ_k q_nk log q_nk + cost(sums).

    Since log q_nk = ⟨log π_k p(x_n | p_k)⟩ − log Σ_k, the first term follows from the sums.
    """

    def of_block(rows: slice) -> tuple[BernoulliSums, float]:
        cells, weights = data.part(rows), data.weights_of(rows)
        q, log_norms = normalised(log_joint(cells.values, cells.known, logs))
        if data.weights is not None:
            q *= weights[:, None]
        return sums_of(cells.values, cells.known, q), float(weights @ log_norms)

    parts = list(in_turn(of_block, data.blocks))
    sums = added(of_rows for of_rows, _ in parts)
    log_norm = sum(of_rows for _, of_rows in parts)
    return BernoulliState(sums, product(sums, logs) - log_norm + family.cost(sums))


def log_joint(x: FloatArray, known: FloatArray | None, logs: BernoulliLogs) -> FloatArray:
    """log π_k + Σ_d log p(x_nd | p_kd) over the observed cells: (n, K)."""
    found = x @ (logs.ones - logs.zeros).T
    found += logs.weights
    found += logs.zeros.sum(axis=1) if known is None else known @ logs.zeros.T
    return found


def normalised(log_joints: FloatArray) -> tuple[FloatArray, FloatArray]:
    """exp of each row divided by its sum, computed in place, and the log of that sum."""
    largest = log_joints.max(axis=1)
    log_joints -= largest[:, None]
    np.exp(log_joints, out=log_joints)
    total = log_joints.sum(axis=1)
    log_joints /= total[:, None]
    return log_joints, largest + np.log(total)


def added(parts: Iterable[BernoulliSums]) -> BernoulliSums:
    first, *others = parts
    sizes, ones, seen = first.sizes, first.ones, first.seen
    for part in others:
        sizes, ones, seen = sizes + part.sizes, ones + part.ones, seen + part.seen
    return BernoulliSums(sizes, ones, seen)


def sums_of(x: FloatArray, known: FloatArray | None, q: FloatArray) -> BernoulliSums:
    """Sums over rows; q are responsibilities multiplied by the weights of the rows."""
    sizes = q.sum(axis=0)
    # Without holes every column has the same sum: a view repeats it without a copy.
    everywhere = np.broadcast_to(sizes[:, None], (sizes.size, x.shape[1]))
    seen = everywhere if known is None else q.T @ known
    return BernoulliSums(sizes, q.T @ x, seen)
