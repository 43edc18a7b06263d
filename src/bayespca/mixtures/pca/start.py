"""Where the iteration starts: clusters of k-means."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bayespca import inference
from bayespca.arrays.types import FloatArray

from .cluster import Cluster, spherical, updated
from .data import Data
from .gaussian import expected
from .removal import with_one_less
from .step import Model, State, step

# Sweeps of a single cluster that fill the holes for k-means.
FILLING = 20
# Sweeps before clusters are taken out, and the relative fall of the free energy that ends them.
SETTLING = 10
CALM = 1e-3
# The least noise, where the mean square of the data is 1, of a cluster too small for its own.
SOME = 0.01
# Clusters to start with, times those asked for and at least, and the fewest rows they should have.
TWICE, LEAST, FEW = 2, 10, 5


def one_cluster(data: Data, model: Model, max_rank: int | None) -> Cluster:
    """All rows in one cluster; holes filled by its own sweeps, where there are any."""
    if data.rows.total < model.plan(max_rank).fewest:
        p = data.rows.shape[1]
        return spherical(np.zeros(p), np.ones(p), float(np.max(model.least_noise)), data.rows.total)
    filled = replace(data.rows, seen=np.ones((1, data.rows.shape[1])), pattern=_same(data))
    first = updated(filled, None, model.plan(max_rank)).cluster
    if data.rows.is_complete:
        return first
    state = State((first,), (max_rank,))
    sweep = partial(step, data=data, model=model)
    return inference.run(sweep, state, max_iter=FILLING, tol=1e-4).state.clusters[0]


def _same(data: Data) -> NDArray[np.intp]:
    return np.zeros(data.rows.shape[0], np.intp)


def by_k_means(
    data: Data,
    model: Model,
    max_ranks: tuple[int | None, ...],
    whole: Cluster,
    rng: np.random.Generator,
) -> State:
    """A PCA of each cluster that k-means finds, from the seeds of k-means++.

    `whole` is the cluster of all rows: it fills holes, and its noise is that of clusters too small
    for one of their own.
    """
    values = expected(whole.gaussian, data.rows).values
    labels = _labels(values, data.rows.weights, len(max_ranks), rng)
    clusters = [
        _cluster(data, model, values, labels == k, whole, rank) for k, rank in enumerate(max_ranks)
    ]
    pairs = zip(clusters, max_ranks, strict=True)
    found = [(cluster, rank) for cluster, rank in pairs if cluster is not None]
    return State(tuple(c for c, _ in found), tuple(rank for _, rank in found))


def pruned(
    data: Data,
    model: Model,
    max_ranks: tuple[int | None, ...],
    whole: Cluster,
    rng: np.random.Generator,
) -> State:
    """Twice as many clusters of k-means, and at least ten, of which those that can best be spared
    are taken out. Clusters that have ranks of their own are as many as there are ranks.
    """
    K, n = len(max_ranks), data.rows.shape[0]
    most = max_ranks
    if len(set(max_ranks)) == 1:
        most = max_ranks[:1] * max(K, min(max(TWICE * K, LEAST), n // FEW))
    state = by_k_means(data, model, most, whole, rng)
    sweep = partial(step, data=data, model=model)
    state = inference.run(sweep, state, max_iter=SETTLING, tol=CALM).state
    while len(state.clusters) > K:
        less = with_one_less(state, data, model)
        assert less is not None
        state = less
    return state


def _labels(
    values: FloatArray, weights: FloatArray, K: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    from sklearn.cluster import KMeans

    seed = int(rng.integers(2**31))
    with warnings.catch_warnings():
        # Fewer different rows than clusters: some stay empty, and are left out.
        warnings.simplefilter("ignore")
        found = KMeans(K, n_init=1, random_state=seed).fit(values, sample_weight=weights)
    return np.asarray(found.labels_, np.intp)


def _cluster(
    data: Data,
    model: Model,
    values: FloatArray,
    inside: NDArray[np.bool_],
    whole: Cluster,
    max_rank: int | None,
) -> Cluster | None:
    """The PCA of some rows as filled, None if there are none."""
    rows = data.rows
    count = float(rows.weights[inside].sum())
    if not inside.any():
        return None
    plan = model.plan(max_rank)
    if count < plan.fewest:
        mean = rows.weights[inside] @ values[inside] / count
        return spherical(mean, whole.posterior.scale, max(whole.noise, SOME), count)
    complete = replace(rows, values=values, seen=np.ones((1, rows.shape[1])), pattern=_same(data))
    return updated(complete.taken(inside, rows.weights), None, plan).cluster
