"""Starting points of mixtures of PCAs: the clusters of k-means."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bayespca import inference

from .closed_form import updated, updated_together
from .cluster import Cluster, ClusterRows, spherical
from .data import MixtureData, MixtureRows
from .gaussian import expected_values
from .removal import Pool, with_fewer
from .step import MixtureProblem, MixtureState, step

# Sweeps of a single cluster that fill the holes for k-means.
FILLING = 20
# Sweeps before clusters are removed, and the relative fall of the free energy that ends them.
SETTLING = 10
CALM = 1e-2
# Least noise of a cluster too small to estimate its own, where the mean square of the data is 1.
SOME = 0.01
# Clusters to start with: a multiple of the final number, their least number, and rows per cluster.
TWICE, LEAST, FEW = 2, 10, 5


def one_cluster(data: MixtureData, problem: MixtureProblem, max_rank: int | None) -> Cluster:
    """The cluster of all rows; where there are holes, sweeps of that cluster fill them."""
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
    """A PCA of each cluster that k-means finds from the seeds of k-means++.

    `whole` is the cluster of all rows: it fills holes, and lends its noise to clusters too small to
    estimate their own.
    """
    filled = data.rows.filled(expected_values(whole.gaussian, data.rows))
    labels = _labels(filled, len(max_ranks), rng)
    parts = [
        ClusterRows(filled.taken(labels == k, filled.weights), None, problem.plan(rank))
        for k, rank in enumerate(max_ranks)
        if (labels == k).any()
    ]
    enough = [part for part in parts if part.rows.total >= part.plan.fewest]
    found, clusters = iter(updated_together(enough)), []
    for part in parts:
        rows = part.rows
        if rows.total >= part.plan.fewest:
            clusters.append(next(found).cluster)
        else:
            mean, noise = rows.weights @ rows.values / rows.total, max(whole.noise, SOME)
            clusters.append(spherical(mean, whole.posterior.scale, noise, rows.total))
    return MixtureState(tuple(clusters), tuple(part.plan.max_rank for part in parts))


def ranks_to_prune(max_ranks: tuple[int | None, ...], n: int) -> tuple[int | None, ...]:
    """Ranks of the clusters to prune from: twice as many, and at least ten, if n rows suffice.

    Clusters with different ranks are not multiplied.
    """
    if len(set(max_ranks)) > 1:
        return max_ranks
    K = len(max_ranks)
    return max_ranks[:1] * max(K, min(max(TWICE * K, LEAST), n // FEW))


def pruned(state: MixtureState, data: MixtureData, problem: MixtureProblem, K: int) -> MixtureState:
    """Sweep a few times, then remove the clusters that cost least until K remain."""
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
        # With fewer different rows than clusters, k-means warns; empty clusters are left out later.
        warnings.simplefilter("ignore")
        k_means = KMeans(K, n_init=1, random_state=seed)
        found = k_means.fit(rows.values, sample_weight=rows.weights)
    return np.asarray(found.labels_, np.intp)
