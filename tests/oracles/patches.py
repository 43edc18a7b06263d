"""Denoising in loops over patches, each by its own SVD and `solve`."""

from __future__ import annotations

from itertools import product

import numpy as np

from bayespca.spectrum import Spectrum, solve


def denoised(data, mask, size, noise_variance):
    """Denoised data, given the noise variance E|e|² of each cell."""
    V, inside = data.shape[3], mask.astype(bool)
    sums, weights = np.zeros(data.shape, data.dtype), np.zeros(data.shape[:3])
    for corner in product(*(range(s - k + 1) for s, k in zip(data.shape, size, strict=False))):
        where = tuple(slice(c, c + k) for c, k in zip(corner, size, strict=True))
        some = inside[where]
        n = int(some.sum())
        if n < 5:
            continue
        X = data[where][some]
        mean = X.mean(axis=0)
        left, gamma, right = np.linalg.svd(X - mean, full_matrices=False)
        # Centring takes up one row.
        kept = min(n - 1, V)
        sizes = sorted((n - 1, V))
        found = solve(Spectrum(gamma[:kept], tuple(sizes)), noise_variance=noise_variance)
        k = found.rank
        shrunk = np.asarray(found.shrunk_singular_values)[:k]
        signal = (left[:, :k] * shrunk) @ right[:k] + mean
        d = shrunk / gamma[:k]
        z = gamma[:k] * shrunk / noise_variance
        spread = (d * (sum(sizes) + sizes[0] * sizes[1] / z)).sum()
        weight = 1 / (noise_variance * (1 / n + spread / (n * V)))
        sums[where][some] += weight * signal
        weights[where][some] += weight
    there = weights > 0
    out = data.copy()
    out[there] = sums[there] / weights[there][:, None]
    return out
