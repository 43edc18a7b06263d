"""Standard deviations of probabilities that allow for uncertain cluster memberships.

If the cluster of each row were known, p_kd would have a Beta posterior. Not knowing it loses
information (Louis, J. R. Stat. Soc. B 44, 1982). In units of the Beta's standard deviations, what
remains is

    J = I − Σ_n (⟨s_n s_nᵀ⟩ − ⟨s_n⟩⟨s_n⟩ᵀ),   s_n,kd = z_nk (x_nd − p_kd)/(p_kd(1 − p_kd))·std_kd

and the variances are the diagonal of J⁻¹. The parameters include the weights of the clusters:
s_n,k = z_nk/√(Nπ_k).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.spectrum.tolerances import LEAST_PROBABILITY

from .data import BernoulliRows
from .posterior import BernoulliClusters
from .step import log_joint, normalised

# Largest number of probabilities for which J is inverted.
MOST = 1000
# Least share of the information that remains along any direction.
LEAST = 0.02


def with_memberships(clusters: BernoulliClusters, data: BernoulliRows) -> BernoulliClusters:
    """Clusters with standard deviations widened for the uncertain memberships of rows."""
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
    w = np.ones(len(q)) if data.weights is None else data.weights[rows]
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
