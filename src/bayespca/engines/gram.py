"""Singular values through the Gram matrix of the short side: the least work for exact ones.

Forming it costs n·p·min(n, p) multiplications and additions by a symmetric rank-k update, the
tridiagonal form 4/3·min(n, p)³, and each vector that is kept a little more. Squaring the matrix
squares its condition number: singular values below √ε·γ₁ are lost in rounding. `is_precise` tells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack

from bayespca.spectrum import Solution, Spectrum

from .arrays import array_namespace, device, eps, is_numpy_array, row_blocks, to_namespace, to_numpy
from .records import Array, Decomposition

# How many rounding errors of λ₁ the smallest square that matters must exceed: relative errors of
# 1e-6 in float64, where nothing is lost by demanding it, and of 1e-3 for float32 products.
MARGIN = {np.dtype(np.float64): 1e6, np.dtype(np.float32): 1e3}


def decompose(X: Array, *, center: bool, dtype: Any = None) -> Decomposition:
    """Decompose a matrix by the Gram matrix of its shorter side, products formed in `dtype`."""
    n, p = X.shape
    work = X.dtype if dtype is None else dtype
    if n > p:
        gram, mean = feature_gram(X, center=center, dtype=work)
        return from_feature_gram(gram, like=X, mean=mean, n_samples=n, center=center)
    gram, mean = sample_gram(X, center=center, dtype=work)
    return from_sample_gram(
        gram,
        right=lambda left: _rows(X, mean, left),
        mean=mean,
        n_features=p,
        center=center,
        dtype=X.dtype,
    )


def _rows(X: Array, mean: Array, left: np.ndarray) -> Array:
    """(X − mean)ᵀ·left as rows, centred a block of columns at a time."""
    xp = array_namespace(X)
    left, mean = to_namespace(left, X).T, xp.astype(mean, X.dtype)
    blocks = row_blocks(X, axis=1)
    return xp.concat([xp.matmul(left, X[:, cols] - mean[cols]) for cols in blocks], axis=1)


def is_precise(spectrum: Spectrum, solution: Solution, dtype: np.dtype[Any]) -> bool:
    """Whether rounding errors of a Gram matrix leave the threshold and the noise alone."""
    if not spectrum.singular_values.size or not spectrum.singular_values[0]:
        return True
    largest = spectrum.singular_values[0] * spectrum.scale
    noise = np.sqrt(solution.noise_variance) * np.sqrt(max(spectrum.shape))
    smallest = min(noise, solution.threshold) if solution.threshold else noise
    return bool(smallest**2 >= MARGIN[dtype] * np.finfo(dtype).eps * largest**2)


def feature_gram(X: Array, *, center: bool, dtype: Any) -> tuple[Array, Array]:
    """(X − mean)ᵀ(X − mean) and the mean in float64, from one pass over blocks of rows.

    Rows are shifted by the mean of the first block before they are multiplied, which keeps an
    offset of any size from cancelling; products of blocks are added up in float64.
    """
    xp = array_namespace(X)
    n, p = X.shape
    blocks = row_blocks(X)
    place = {"dtype": xp.float64, "device": device(X)}
    gram, total = xp.zeros((p, p), **place).T, xp.zeros(p, **place)
    shift = _block_mean(X[blocks[0], :], dtype) if center else xp.astype(total, dtype)
    for rows in blocks:
        block = xp.astype(X[rows, :], dtype, copy=False)
        if center:
            block = block - shift
            total += xp.astype(xp.sum(block, axis=0), xp.float64)
        gram = _plus_square(gram, block)
    rest = total / n
    gram -= n * rest[:, None] * rest[None, :]
    return gram, xp.astype(shift, xp.float64) + rest


def _plus_square(gram: Array, block: Array, *, of_rows: bool = False) -> Array:
    """gram + blockᵀ·block, or block·blockᵀ; of NumPy arrays the lower triangle only, in place.

    By SciPy's BLAS, whose LAPACK comes next: NumPy's is another library, with threads of its own
    that go on spinning for a while after their work is done.
    """
    if not is_numpy_array(block):
        left, right = (block, block.T) if of_rows else (block.T, block)
        return gram + array_namespace(block).matmul(left, right)
    by_columns = np.ascontiguousarray(block).T
    if block.dtype == np.float64:
        return blas.dsyrk(1.0, by_columns, 1.0, gram, trans=of_rows, lower=1, overwrite_c=1)
    gram += blas.ssyrk(1.0, by_columns, trans=of_rows, lower=1)
    return gram


def sample_gram(X: Array, *, center: bool, dtype: Any) -> tuple[Array, Array]:
    """(X − mean)(X − mean)ᵀ and the mean in float64, from one pass over blocks of columns."""
    xp = array_namespace(X)
    n, p = X.shape
    place = {"dtype": xp.float64, "device": device(X)}
    gram, mean = xp.zeros((n, n), **place).T, xp.zeros(p, **place)
    for columns in row_blocks(X, axis=1):
        block = xp.astype(X[:, columns], dtype, copy=False)
        if center:
            block, mean[columns] = centred(block)
        gram = _plus_square(gram, block, of_rows=True)
    return gram, mean


def centred(block: Array) -> tuple[Array, Array]:
    """A block less its column means, and the means in float64; exact for any offset.

    The means are removed twice: what is left after the first time is the rounding of the mean.
    """
    xp = array_namespace(block)
    first = _block_mean(block, block.dtype)
    block = block - first
    rest = xp.mean(xp.astype(block, xp.float64, copy=False), axis=0)
    return block - xp.astype(rest, block.dtype), xp.astype(first, xp.float64) + rest


def _block_mean(block: Array, dtype: Any) -> Array:
    xp = array_namespace(block)
    return xp.astype(xp.mean(xp.astype(block, xp.float64, copy=False), axis=0), dtype)


# --- from Gram matrices to decompositions ------------------------------------------------------


def from_feature_gram(
    gram: Array, *, like: Array, mean: Array, n_samples: int, center: bool, engine: str = "gram"
) -> Decomposition:
    """The decomposition of data whose centred p×p Gram matrix is known."""
    eigen = Eigen.of(gram)

    def right(k: int) -> Array:
        return to_namespace(np.ascontiguousarray(eigen.top(k).T), like)

    p = gram.shape[0]
    return Decomposition(
        _spectrum(eigen.values, gram, p, n_samples, center=center, dtype=like.dtype),
        right,
        mean,
        n_samples,
        engine,
    )


def from_sample_gram(
    gram: Array,
    *,
    right: Callable[[np.ndarray], Array],
    mean: Array,
    n_features: int,
    center: bool,
    dtype: Any,
    engine: str = "gram",
) -> Decomposition:
    """The decomposition from the centred n×n Gram matrix.

    `right` takes columns uₕ/γₕ to the rows (X − mean)ᵀuₕ/γₕ.
    """
    eigen = Eigen.of(gram)
    n = gram.shape[0]
    spectrum = _spectrum(eigen.values, gram, n_features, n, center=center, dtype=dtype)

    def top(k: int) -> Array:
        return right(eigen.top(k) / spectrum.singular_values[:k])

    return Decomposition(spectrum, top, mean, n, engine)


def _spectrum(
    values: np.ndarray, gram: Array, p: int, n: int, *, center: bool, dtype: Any
) -> Spectrum:
    """Singular values from eigenvalues in increasing order; centred data have one sample less."""
    M = max(n - 1, 1) if center else n
    largest = np.maximum(values[::-1][: min(p, M)], 0.0)
    trace = float(np.trace(to_numpy(gram)))
    total = max(trace, float(largest.sum()))
    return Spectrum(np.sqrt(largest), (p, M), total, resolution=eps(dtype))


@dataclass(frozen=True)
class Eigen:
    """Eigenvalues of a symmetric matrix, in increasing order; its top eigenvectors on demand."""

    reduced: np.ndarray
    diagonal: np.ndarray
    beside: np.ndarray
    reflectors: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, symmetric: Array) -> Eigen:
        """Reduce once to tridiagonal form, of which both values and vectors come cheaply."""
        a = to_numpy(symmetric)
        n = a.shape[0]
        lwork = int(lapack.dsytrd_lwork(n, lower=1)[0])
        reduced, diagonal, beside, reflectors, _ = lapack.dsytrd(a, lower=1, lwork=lwork)
        values, info = lapack.dsterf(diagonal, beside) if n > 1 else (diagonal, 0)
        if info:
            raise np.linalg.LinAlgError("the eigenvalues of a Gram matrix did not converge")
        return cls(reduced, diagonal, beside, reflectors, values)

    def top(self, k: int) -> np.ndarray:
        """The eigenvectors of the k largest eigenvalues as columns, largest first."""
        n = self.diagonal.size
        if not k or n == 1:
            return np.ones((n, k))
        _, _, z, info = lapack.dstemr(
            self.diagonal, np.append(self.beside, 0.0), 2, 0.0, 1.0, n - k + 1, n
        )
        if info:
            raise np.linalg.LinAlgError("the eigenvectors of a Gram matrix did not converge")
        z = np.asfortranarray(z[:, :k])
        if n > 1:
            # Q is the product of reflectors of the lower part, as a QR factorisation stores them.
            z[1:], _, _ = lapack.dormqr(
                "L", "N", self.reduced[1:, :-1], self.reflectors, z[1:], lwork=64 * k
            )
        return z[:, ::-1]
