"""Results of a fitted mixture of Bernoulli distributions: clusters, densities, draws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray, Matrix, Vector
from bayespca.mixtures.weights import log_weights
from bayespca.sources.data import BinaryCells
from bayespca.spectrum.tolerances import LEAST_PROBABILITY

from .data import BernoulliRows
from .family import BernoulliLogs
from .step import log_joint, normalised


@dataclass(frozen=True, eq=False)
class BernoulliClusters:
    """K clusters in p features.

    Attributes
    ----------
    weights
        Posterior mean of π: (K,).
    means, means_std
        Posterior mean of p_kd and its standard deviation, 0 where p is point-estimated: (K, p).

    Within a cluster the cells of a row are independent, even when p is integrated out. So the
    predictive distribution is exactly the mixture with the posterior means.
    """

    weights: Vector
    means: Matrix
    means_std: Matrix

    @property
    def logs(self) -> BernoulliLogs:
        means = np.clip(self.means, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
        return BernoulliLogs(log_weights(self.weights), np.log(means), np.log1p(-means))

    def check(self) -> None:
        """Raise ValueError unless the arrays fit together and hold probabilities."""
        shape, weights = self.means.shape, self.weights
        if weights.shape != shape[:1] or self.means_std.shape != shape or not shape[0]:
            raise ValueError("the arrays of BernoulliClusters are empty or of different sizes")
        known = (weights >= 0).all() and 0 < weights.sum() < np.inf
        if not (known and ((self.means >= 0) & (self.means <= 1)).all()):
            raise ValueError("the weights or means of BernoulliClusters are not probabilities")


def log_density(clusters: BernoulliClusters, cells: BinaryCells) -> FloatArray:
    """log p(x) of the observed cells of each row: (n,)."""
    return np.concatenate([log_norm for _, log_norm in _by_block(clusters, cells)])


def responsibilities(clusters: BernoulliClusters, cells: BinaryCells) -> FloatArray:
    """Probability of each cluster for each row: (n, K)."""
    return np.concatenate([q for q, _ in _by_block(clusters, cells)])


def probabilities(clusters: BernoulliClusters, cells: BinaryCells) -> FloatArray:
    """Probability that a cell is 1 given the observed cells of its row: Σ_k q_nk p_kd.

    For an observed cell, this is the prediction for a new cell of the same row and column.
    """
    return responsibilities(clusters, cells) @ clusters.means


def sample(
    clusters: BernoulliClusters, n: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """n new rows, sorted by cluster, and the cluster of each."""
    sizes = rng.multinomial(n, clusters.weights / clusters.weights.sum())
    labels = np.repeat(np.arange(sizes.size), sizes)
    rows = rng.random((n, clusters.means.shape[1])) < clusters.means[labels]
    return rows.astype(np.int64), labels


def _by_block(
    clusters: BernoulliClusters, cells: BinaryCells
) -> Iterator[tuple[FloatArray, FloatArray]]:
    logs = clusters.logs
    for rows in BernoulliRows(cells.ones, cells.seen).blocks:
        part = cells.part(rows)
        yield normalised(log_joint(part.values, part.known, logs))
