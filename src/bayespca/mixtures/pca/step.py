"""The sweep over rows and clusters: responsibilities, then the closed form of every cluster.

The free energy over r(z)·Πₖ[r(Bₖ)·Πₙ r(aₙₖ)]·r(π), with Fₖ as in `cluster`, is

    F = Σₖ [Fₖ + m(Nₖ)] + Σₙₖ rₙₖ log rₙₖ + KL(π) − Σₖ Nₖ⟨log πₖ⟩ − Σₙₖ rₙₖ·H(holes) − m(N).

m(N) = ½p·log(N + 1) + ½Σⱼ log 2πvⱼ is what a mean costs: with a normal prior that has the variances
vⱼ of all data, at its peak, and noise that is smaller than these. The last term takes the cost of
the first mean out, so that one cluster is `BayesianPCA` with its flat prior. Given r everything is
in closed form. Given that, F is linear in r but for the entropy and for m, which is concave and so
below its tangent: the best r are

    rₙₖ ∝ exp(⟨log πₖ⟩ − ℓₖ(xₙ) − p/(2(Nₖ + 1))).

Neither step raises F. A cluster with too few rows is not updated, which raises nothing either;
it goes as soon as F is lower without it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray
from bayespca.inference.loop import Info
from bayespca.mixtures.weights import Weights
from bayespca.spectrum.tolerances import TINY

from .closing import Update, updated_together
from .cluster import Cluster, ClusterPlan
from .data import MixtureData, MixtureRows
from .gaussian import densities_of_all
from .moments import ClusterRows

# Less of a row than this is none of it: most rows are wholly in few clusters.
NEGLIGIBLE = 1e-12


@dataclass(frozen=True)
class MixtureProblem:
    """What is asked of a mixture: the method of its PCAs, their ranks, and the prior of weights.

    `least_noise` holds clusters off the points on which they might collapse: a number, or one for
    each feature where these have noise of their own.
    """

    method: str
    weights: Weights
    least_noise: float | FloatArray

    def plan(self, max_rank: int | None) -> ClusterPlan:
        return ClusterPlan(self.method, max_rank, self.least_noise)


@dataclass(frozen=True, eq=False)
class MixtureState:
    """The clusters; `max_ranks` has the largest rank of each, or the rank itself where the method
    needs one."""

    clusters: tuple[Cluster, ...]
    max_ranks: tuple[int | None, ...]

    @property
    def counts(self) -> FloatArray:
        return np.array([cluster.count for cluster in self.clusters])

    @property
    def by_size(self) -> NDArray[np.intp]:
        """Places of the clusters, largest first."""
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
    """Update responsibilities, then clusters; drop a cluster that has starved if that is better."""
    new, info = _sweep(state, data, problem)
    while (k := starved(new, problem)) is not None:
        less, info_of_less = _sweep(state := state.without(k), data, problem)
        if info_of_less.free_energy > info.free_energy:
            break
        new, info = less, info_of_less
    return new, info


def starved(state: MixtureState, problem: MixtureProblem) -> int | None:
    """The cluster that lacks most of the rows it needs to be updated, unless it is the only one."""
    spare = state.counts - [problem.plan(rank).fewest for rank in state.max_ranks]
    k = int(np.argmin(spare))
    return k if spare[k] < 0 and len(state.clusters) > 1 else None


def _sweep(
    state: MixtureState, data: MixtureData, problem: MixtureProblem
) -> tuple[MixtureState, Info]:
    costs = row_costs(state, data.rows, problem)
    if not np.isfinite(costs).all():
        raise np.linalg.LinAlgError("clusters have no densities")
    r = responsibilities(costs)
    return given(state, data, problem, r, costs)


def row_costs(state: MixtureState, rows: MixtureRows, problem: MixtureProblem) -> FloatArray:
    """ℓₖ(xₙ) + p/(2(Nₖ + 1)) − ⟨log πₖ⟩; (n, K)."""
    gaussians = [cluster.gaussian for cluster in state.clusters]
    return costs_of(state, problem, densities_of_all(gaussians, rows))


def costs_of(state: MixtureState, problem: MixtureProblem, densities: FloatArray) -> FloatArray:
    """The same, where the log densities (n, K) are known."""
    surplus = np.array([cluster.surplus for cluster in state.clusters])
    return np.asarray(surplus + _dues(state, problem) - densities)


def _dues(state: MixtureState, problem: MixtureProblem) -> FloatArray:
    """p/(2(Nₖ + 1)) − ⟨log πₖ⟩: what every row pays that belongs to a cluster."""
    p, counts = state.clusters[0].posterior.mean.size, state.counts
    return np.asarray(0.5 * p / (counts + 1) - problem.weights.expected_logs(counts))


def responsibilities(costs: FloatArray) -> FloatArray:
    """rₙₖ ∝ exp(−cost), less what is negligible."""
    r = np.exp(costs.min(axis=1, keepdims=True) - costs)
    r[r < NEGLIGIBLE] = 0.0
    return np.asarray(r / r.sum(axis=1, keepdims=True))


def log_others(costs: FloatArray) -> FloatArray:
    """What each row pays if it has to do without one of the clusters: −log(1 − rₙₖ), (n, K)."""
    costs = costs - costs.min(axis=1, keepdims=True)
    parts = np.exp(-costs)
    total = parts.sum(axis=1, keepdims=True)
    second = np.partition(costs, 1, axis=1)[:, [1]]
    # A row that is wholly in one cluster would go to the second best.
    others = np.maximum(total - parts, np.exp(-np.minimum(second, 700.0)))
    return np.where(costs == 0, np.maximum(np.log(total / others), second), np.log(total / others))


def given(
    state: MixtureState,
    data: MixtureData,
    problem: MixtureProblem,
    r: FloatArray,
    costs: FloatArray,
) -> tuple[MixtureState, Info]:
    """Clusters given the responsibilities, and the free energy of both."""
    found = updates(state, data, problem, r, costs)
    new = MixtureState(tuple(update.cluster for update in found), state.max_ranks)
    return new, _info(new, free_energy(found, data, problem, r))


def updates(
    state: MixtureState,
    data: MixtureData,
    problem: MixtureProblem,
    r: FloatArray,
    costs: FloatArray,
    which: NDArray[np.bool_] | None = None,
) -> list[Update]:
    """Clusters given their responsibilities, which rows cost so much.

    Clusters that lack rows stay as they are. With `which`, so do the clusters outside it, and
    noise is near its last value.
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
    """A cluster as it was, with other rows: F is what these cost, and what does not depend on them.

    Rows cost what remains when their holes are integrated out: the entropy is in it.
    """
    return Update(lambda: replace(cluster, count=count), count, of_rows + cluster.fixed_cost)


def _entropy(r: FloatArray, weights: FloatArray) -> float:
    """−Σ w·r log r."""
    some, k = np.nonzero((r > 0) & (r < 1))
    shared = r[some, k]
    return -float(weights[some] @ (shared * np.log(shared)))


def free_energy(
    found: list[Update], data: MixtureData, problem: MixtureProblem, r: FloatArray
) -> float:
    """That of responsibilities, and of clusters after their update, at unit scale."""
    rows, counts = data.rows, np.array([update.count for update in found])
    of_clusters = sum(update.free_energy - update.entropy for update in found)
    of_means = mean_costs(data, np.append(counts, rows.total))
    weights = problem.weights.cost(counts)
    F = of_clusters + weights - _entropy(r, rows.weights) + of_means[:-1].sum() - of_means[-1]
    return float(F)


def _info(state: MixtureState, F: float) -> Info:
    counts = state.counts
    noise = counts @ [cluster.mean_noise for cluster in state.clusters] / counts.sum()
    rank = sum(cluster.n_components for cluster in state.clusters)
    return Info(F, rank, float(noise))
