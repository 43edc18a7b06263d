"""The noise of many small matrices, each from the lower part of its spectrum.

The eigenvalues of noise alone, an L×M matrix with L ≤ M, follow the law of `spectrum.noise_law`,
and a signal of rank r leaves those of an (L − r)×(M − r) matrix of noise below its own (Benaych-
Georges and Nadakuditi 2012). The free energy takes components that are too weak to be kept for
noise. In a patch of an image there are always some, and σ comes out 1 to 8 % too large. They sit at
the upper end of the bulk: the lower three quarters hardly see them.
"""

from __future__ import annotations

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.spectrum.closed_form import evb_thresholds
from bayespca.spectrum.noise_law import lower_means

# The part of the eigenvalues of noise, from the small end, that the noise is taken from.
LOWER = 0.75
# Rounds in which the rank and the noise follow each other; they repeat after three or four.
ROUNDS = 8


def bulk_noise(eigenvalues: FloatArray, L: FloatArray, M: FloatArray) -> FloatArray:
    """σ² of each spectrum: (P,) from eigenvalues in descending order (P, K), of which the first L
    belong to an L×M matrix, L ≤ M, and the others are 0.
    """
    P, K = eigenvalues.shape
    # Sums of the j smallest ones of the first L.
    behind = np.arange(K)[None, :] >= L[:, None]
    rising = np.where(behind, 0.0, eigenvalues)[:, ::-1]
    sums = np.concatenate([np.zeros((P, 1)), np.cumsum(rising, axis=1)], axis=1)
    limits = thresholds(L, M)
    rank, noise = np.zeros(P), np.zeros(P)
    for _ in range(ROUNDS):
        l, m = L - rank, M - rank
        lower = _interpolated(sums, K - L + LOWER * l)
        noise = lower / (l * m * lower_means(l / m, LOWER))
        # Half of them at most: with fewer left there is no bulk.
        found = (eigenvalues > (noise * limits)[:, None]).sum(axis=1)
        found = np.minimum(found, L // 2)
        if (found == rank).all():
            break
        rank = found.astype(float)
    return noise


def thresholds(L: FloatArray, M: FloatArray) -> FloatArray:
    """EVB's thresholds of many sizes, of which there are few different ones."""
    sizes, where = np.unique(np.stack([L, M]), axis=1, return_inverse=True)
    each = [evb_thresholds(float(l), np.array([m]))[0] for l, m in sizes.T]
    return np.asarray(each)[np.ravel(where)]


def _interpolated(sums: FloatArray, places: FloatArray) -> FloatArray:
    """Entries of each row of sums between two columns."""
    first = np.minimum(np.floor(places).astype(np.intp), sums.shape[1] - 2)
    rows, share = np.arange(len(sums)), places - first
    return np.asarray((1 - share) * sums[rows, first] + share * sums[rows, first + 1])
