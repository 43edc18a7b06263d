"""Where the iteration starts: clusters of k-means."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bayespca import inference

from .closing import updated, updated_together
from .cluster import Cluster, ClusterPlan, spherical
from .data import MixtureData, MixtureRows
from .gaussian import expected_values
from .moments import ClusterRows
from .removal import Pool, with_fewer
from .step import MixtureProblem, MixtureState, step

# Sweeps of a single cluster that fill the holes for k-means.
FILLING = 20
# Sweeps before clusters are taken out, and the relative fall of the free energy that ends them.
SETTLING = 10
CALM = 1e-2
# The least noise, where the mean square of the data is 1, of a cluster too small for its own.
SOME = 0.01
# Clusters to start with: a multiple of the final number, at least so many; and their fewest rows.
TWICE, LEAST, FEW = 2, 10, 5


def one_cluster(data: MixtureData, problem: MixtureProblem, max_rank: int | None) -> Cluster:
    """All rows in one cluster; holes filled by its own sweeps, where there are any."""
    if data.rows.total < problem.plan(max_rank).fewest:
        p, noise = data.rows.shape[1], float(np.max(problem.least_noise))
        return spherical(np.zeros(p), np.ones(p), noise, data.rows.total)
    filled = data.rows.filled(data.rows.values)
    first = updated(filled, None, problem.plan(max_rank)).cluster
    if data.rows.is_complete:
        return first
    state = MixtureState((first,), (max_rank,))
    sweep = partial(step, data=data, problem=problem)
    return inference.run(sweep, state, max_iter=FILLING, tol=1e-4).state.clusters[0]


def by_k_means(
    data: MixtureData,
    problem: MixtureProblem,
    max_ranks: tuple[int | None, ...],
    whole: Cluster,
    rng: np.random.Generator,
) -> MixtureState:
    """A PCA of each cluster that k-means finds, from the seeds of k-means++.

    `whole` is the cluster of all rows: it fills holes, and its noise is that of clusters too small
    for one of their own.
    """
    filled = data.rows.filled(expected_values(whole.gaussian, data.rows))
    labels = _labels(filled, len(max_ranks), rng)
    found = [(labels == k, rank) for k, rank in enumerate(max_ranks) if (labels == k).any()]
    plans = [problem.plan(rank) for _, rank in found]
    clusters = _clusters(filled, [inside for inside, _ in found], plans, whole)
    return MixtureState(tuple(clusters), tuple(rank for _, rank in found))


def ranks_to_prune(max_ranks: tuple[int | None, ...], n: int) -> tuple[int | None, ...]:
    """Ranks of twice as many clusters of n rows, and at least ten, from which to take out some.

    Clusters that have ranks of their own are as many as there are ranks.
    """
    if len(set(max_ranks)) > 1:
        return max_ranks
    K = len(max_ranks)
    return max_ranks[:1] * max(K, min(max(TWICE * K, LEAST), n // FEW))


def pruned(state: MixtureState, data: MixtureData, problem: MixtureProblem, K: int) -> MixtureState:
    """After a few sweeps K of the clusters, without those that can best be spared."""
    pool = Pool.of(state, data, problem)
    before = np.inf
    for _ in range(SETTLING):
        if before - pool.free_energy <= CALM * abs(pool.free_energy):
            break
        before, pool = pool.free_energy, pool.swept()
    return with_fewer(pool, K)


def _labels(rows: MixtureRows, K: int, rng: np.random.Generator) -> NDArray[np.intp]:
    from sklearn.cluster import KMeans

    seed = int(rng.integers(2**31))
    with warnings.catch_warnings():
        # Fewer different rows than clusters: some stay empty, and are left out.
        warnings.simplefilter("ignore")
        k_means = KMeans(K, n_init=1, random_state=seed)
        found = k_means.fit(rows.values, sample_weight=rows.weights)
    return np.asarray(found.labels_, np.intp)


def _clusters(
    rows: MixtureRows, inside: list[NDArray[np.bool_]], plans: list[ClusterPlan], whole: Cluster
) -> list[Cluster]:
    """PCAs of some of the rows each, which have no holes."""
    parts = [
        ClusterRows(rows.taken(some, rows.weights), None, plan)
        for some, plan in zip(inside, plans, strict=True)
    ]
    enough = [part.rows.total >= part.plan.fewest for part in parts]
    found = iter(
        updated_together([part for part, is_so in zip(parts, enough, strict=True) if is_so])
    )
    return [
        next(found).cluster if is_so else _without_rank(part.rows, whole)
        for part, is_so in zip(parts, enough, strict=True)
    ]


def _without_rank(rows: MixtureRows, whole: Cluster) -> Cluster:
    mean = rows.weights @ rows.values / rows.total
    return spherical(mean, whole.posterior.scale, max(whole.noise, SOME), rows.total)
