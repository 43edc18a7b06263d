"""Draws of loadings made comparable: W is known only up to rotations, order and signs.

Only WWᵀ is identified. The signs of its eigenvectors and, where eigenvalues are close, their order
differ between draws; `matched` fixes both and leaves everything else as drawn, so that the spread
is that of the principal axes. `turned` rotates W onto a reference, so that the remaining spread
excludes rotations within the subspace.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from bayespca.arrays.types import FloatArray


def principal_axes(W: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues of WWᵀ of each draw, descending (…, q), and eigenvectors as rows (…, q, d)."""
    values, vectors = np.linalg.eigh(np.swapaxes(W, -1, -2) @ W)
    values, vectors = np.maximum(values[..., ::-1], 0), vectors[..., ::-1]
    lengths = np.sqrt(values)[..., None]
    axes = np.swapaxes(W @ vectors, -1, -2) / np.where(lengths > 0, lengths, 1)
    return values, axes


def matched(axes: FloatArray, reference: FloatArray) -> FloatArray:
    """Rows of each draw (…, k, d) in the order and with the signs nearest to those of a reference.

    The order is the assignment that maximises the sum of |cosines|.
    """
    found = np.empty_like(axes)
    for at in np.ndindex(axes.shape[:-2]):
        cosines = reference @ axes[at].T
        rows, columns = linear_sum_assignment(-np.abs(cosines))
        signs = np.where(cosines[rows, columns] < 0, -1.0, 1.0)
        found[at] = signs[:, None] * axes[at][columns]
    return found


def turned(W: FloatArray, reference: FloatArray) -> FloatArray:
    """WQ of each draw, (…, d, q) to (…, d, k), nearest to a reference (d, k) with QᵀQ = I.

    Orthogonal Procrustes: Q = UVᵀ of the singular vectors of Wᵀ·reference.
    """
    U, _, Vt = np.linalg.svd(np.swapaxes(W, -1, -2) @ reference, full_matrices=False)
    return W @ (U @ Vt)
