"""Starting points of mixtures of Bernoulli distributions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray
from bayespca.spectrum.tolerances import TINY

from .data import BernoulliRows
from .family import BernoulliSums
from .step import BernoulliState, added, sums_of


def kmeans_plus_plus(data: BernoulliRows, K: int, rng: np.random.Generator) -> BernoulliState:
    """Assign each row to the nearest of K centres, drawn as in k-means++.

    Centres are rows, drawn one after another with probability proportional to the squared distance
    from the nearest centre so far (Arthur and Vassilvitskii 2007). Holes count as the share of ones
    in their column.
    """
    n = data.shape[0]
    weights = data.weights_of(slice(0, n))
    centre = int(rng.choice(n, p=weights / weights.sum()))
    nearest, owner = data.squared_distances(centre), np.zeros(n, dtype=np.intp)
    for k in range(1, K):
        chances = weights * nearest
        # Fewer different rows than clusters: the rest are drawn from all rows.
        chances = chances if chances.sum() > 0 else weights
        centre = int(rng.choice(n, p=chances / chances.sum()))
        distance = data.squared_distances(centre)
        owner[distance < nearest] = k
        nearest = np.minimum(nearest, distance)
    return _owned(data, K, owner)


def random_from_data(data: BernoulliRows, K: int, rng: np.random.Generator) -> BernoulliState:
    """Assign each row to the nearest of K different rows, drawn at random."""
    n = data.shape[0]
    chances = None if data.weights is None else data.weights / data.weights.sum()
    centres = rng.choice(n, size=K, replace=False, p=chances)
    distances = np.stack([data.squared_distances(int(i)) for i in centres])
    return _owned(data, K, distances.argmin(axis=0))


def random(data: BernoulliRows, K: int, rng: np.random.Generator) -> BernoulliState:
    """Draw the responsibilities at random."""
    q = rng.random((data.shape[0], K))
    return _with_responsibilities(data, lambda rows: q[rows] / q[rows].sum(axis=1, keepdims=True))


STARTS: dict[str, Callable[[BernoulliRows, int, np.random.Generator], BernoulliState]] = {
    "k-means++": kmeans_plus_plus,
    "random_from_data": random_from_data,
    "random": random,
}


def with_given(
    state: BernoulliState, data: BernoulliRows, weights: FloatArray | None, means: FloatArray | None
) -> BernoulliState:
    """Replace the weights and the probabilities by given ones, where there are any."""
    sums = state.sums
    shares = sums.ones / np.maximum(sums.seen, TINY)
    if means is not None:
        shares = means
    if weights is not None or means is not None:
        K = state.n_clusters
        sizes = data.total * (np.full(K, 1 / K) if weights is None else weights)
        seen = np.repeat(sizes[:, None], data.shape[1], axis=1)
        sums = BernoulliSums(sizes, seen * shares, seen)
    return replace(state, sums=sums)


def _owned(data: BernoulliRows, K: int, owner: NDArray[np.intp]) -> BernoulliState:
    """The state in which each row belongs to one cluster, its `owner`."""
    return _with_responsibilities(data, lambda rows: np.eye(K)[owner[rows]])


def _with_responsibilities(
    data: BernoulliRows, of_rows: Callable[[slice], FloatArray]
) -> BernoulliState:
    weights = data.weights_of
    parts = ((data.part(rows), of_rows(rows) * weights(rows)[:, None]) for rows in data.blocks)
    return BernoulliState(added(sums_of(some.values, some.known, q) for some, q in parts))
