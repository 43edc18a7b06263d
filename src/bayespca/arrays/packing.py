"""Many small symmetric matrices, packed: the upper triangle row by row, as `np.triu_indices`.

Also their inverses, roots, and draws from the normal vectors whose covariances they are.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

from .namespaces import array_namespace, device, is_numpy_array, is_torch_array
from .places import at, taken
from .types import Array, FloatArray, Index

# Most matrices to decompose in one call: cuSOLVER fails at a hundred thousand.
AT_ONCE = 10_000
# Rows from which matrices are inverted one by one, by fewer operations.
BY_LAPACK = 32


@lru_cache(maxsize=256)
def triangle(H: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows and columns of the entries of a packed triangle: `np.triu_indices`, cached by size.

    Every block of rows needs them several times.
    """
    rows, columns = np.triu_indices(H)
    rows.flags.writeable = columns.flags.writeable = False
    return rows, columns


def packed(matrices: Array) -> Array:
    """The upper triangles of (…, H, H), one row of H(H + 1)/2 each."""
    return _entries(matrices, _upper)


def packed_beside_last(matrices: Array) -> Array:
    """`packed` without the last row and column, then the last column without its last entry.

    One row of H(H + 1)/2 + H for each of (…, H + 1, H + 1).
    """
    return _entries(matrices, _upper_beside_last)


def unpacked(triangles: Array, size: int) -> Array:
    """The symmetric matrices (…, size, size) of packed triangles."""
    xp = array_namespace(triangles)
    full = _selected(triangles, _placed(_both, size, xp, _Place.of(triangles)))
    return xp.reshape(full, (*triangles.shape[:-1], size, size))


def _entries(matrices: Array, index: Callable[[int], NDArray[np.intp]]) -> Array:
    """Some entries of each matrix, counted row by row."""
    xp, H = array_namespace(matrices), matrices.shape[-1]
    flat = xp.reshape(matrices, (*matrices.shape[:-2], H * H))
    return _selected(flat, _placed(index, H, xp, _Place.of(flat)))


def _selected(entries: Array, index: Array) -> Array:
    """entries[…, index]"""
    if is_torch_array(entries):
        # The standard's `take` would first have torch check the index for negative entries.
        return entries.index_select(-1, index)
    return array_namespace(entries).take(entries, index, axis=-1)


def _upper(H: int) -> NDArray[np.intp]:
    """Positions in the matrix, counted row by row, of the entries of a packed triangle."""
    i, j = np.triu_indices(H)
    return i * H + j


def _upper_beside_last(K: int) -> NDArray[np.intp]:
    i, j = np.triu_indices(K - 1)
    return np.append(i * K + j, np.arange(K - 1) * K + K - 1)


def _both(H: int) -> NDArray[np.intp]:
    """Positions in the packed triangle of the entries of the matrix, row by row."""
    i, j = np.triu_indices(H)
    place = np.empty((H, H), dtype=np.intp)
    place[i, j] = place[j, i] = np.arange(i.size)
    return place.ravel()


@dataclass(frozen=True)
class _Place:
    """A device identified by its name, because not every library's devices can be hashed."""

    name: str
    device: Any = field(compare=False)

    @classmethod
    def of(cls, a: Array) -> _Place:
        return cls(str(device(a)), device(a))


@lru_cache(maxsize=128)
def _placed(index: Callable[[int], NDArray[np.intp]], H: int, xp: Any, place: _Place) -> Array:
    """An index on the device where it is used, cached.

    Every sweep uses each of them, and a device waits for those that come from the host.
    """
    return xp.asarray(index(H), device=place.device)


def turned(matrices: Array, change: Array) -> Array:
    """change·M·changeᵀ of symmetric matrices M, with two products for all of them."""
    xp = array_namespace(matrices)
    p, H = matrices.shape[:2]
    k = change.shape[0]
    half = xp.reshape(xp.reshape(matrices, (p * H, H)) @ change.T, (p, H, k))
    half = xp.reshape(xp.matrix_transpose(half), (p * k, H))
    return xp.reshape(half @ change.T, (p, k, k))


def times(matrices: Array, v: Array) -> Array:
    """M·v of each matrix M, with one product for all of them."""
    xp = array_namespace(matrices)
    p, H = matrices.shape[:2]
    return xp.reshape(xp.reshape(matrices, (p * H, H)) @ v, (p, H))


def times_each(matrices: Array, rows: Array) -> Array:
    """Product of each row with a matrix of its own."""
    return array_namespace(rows).matmul(matrices, rows[:, :, None])[:, :, 0]


def inverses(precision: Array) -> tuple[Array, Array]:
    """Inverses of positive definite matrices, and the logarithms of their determinants."""
    xp, (*several, H) = array_namespace(precision), precision.shape[:-1]
    if H >= BY_LAPACK and is_numpy_array(precision):
        # One by one, in a quarter of the operations.
        lapack: Any = get_lapack_funcs(("potrf", "potri"), (precision,))
        potrf, potri = lapack
        inverse, log_dets = np.empty_like(precision), np.empty(several)
        for i in np.ndindex(*several):
            root, info = potrf(precision[i])
            if info:
                raise np.linalg.LinAlgError("the matrix is not positive definite")
            upper = np.triu(potri(root)[0])
            inverse[i] = upper + upper.T
            inverse[i][np.diag_indices(H)] *= 0.5
            log_dets[i] = -2 * float(np.log(root.diagonal()).sum())
        return inverse, log_dets
    root = xp.linalg.cholesky(precision)
    log_dets = -2 * xp.sum(xp.log(xp.linalg.diagonal(root)), axis=-1)
    inverse_root = xp.linalg.inv(root)
    return xp.matmul(xp.matrix_transpose(inverse_root), inverse_root), log_dets


def pseudo_inverses(squares: Array, least: float) -> Array:
    """Pseudo-inverses of symmetric matrices; eigenvalues below `least` times the largest are 0."""
    xp = array_namespace(squares)
    values, vectors = xp.linalg.eigh(squares)
    known = values > least * values[:, -1:]
    inverse = xp.where(known, 1 / xp.where(known, values, xp.ones_like(values)), 0 * values)
    return xp.matmul(vectors * inverse[:, None, :], xp.matrix_transpose(vectors))


def roots(covariances: Array) -> Array:
    """R with R·Rᵀ = Σ of each covariance Σ, even of those that are singular but for rounding.

    R does not depend on the signs of eigenvectors, which rounding decides.
    """
    xp = array_namespace(covariances)
    if covariances.shape[0] > AT_ONCE:
        parts = range(0, covariances.shape[0], AT_ONCE)
        return xp.concat([roots(covariances[i : i + AT_ONCE]) for i in parts])
    if is_numpy_array(covariances) or is_torch_array(covariances):
        # An eigendecomposition takes ten times as long. RuntimeError is torch's.
        with suppress(np.linalg.LinAlgError, RuntimeError):
            return xp.linalg.cholesky(covariances)
    values, vectors = xp.linalg.eigh(covariances)
    sizes = xp.sqrt(xp.where(values > 0, values, 0 * values))
    return xp.matmul(vectors * sizes[:, None, :], xp.matrix_transpose(vectors))


def are_covariances(matrices: NDArray[np.float64]) -> bool:
    """Whether no eigenvalue of a stack of symmetric matrices is negative, but for rounding."""
    variances = np.linalg.eigvalsh(matrices)
    slack = 1e-6 * np.abs(variances).max(initial=0.0)
    return bool((variances >= -slack).all())


def with_ones(a: Array) -> Array:
    """ã = (a, 1)"""
    xp = array_namespace(a)
    return xp.concat([a, xp.ones((a.shape[0], 1), dtype=a.dtype, device=device(a))], axis=1)


def normal_vectors(cov: Array, rng: np.random.Generator, which: Index) -> Array:
    """Draws from N(0, cov), one for each of `which`; covariances may be singular."""
    root = taken(roots(cov), which)
    return times_each(root, at(cov, rng.normal(size=(which.size, cov.shape[-1]))))


def wishart_root(dof: float, q: int, rng: np.random.Generator) -> FloatArray:
    """Z of at most q rows such that ZᵀZ ~ Wishart_q(I, dof): Bartlett's triangle if dof > q."""
    if dof <= q:
        return rng.normal(size=(int(dof), q))
    Z = np.triu(rng.normal(size=(q, q)), 1)
    np.fill_diagonal(Z, np.sqrt(rng.chisquare(dof - np.arange(q))))
    return Z
