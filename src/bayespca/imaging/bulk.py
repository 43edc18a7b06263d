"""The noise of many small matrices, each from the lower part of its spectrum.

The eigenvalues of noise alone, an L×M matrix with L ≤ M, follow the law of `spectrum.noise_law`,
and a signal of rank r leaves those of an (L − r)×(M − r) matrix of noise below its own (Benaych-
Georges and Nadakuditi 2012). The free energy counts components that are too weak to be kept as
noise. A patch of an image always has some, which makes σ 1 to 8 % too large. They lie at the upper
end of the bulk and hardly affect its lower three quarters.
"""

from __future__ import annotations

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.spectrum.closed_form import evb_thresholds
from bayespca.spectrum.noise_law import lower_means

# The share of the noise eigenvalues, from the small end, that estimates the noise.
LOWER = 0.75
# Alternating updates of rank and noise; they usually settle after three or four.
ROUNDS = 8


def bulk_noise(eigenvalues: FloatArray, L: FloatArray, M: FloatArray) -> FloatArray:
    """σ² of each spectrum, (P,), from descending eigenvalues (P, K).

    The first L of a row are those of an L×M matrix, L ≤ M; the others are ignored.
    """
    P, K = eigenvalues.shape
    # Column K − L + j holds the sum of the j smallest of the first L eigenvalues.
    behind = np.arange(K)[None, :] >= L[:, None]
    rising = np.where(behind, 0.0, eigenvalues)[:, ::-1]
    sums = np.concatenate([np.zeros((P, 1)), np.cumsum(rising, axis=1)], axis=1)
    limits = thresholds(L, M)
    rank, noise = np.zeros(P), np.zeros(P)
    for _ in range(ROUNDS):
        l, m = L - rank, M - rank
        lower = _interpolated(sums, K - L + LOWER * l)
        noise = lower / (l * m * lower_means(l / m, LOWER))
        # If signal took more than half of the eigenvalues, no bulk would be left.
        found = (eigenvalues > (noise * limits)[:, None]).sum(axis=1)
        found = np.minimum(found, L // 2)
        if (found == rank).all():
            break
        rank = found.astype(float)
    return noise


def thresholds(L: FloatArray, M: FloatArray) -> FloatArray:
    """EVB's thresholds for many sizes; each distinct size is computed once."""
    sizes, where = np.unique(np.stack([L, M]), axis=1, return_inverse=True)
    each = [evb_thresholds(float(l), np.array([m]))[0] for l, m in sizes.T]
    return np.asarray(each)[np.ravel(where)]


def _interpolated(sums: FloatArray, places: FloatArray) -> FloatArray:
    """Linear interpolation between the columns of each row of sums."""
    first = np.minimum(np.floor(places).astype(np.intp), sums.shape[1] - 2)
    rows, share = np.arange(len(sums)), places - first
    return np.asarray((1 - share) * sums[rows, first] + share * sums[rows, first + 1])
