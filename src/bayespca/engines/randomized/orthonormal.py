"""Rows made orthonormal, by products alone as long as they are well conditioned."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from bayespca.arrays.namespaces import (
    array_namespace,
    cast,
    eps,
    to_namespace,
    to_numpy,
    triangular_inverse,
)
from bayespca.arrays.types import Array, FloatArray
from bayespca.spectrum.tolerances import EPS

# Least ratio of the eigenvalues of a Gram matrix to its largest, in units of the precision of the
# numbers: rows that Cholesky's factor makes orthonormal are so to a hundredth at worst.
WELL = 100.0


@runtime_checkable
class Distant(Protocol):
    """Rows that stay elsewhere: of their QR factorisation as columns, only R comes here."""

    def triangle(self) -> FloatArray: ...

    def __rmatmul__(self, small: FloatArray) -> Array: ...


def singular(B: Array, tolerance: float) -> tuple[FloatArray, Array]:
    """Singular values of a wide matrix in decreasing order, and its right vectors as rows.

    It uses the eigenvalues of B·Bᵀ, in a quarter of the time, where rounding errors of the largest
    stay far below the tolerance in the vectors of the smallest.
    """
    xp = array_namespace(B)
    if not B.shape[0]:
        return np.zeros(0), B
    squares, left = xp.linalg.eigh(B @ B.T)
    known = to_numpy(squares)
    if known[0] * 0.01 * tolerance <= EPS * known[-1]:
        _, values, right = np.linalg.svd(to_numpy(B), full_matrices=False)
        return values, to_namespace(right, B)
    return np.sqrt(known[::-1]), xp.flip((left / xp.sqrt(squares)).T, axis=0) @ B


def projected(image: Array, rows: Array) -> tuple[Array, Array]:
    """C = image·rowsᵀ in float64, and the rest of the image, image − C·rows."""
    along = image @ rows.T
    return _wide(along), image - along @ rows


def gram_of(image: Array) -> Array:
    return _wide(image @ image.T)


def _wide(small: Array) -> Array:
    return cast(small, array_namespace(small).float64)


def orthonormal(image: Array, gram: Array, floor: float) -> tuple[Array, Array]:
    """R and orthonormal rows with image = R·rows, without directions that are below `floor`.

    It uses Cholesky's factor of the Gram matrix, and so products only, as long as that is well
    conditioned: a second call makes rows orthonormal to full precision. Else Householder's QR.
    """
    if not image.shape[0]:
        return gram, image
    R, inverse = _cholesky(gram, least=WELL * eps(image.dtype), floor=floor)
    if R is not None:
        return R, cast(inverse, image.dtype) @ image
    if isinstance(image, Distant):
        # Q would be as tall. Small directions come out with rounding errors of the large ones,
        # which a second call removes.
        _, sizes, right = np.linalg.svd(image.triangle())
        keep = sizes > floor
        return right[keep].T * sizes[keep], (right[keep] / sizes[keep, None]) @ image
    Q, R = array_namespace(image).linalg.qr(image.T)
    left, sizes, right = np.linalg.svd(to_numpy(R).astype(np.float64))
    keep = sizes > floor
    turned = to_namespace(left[:, keep].T, image) @ Q.T
    return to_namespace(right[keep].T * sizes[keep], gram), turned


def _cholesky(gram: Array, *, least: float, floor: float) -> tuple[Array, Array]:
    """Cholesky's factor and its inverse; None where the smallest eigenvalue is not above `least`
    times the largest, or not above the square of `floor`.

    The inverse is small and well conditioned, and will be multiplied by long rows.
    """
    xp = array_namespace(gram)
    try:
        R = xp.linalg.cholesky(gram)
        inverse = triangular_inverse(R)
    except (np.linalg.LinAlgError, RuntimeError):  # the latter is what torch raises
        return None, None
    # Cheap bounds of both may decide already; the second one serves rows that are nearly
    # orthonormal.
    middle = xp.mean(xp.linalg.diagonal(gram))
    size = xp.linalg.matrix_norm(gram)
    off = xp.sqrt(xp.clip(size**2 - gram.shape[0] * middle**2, 0.0))
    bounds = xp.stack([1.0 / xp.sum(inverse**2), middle - off, size])
    by_inverse, by_middle, largest = to_numpy(bounds)
    if max(by_inverse, by_middle) > max(least * largest, floor**2):
        return R, inverse
    squares = to_numpy(xp.linalg.eigvalsh(gram))
    good = squares[0] > max(least * squares[-1], floor**2)
    return (R, inverse) if good else (None, None)
