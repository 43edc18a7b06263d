"""The sweep over rows and clusters: responsibilities, then the closed form of every cluster.

The free energy over r(z)·Πₖ[r(Bₖ)·Πₙ r(aₙₖ)]·r(π), with Fₖ as in `cluster`, is

    F = Σₖ [Fₖ + m(Nₖ)] + Σₙₖ rₙₖ log rₙₖ + KL(π) − Σₖ Nₖ⟨log πₖ⟩ − Σₙₖ rₙₖ·H(holes) − m(N).

m(N) = ½p·log(N + 1) + ½Σⱼ log 2πvⱼ is the cost of a mean under a normal prior with the variances vⱼ
of all data, at the prior's peak and with noise smaller than the vⱼ. The last term removes the cost
of the first mean, so that one cluster is `BayesianPCA` with its flat prior. Given r, everything
else has a closed form. Given that, F is linear in r except for the entropy and m, which is concave
and so lies below its tangent. The best r are

    rₙₖ ∝ exp(⟨log πₖ⟩ − ℓₖ(xₙ) − p/(2(Nₖ + 1))).

Neither step raises F. A cluster with too few rows is not updated, which does not raise F either; it
is dropped as soon as F is lower without it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray
from bayespca.inference.loop import Info
from bayespca.mixtures.weights import Weights
from bayespca.spectrum.tolerances import TINY

from .closed_form import Update, updated_together
from .cluster import Cluster, ClusterPlan, ClusterRows
from .data import MixtureData, MixtureRows
from .gaussian import densities_of_all

# Smaller responsibilities count as 0: most rows then belong to a few clusters only.
NEGLIGIBLE = 1e-12


@dataclass(frozen=True)
class MixtureProblem:
    """The settings of a mixture: the method of its PCAs, and the prior of the weights.

    `least_noise` keeps clusters from collapsing on a point: a number, or an array with one entry
    for each feature where features have their own noise.
    """

    method: str
    weights: Weights
    least_noise: float | FloatArray

    def plan(self, max_rank: int | None) -> ClusterPlan:
        return ClusterPlan(self.method, max_rank, self.least_noise)


@dataclass(frozen=True, eq=False)
class MixtureState:
    """The clusters; `max_ranks` has the largest rank of each, or the rank itself where the method
    needs one.
    """

    clusters: tuple[Cluster, ...]
    max_ranks: tuple[int | None, ...]

    @property
    def counts(self) -> FloatArray:
        return np.array([cluster.count for cluster in self.clusters])

    @property
    def by_size(self) -> NDArray[np.intp]:
        """Indices of the clusters, largest first."""
        return np.argsort(-self.counts, kind="stable")

    def without(self, k: int) -> MixtureState:
        """All clusters but one."""
        clusters = self.clusters[:k] + self.clusters[k + 1 :]
        return MixtureState(clusters, self.max_ranks[:k] + self.max_ranks[k + 1 :])


def mean_costs(data: MixtureData, counts: FloatArray) -> FloatArray:
    """m(N) = ½(p log(N + 1) + Σ log 2πv) over the variances v of the columns, at unit scale."""
    v = np.maximum(data.variances, TINY)
    return np.asarray(0.5 * (v.size * np.log(counts + 1) + np.log(2 * np.pi * v).sum()))


def step(
    state: MixtureState, data: MixtureData, problem: MixtureProblem
) -> tuple[MixtureState, Info]:
    """Update responsibilities, then clusters; drop starved clusters if that lowers F."""
    new, info = _sweep(state, data, problem)
    while (k := starved(new, problem)) is not None:
        less, info_of_less = _sweep(state := state.without(k), data, problem)
        if info_of_less.free_energy > info.free_energy:
            break
        new, info = less, info_of_less
    return new, info


def starved(state: MixtureState, problem: MixtureProblem) -> int | None:
    """The cluster that is shortest of the rows it needs; None if all have enough, or only one is
    left.
    """
    spare = state.counts - [problem.plan(rank).fewest for rank in state.max_ranks]
    k = int(np.argmin(spare))
    return k if spare[k] < 0 and len(state.clusters) > 1 else None


def _sweep(
    state: MixtureState, data: MixtureData, problem: MixtureProblem
) -> tuple[MixtureState, Info]:
    costs = row_costs(state, data.rows, problem)
    if not np.isfinite(costs).all():
        raise np.linalg.LinAlgError("row densities under the clusters are not finite")
    r = responsibilities(costs)
    found = updates(state, data, problem, r, costs)
    new = MixtureState(tuple(update.cluster for update in found), state.max_ranks)
    counts = new.counts
    noise = counts @ [cluster.mean_noise for cluster in new.clusters] / counts.sum()
    rank = sum(cluster.n_components for cluster in new.clusters)
    return new, Info(free_energy(found, data, problem, r), rank, float(noise))


def row_costs(state: MixtureState, rows: MixtureRows, problem: MixtureProblem) -> FloatArray:
    """ℓₖ(xₙ) + p/(2(Nₖ + 1)) − ⟨log πₖ⟩; (n, K)."""
    gaussians = [cluster.gaussian for cluster in state.clusters]
    return costs_of(state, problem, densities_of_all(gaussians, rows))


def costs_of(state: MixtureState, problem: MixtureProblem, densities: FloatArray) -> FloatArray:
    """`row_costs`, given the log densities (n, K)."""
    surplus = np.array([cluster.surplus for cluster in state.clusters])
    return np.asarray(surplus + _dues(state, problem) - densities)


def _dues(state: MixtureState, problem: MixtureProblem) -> FloatArray:
    """p/(2(Nₖ + 1)) − ⟨log πₖ⟩: the cost for every row of belonging to a cluster."""
    p, counts = state.clusters[0].posterior.mean.size, state.counts
    return np.asarray(0.5 * p / (counts + 1) - problem.weights.expected_logs(counts))


def responsibilities(costs: FloatArray) -> FloatArray:
    """rₙₖ ∝ exp(−cost), with negligible ones set to 0."""
    r = np.exp(costs.min(axis=1, keepdims=True) - costs)
    r[r < NEGLIGIBLE] = 0.0
    return np.asarray(r / r.sum(axis=1, keepdims=True))


def log_others(costs: FloatArray) -> FloatArray:
    """−log(1 − rₙₖ), the cost to each row of losing each cluster: (n, K)."""
    costs = costs - costs.min(axis=1, keepdims=True)
    parts = np.exp(-costs)
    total = parts.sum(axis=1, keepdims=True)
    second = np.partition(costs, 1, axis=1)[:, [1]]
    # If r rounds to 1, 1 − r is lost to rounding: the row would go to the second-best cluster.
    others = np.maximum(total - parts, np.exp(-np.minimum(second, 700.0)))
    return np.where(costs == 0, np.maximum(np.log(total / others), second), np.log(total / others))


def updates(
    state: MixtureState,
    data: MixtureData,
    problem: MixtureProblem,
    r: FloatArray,
    costs: FloatArray,
    which: NDArray[np.bool_] | None = None,
) -> list[Update]:
    """Updates of the clusters given responsibilities and the `costs` of rows.

    Clusters with too few rows stay as they are; with `which`, so do the clusters outside it.
    """
    r = np.asfortranarray(r * data.rows.weights[:, None])
    counts, plans = r.sum(axis=0), [problem.plan(rank) for rank in state.max_ranks]
    taken = counts >= [plan.fewest for plan in plans]
    taken = taken if which is None else taken & which
    parts = [
        ClusterRows(data.rows.taken(r[:, k] > 0, r[:, k]), state.clusters[k], plans[k])
        for k in np.flatnonzero(taken)
    ]
    found = iter(updated_together(parts, nearly=True))
    of_rows = np.einsum("nk,nk->k", r, costs) - counts * _dues(state, problem)
    return [
        next(found) if taken[k] else _left_alone(cluster, float(counts[k]), float(of_rows[k]))
        for k, cluster in enumerate(state.clusters)
    ]


def _left_alone(cluster: Cluster, count: float, of_rows: float) -> Update:
    """An unchanged cluster with other rows: F is their cost plus the part independent of rows.

    The cost of a row has its holes integrated out, so it includes their entropy.
    """
    return Update(lambda: replace(cluster, count=count), count, of_rows + cluster.fixed_cost)


def free_energy(
    found: list[Update], data: MixtureData, problem: MixtureProblem, r: FloatArray
) -> float:
    """Free energy of responsibilities and updated clusters, at unit scale."""
    rows, counts = data.rows, np.array([update.count for update in found])
    of_clusters = sum(update.free_energy - update.entropy for update in found)
    of_means = mean_costs(data, np.append(counts, rows.total))
    some, k = np.nonzero((r > 0) & (r < 1))
    shared = r[some, k]
    disorder = rows.weights[some] @ (shared * np.log(shared))
    F = of_clusters + problem.weights.cost(counts) + disorder
    return float(F + of_means[:-1].sum() - of_means[-1])
