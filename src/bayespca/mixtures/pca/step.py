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

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from bayespca.arrays.types import FloatArray
from bayespca.inference.loop import Info
from bayespca.mixtures.weights import Weights
from bayespca.spectrum.tolerances import TINY

from .cluster import Cluster, ClusterPlan, Update, updated
from .data import MixtureData, MixtureRows
from .gaussian import log_densities

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


def mean_cost(data: MixtureData, count: float) -> float:
    """m(N) = ½(p log(N + 1) + Σ log 2πv) over the variances v of the columns, at unit scale."""
    v = np.maximum(data.variances, TINY)
    return 0.5 * (v.size * float(np.log(count + 1)) + float(np.log(2 * np.pi * v).sum()))


def step(
    state: MixtureState, data: MixtureData, problem: MixtureProblem
) -> tuple[MixtureState, Info]:
    """Responsibilities, then clusters; and without one that has starved if that is better."""
    new, info = _sweep(state, data, problem)
    while (k := starved(new, problem)) is not None:
        less, told = _sweep(state := state.without(k), data, problem)
        if told.free_energy > info.free_energy:
            break
        new, info = less, told
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
    r = responsibilities(costs)
    return given(state, data, problem, r, costs)


def row_costs(state: MixtureState, rows: MixtureRows, problem: MixtureProblem) -> FloatArray:
    """ℓₖ(xₙ) + p/(2(Nₖ + 1)) − ⟨log πₖ⟩; (n, K)."""
    p = rows.shape[1]
    logs = problem.weights.expected_logs(state.counts)
    costs = np.empty((rows.shape[0], len(state.clusters)))
    for k, cluster in enumerate(state.clusters):
        of_all = cluster.surplus + 0.5 * p / (cluster.count + 1) - logs[k]
        costs[:, k] = of_all - log_densities(cluster.gaussian, rows)
    return costs


def responsibilities(costs: FloatArray) -> FloatArray:
    """rₙₖ ∝ exp(−cost), less what is negligible."""
    r = np.exp(-costs - logsumexp(-costs, axis=1, keepdims=True))
    r[r < NEGLIGIBLE] = 0.0
    return r / r.sum(axis=1, keepdims=True)


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
    known: Mapping[int, Update] | None = None,
) -> tuple[MixtureState, Info]:
    """Clusters given the responsibilities, and the free energy of both.

    `known` are clusters that have been found for these responsibilities already.
    """
    known = known or {}
    found = [
        known[k] if k in known else with_rows(state, k, data, problem, r[:, k], costs[:, k])
        for k in range(len(state.clusters))
    ]
    new = MixtureState(tuple(update.cluster for update in found), state.max_ranks)
    weights = data.rows.weights
    return new, _info(new, found, data, problem, _entropy(r * weights[:, None], weights))


def with_rows(
    state: MixtureState,
    k: int,
    data: MixtureData,
    problem: MixtureProblem,
    r: FloatArray,
    costs: FloatArray,
) -> Update:
    """A cluster given its responsibilities, which rows cost so much."""
    rows, cluster, plan = data.rows, state.clusters[k], problem.plan(state.max_ranks[k])
    r = r * rows.weights
    count = float(r.sum())
    if count >= plan.fewest:
        return updated(rows.taken(r > 0, r), cluster, plan)
    logs = problem.weights.expected_logs(state.counts)
    of_all = 0.5 * rows.shape[1] / (cluster.count + 1) - logs[k]
    return _left_alone(cluster, count, float(r @ (costs - of_all)))


def _left_alone(cluster: Cluster, count: float, of_rows: float) -> Update:
    """A cluster as it was, with other rows: F is what these cost, and what does not depend on them.

    Rows cost what remains when their holes are integrated out: the entropy is in it.
    """
    same = Cluster(count, cluster.posterior, cluster.latent_cost, cluster.loading_cost)
    return Update(same, of_rows + cluster.fixed_cost)


def _entropy(r: FloatArray, weights: FloatArray) -> float:
    """−Σ w·r log r, where `r` has been multiplied by w."""
    share = r / weights[:, None]
    return -float(np.sum(r * np.log(np.where(share > 0, share, 1.0))))


def _info(
    state: MixtureState,
    found: list[Update],
    data: MixtureData,
    problem: MixtureProblem,
    entropy: float,
) -> Info:
    counts, rows = state.counts, data.rows
    F = problem.weights.cost(counts) - entropy - mean_cost(data, rows.total)
    for update in found:
        F += update.free_energy - update.entropy + mean_cost(data, update.cluster.count)
    # One mean is a flat prior's, in the units of the data.
    F += (rows.n_cells - rows.shape[1]) * float(np.log(data.unit))
    noise = counts @ [cluster.mean_noise for cluster in state.clusters] / counts.sum()
    rank = sum(cluster.n_components for cluster in state.clusters)
    return Info(F, rank, float(noise) * data.unit**2)
