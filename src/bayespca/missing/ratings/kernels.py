"""The posterior of the rows of one factor given the other: by NumPy, what the loops compute.

Symmetric matrices are packed: their upper triangle, row by row, as `np.triu_indices` orders it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayespca.arrays.packing import inverses, packed, unpacked
from bayespca.arrays.types import FloatArray

from .data import Side

# Rows beyond which compiled loops are worth the second that numba takes to import.
MANY = 200
# Rows whose matrices are inverted at a time.
BLOCK = 4096


class Regressors(NamedTuple):
    """What one factor is to the other: for each of its rows z = (b, 1), or b without biases.

    Attributes
    ----------
    second
        ⟨zzᵀ⟩, packed: (m, K(K + 1)/2).
    mean
        ⟨z⟩: (m, K).
    drift
        ⟨z·v⟩ with v the bias of the row, which the other factor sees as given: (m, K).
    """

    second: FloatArray
    mean: FloatArray
    drift: FloatArray


class Found(NamedTuple):
    """Means (n, K), packed covariances, Σlog|Σᵢ| as log|Σᵢ| (n,), and what the fit takes from Σx²:
    −2θᵀr + tr⟨θθᵀ⟩G (n,) for the θ, r and G of each row.

    Where θ is point-estimated, covariances have no rows and log|Σᵢ| is 0.
    """

    mean: FloatArray
    cov: FloatArray
    log_dets: FloatArray
    fits: FloatArray


def by_numpy(
    side: Side, given: Regressors, prior: FloatArray, s2: float, integrated: bool
) -> Found:
    """r(θᵢ) = N(Σᵢrᵢ/σ², Σᵢ), Σᵢ = (Gᵢ/σ² + 1/c²)⁻¹, Gᵢ = Σⱼ⟨zⱼzⱼᵀ⟩, rᵢ = Σⱼ(xᵢⱼ⟨zⱼ⟩ − ⟨zⱼvⱼ⟩)."""
    n, K = side.starts.size - 1, prior.size
    G, r = np.zeros((n, K * (K + 1) // 2)), np.zeros((n, K))
    for i in range(n):
        cells = slice(side.starts[i], side.starts[i + 1])
        j, x = side.other[cells], side.values[cells]
        G[i] = given.second[j].sum(axis=0)
        r[i] = x @ given.mean[j] - given.drift[j].sum(axis=0)
    return given_sums(G, r, prior, s2, integrated)


def given_sums(
    G: FloatArray, r: FloatArray, prior: FloatArray, s2: float, integrated: bool
) -> Found:
    """The posterior of rows from their sums G, packed (n, K(K + 1)/2), and r (n, K)."""
    n, K = r.shape
    mean = np.zeros((n, K))
    cov = np.zeros((n if integrated else 0, G.shape[1]))
    log_dets, fits = np.zeros(n), np.zeros(n)
    for first in range(0, n, BLOCK):
        rows = slice(first, first + BLOCK)
        full = unpacked(G[rows], K)
        C, log_det = inverses(full / s2 + np.diag(1 / prior))
        mean[rows] = np.einsum("ihk,ik->ih", C, r[rows]) / s2
        second = mean[rows, :, None] * mean[rows, None, :]
        if integrated:
            cov[rows], log_dets[rows] = packed(C), log_det
            second += C
        fits[rows] = -2 * np.einsum("ih,ih->i", mean[rows], r[rows])
        fits[rows] += np.einsum("ihk,ihk->i", second, full)
    return Found(mean, cov, log_dets, fits)


def updated(side: Side, given: Regressors, prior: FloatArray, s2: float, integrated: bool) -> Found:
    """The posterior of one factor given the other, by whichever way is quicker."""
    if side.starts.size <= MANY:
        return by_numpy(side, given, prior, s2, integrated)
    # numba takes a second to import, and its kernel a few more to compile for the first time.
    from .compiled import by_loops

    return Found(*by_loops(side.starts, side.other, side.values, given, prior, s2, integrated))
