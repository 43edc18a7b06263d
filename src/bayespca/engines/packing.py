"""Many small symmetric matrices, packed: the upper triangle row by row, as `np.triu_indices`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import array_namespace
from .places import taken

# Arrays of any namespace.
Array = Any


def packed(matrices: Array) -> Array:
    """The upper triangles of (…, H, H), one row of H(H + 1)/2 each."""
    H = matrices.shape[-1]
    i, j = np.triu_indices(H)
    xp = array_namespace(matrices)
    return taken(xp.reshape(matrices, (*matrices.shape[:-2], H * H)), i * H + j, axis=-1)


def unpacked(triangles: Array, size: int) -> Array:
    """The symmetric matrices (…, size, size) of packed triangles."""
    i, j = np.triu_indices(size)
    place = np.empty((size, size), dtype=np.intp)
    place[i, j] = place[j, i] = np.arange(i.size)
    full = taken(triangles, place.ravel(), axis=-1)
    return array_namespace(triangles).reshape(full, (*triangles.shape[:-1], size, size))


def inverses(precision: Array) -> tuple[Array, Array]:
    """Inverses of positive definite matrices, and the logarithms of their determinants."""
    xp = array_namespace(precision)
    root = xp.linalg.cholesky(precision)
    log_dets = -2 * xp.sum(xp.log(xp.linalg.diagonal(root)), axis=-1)
    inverse_root = xp.linalg.inv(root)
    return xp.matmul(xp.matrix_transpose(inverse_root), inverse_root), log_dets
