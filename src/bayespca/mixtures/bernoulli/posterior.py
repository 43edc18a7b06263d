"""Results of a fitted mixture of Bernoulli distributions: clusters, densities, draws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray, Matrix, Vector
from bayespca.sources.data import BinaryCells
from bayespca.spectrum.tolerances import LEAST_PROBABILITY

from .data import BernoulliRows
from .family import BernoulliLogs
from .step import log_joint, normalised

# Largest number of probabilities for which J is inverted.
MOST = 1000
# Least share of the information that remains along any direction.
LEAST = 0.02


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
        return BernoulliLogs.of(self.weights, self.means)

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


# --- uncertain memberships -----------------------------------------------------------------------


def with_memberships(clusters: BernoulliClusters, data: BernoulliRows) -> BernoulliClusters:
    """Clusters with standard deviations widened for the uncertain memberships of rows.

    If the cluster of each row were known, p_kd would have a Beta posterior. Not knowing it loses
    information (Louis, J. R. Stat. Soc. B 44, 1982). In units of the Beta's standard deviations,
    what remains is

        J = I − Σ_n (⟨s_n s_nᵀ⟩ − ⟨s_n⟩⟨s_n⟩ᵀ),
        s_n,kd = z_nk (x_nd − p_kd)/(p_kd(1 − p_kd))·std_kd

    and the variances are the diagonal of J⁻¹. The parameters include the weights of the clusters:
    s_n,k = z_nk/√(Nπ_k).
    """
    std = clusters.means_std
    if len(std) == 1 or std.size > MOST or not std.any():
        return clusters
    missing = np.sum([_missing(clusters, data, rows) for rows in data.blocks], axis=0)
    values, vectors = np.linalg.eigh(np.eye(len(missing)) - missing)
    wider = vectors**2 @ (1 / np.maximum(values, LEAST))
    of_means = wider.reshape(len(std), -1)[:, :-1]
    return replace(clusters, means_std=std * np.sqrt(np.maximum(of_means, 1.0)))


def _missing(clusters: BernoulliClusters, data: BernoulliRows, rows: slice) -> FloatArray:
    """Σ_n (⟨s_n s_nᵀ⟩ − ⟨s_n⟩⟨s_n⟩ᵀ) over some rows: the information they lose."""
    cells, (K, p) = data.part(rows), clusters.means.shape
    q, _ = normalised(log_joint(cells.values, cells.known, clusters.logs))
    w = data.weights_of(rows)
    m = np.clip(clusters.means, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    s = (cells.values[:, None, :] - m) * (clusters.means_std / (m * (1 - m)))
    if cells.known is not None:
        s *= cells.known[:, None, :]
    of_weights = 1 / np.sqrt(data.total * clusters.weights)
    s = np.concatenate([s, np.broadcast_to(of_weights[:, None], (len(q), K, 1))], axis=2)
    mean = (q[:, :, None] * s).reshape(len(q), -1)
    found = -(mean.T * w) @ mean
    for k in range(K):
        own = slice(k * (p + 1), (k + 1) * (p + 1))
        found[own, own] += (s[:, k].T * (w * q[:, k])) @ s[:, k]
    return np.asarray(found)
