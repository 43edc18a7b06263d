"""The posterior of rows given that of columns, pattern by pattern: by NumPy, and by numba for many.

Symmetric matrices are packed: their upper triangle, row by row, as `np.triu_indices` orders it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Rows = tuple[FloatArray, FloatArray, FloatArray, FloatArray]

# Multiplications beyond which a compiled kernel is worth the seconds of its first compilation.
MANY = 5e7


def rows_given_columns(
    gram: FloatArray,
    pull: FloatArray,
    order: NDArray[np.intp],
    starts: NDArray[np.intp],
    weights: FloatArray,
    ridge: FloatArray,
    s2: float,
) -> Rows:
    """Means, packed covariances, packed Σ⟨ããᵀ⟩ over the rows of each pattern, and log |Σ|.

    Parameters
    ----------
    gram
        Σⱼ⟨bⱼbⱼᵀ⟩ over the observed columns of each pattern, packed: (m, H(H+1)/2).
    pull
        Σⱼ(xⱼ⟨bⱼ⟩ − ⟨bⱼμⱼ⟩) of each row: (n, H).
    order, starts
        Rows sorted by pattern, and where each pattern begins among them, with n at the end.
    weights
        How often the covariance of each pattern counts in Σ⟨ããᵀ⟩: (m,).
    ridge
        σ²/cₐ²: (H,).
    """
    H = ridge.size
    work = len(gram) * float(H) ** 3 + len(pull) * float(H) ** 2
    if work <= MANY:
        return by_numpy(gram, pull, order, starts, weights, ridge, s2)
    # numba takes a second to import, and its kernel a few more to compile for the first time.
    from .compiled import by_loops

    found: Rows = by_loops(gram, pull, order, starts, weights, ridge, s2)
    return found


def by_numpy(
    gram: FloatArray,
    pull: FloatArray,
    order: NDArray[np.intp],
    starts: NDArray[np.intp],
    weights: FloatArray,
    ridge: FloatArray,
    s2: float,
) -> Rows:
    """The same by NumPy: what the compiled kernel is tested by."""
    n, H = pull.shape
    i, j = np.triu_indices(H)
    precision = np.empty((len(gram), H, H))
    precision[:, i, j] = gram
    precision[:, j, i] = gram
    precision[:, range(H), range(H)] += ridge
    root = np.linalg.cholesky(precision / s2)
    log_dets = -2 * np.log(np.einsum("mhh->mh", root)).sum(axis=1)
    inverse_root = np.linalg.inv(root)
    cov = np.swapaxes(inverse_root, 1, 2) @ inverse_root
    pattern = np.empty(n, dtype=np.intp)
    pattern[order] = np.repeat(np.arange(len(gram)), np.diff(starts))
    a = np.einsum("nhk,nk->nh", cov[pattern], pull) / s2
    ones = np.concatenate([a, np.ones((n, 1))], axis=1)[order]
    k, l = np.triu_indices(H + 1)
    second = np.add.reduceat(ones[:, k] * ones[:, l], starts[:-1], axis=0)
    second[:, l < H] += weights[:, None] * cov[:, i, j]
    return a, cov[:, i, j], second, log_dets
