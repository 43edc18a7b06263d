"""Singular values through the Gram matrix of the short side: the least work for exact ones.

Forming it costs n·p·min(n, p) multiplications and additions by a symmetric rank-k update, the
tridiagonal form 4/3·min(n, p)³, and each vector that is kept a little more. Squaring the matrix
squares its condition number: singular values below √ε·γ₁ are lost in rounding, which `is_precise`
checks. Sparse matrices are centred without being made dense.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import lapack

from bayespca.arrays.namespaces import (
    array_namespace,
    device,
    eps,
    is_numpy_array,
    row_blocks,
    to_namespace,
    to_numpy,
)
from bayespca.arrays.parallel import blas_threads, one_blas_thread
from bayespca.arrays.types import AnyDType, Array, DType, FloatArray, Sparse
from bayespca.spectrum.records import Solution, Spectrum, samples

from .records import Decomposition

# Rounding errors of λ₁ that the smallest square of interest must exceed: relative errors of 1e-6 in
# float64, where nothing is lost by demanding it, and of 1e-3 for float32 products.
MARGIN = {np.dtype(np.float64): 1e6, np.dtype(np.float32): 1e3}

# Number of rows whose mean is near enough to that of all.
SHIFT_ROWS = 256
# Up to this short side the tridiagonal form is faster on one thread than on several, which would
# compete for cores with those of the product before (see `one_blas_thread`).
ONE_THREAD = 1000
# Up to this side computing all eigenvectors is faster than computing the largest few alone.
SMALL = 150
# The Gram matrix of a longer side would not fit into the memory of most machines.
LARGEST = 20_000


def decompose(X: Array, *, center: bool, dtype: AnyDType = None) -> Decomposition:
    """Decompose a matrix by the Gram matrix of its shorter side, with products in `dtype`."""
    n, p = X.shape
    work = X.dtype if dtype is None else dtype
    if n > p:
        gram, mean = feature_gram(X, center=center, dtype=work)
        return from_feature_gram(gram, like=X, mean=mean, n_samples=n, center=center)
    gram, mean = sample_gram(X, center=center, dtype=work)
    return from_sample_gram(
        gram,
        right=lambda left: _rows(X, mean if _matters(mean, gram) else None, left),
        mean=mean,
        n_features=p,
        center=center,
        dtype=X.dtype,
    )


def _rows(X: Array, mean: Array | None, left: np.ndarray) -> Array:
    """(X − mean)ᵀ·left as rows, centred a block of columns at a time.

    Columns of `left` add up to zero for centred data, so a small mean has no effect.
    """
    xp, left = array_namespace(X), to_namespace(left, X).T
    if mean is None:
        return xp.matmul(left, X)
    mean = xp.astype(mean, X.dtype)
    blocks = row_blocks(X, axis=1)
    return xp.concat([xp.matmul(left, X[:, cols] - mean[cols]) for cols in blocks], axis=1)


def _matters(mean: Array, gram: Array) -> bool:
    """Whether means exceed the deviations with these products, so that terms would cancel."""
    xp = array_namespace(mean)
    return gram.shape[0] * float(xp.sum(mean * mean)) > float(xp.linalg.trace(gram))


def is_precise(spectrum: Spectrum, solution: Solution, dtype: DType) -> bool:
    """Whether the threshold and the noise are well above a Gram matrix's rounding errors."""
    if not spectrum.singular_values.size or not spectrum.singular_values[0]:
        return True
    largest = spectrum.singular_values[0] * spectrum.scale
    sigma = np.sqrt(solution.noise_variance) * np.sqrt(max(spectrum.shape))
    smallest = min(sigma, solution.threshold) if solution.threshold else sigma
    return bool(smallest >= np.sqrt(MARGIN[dtype] * np.finfo(dtype).eps) * largest)


def have_digits(largest: FloatArray, sigma: FloatArray, threshold: FloatArray) -> NDArray[np.bool_]:
    """`is_precise` for many spectra at once, with products formed in float64.

    `sigma` holds the roots of noise variance × longer side.
    """
    least = np.sqrt(MARGIN[np.dtype(np.float64)] * np.finfo(np.float64).eps) * largest
    return np.asarray(np.minimum(sigma, threshold) >= least)


def as_rough(found: Decomposition, dtype: DType) -> Decomposition:
    """The decomposition with the resolution of a Gram matrix: smaller values may be zeros."""
    resolution = float(np.sqrt(np.finfo(dtype).eps))
    return replace(found, spectrum=found.spectrum.with_resolution(resolution))


def feature_gram(X: Array, *, center: bool, dtype: AnyDType) -> tuple[Array, Array]:
    """(X − mean)ᵀ(X − mean) and the mean in float64, from one pass over blocks of rows.

    Rows are shifted by the mean of the first few before they are multiplied, which keeps an offset
    of any size from cancelling; products of blocks are added up in float64.
    """
    xp = array_namespace(X)
    n, p = X.shape
    shift = xp.zeros(p, dtype=dtype, device=device(X))
    if center:
        # Means that are smaller than the deviations from them can be removed afterwards at the cost
        # of one bit; a shift costs a copy of X.
        block = X[: min(SHIFT_ROWS, n), :]
        near = _block_mean(block, dtype)
        deviations = block - near
        if float(xp.sum(near**2)) * block.shape[0] > float(xp.sum(deviations**2)):
            shift = near
    scatter = _scatter_by_threads if is_numpy_array(X) else _scatter
    gram, total = scatter(X, shift)
    rest = total / n if center else xp.zeros_like(total)
    gram -= n * rest[:, None] * rest[None, :]
    return gram, xp.astype(shift, xp.float64) + rest


def _scatter(X: Array, shift: Array) -> tuple[Array, Array]:
    """Σ(x − shift)(x − shift)ᵀ and Σ(x − shift) over rows, in float64."""
    xp = array_namespace(X)
    p = X.shape[1]
    gram = xp.zeros((p, p), dtype=xp.float64, device=device(X))
    total = xp.zeros(p, dtype=xp.float64, device=device(X))
    for rows in row_blocks(X):
        block = xp.astype(X[rows, :], shift.dtype, copy=False) - shift
        total += xp.astype(xp.sum(block, axis=0), xp.float64)
        gram += xp.matmul(block.T, block)
    return gram, total


def _scatter_by_threads(X: np.ndarray, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`_scatter` with a thread for each share of the rows, and each product on one thread.

    On tall blocks this is faster than products on all threads, which must wait for each other.
    """
    n_threads = blas_threads() if X.shape[1] <= ONE_THREAD else 1
    edges = np.linspace(0, X.shape[0], n_threads + 1).astype(int)
    if n_threads == 1 or edges[1] < 2 * X.shape[1]:
        return _scatter_in_buffers(X, shift)
    shares = [X[i:j] for i, j in itertools.pairwise(edges)]
    with one_blas_thread(), ThreadPoolExecutor(n_threads) as pool:
        parts = list(pool.map(partial(_scatter_in_buffers, shift=shift), shares))
    grams, totals = zip(*parts, strict=True)
    return sum(grams[1:], start=grams[0]), sum(totals[1:], start=totals[0])


def _scatter_in_buffers(X: np.ndarray, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`_scatter` with buffers for a block and its product made once: new pages take time."""
    p, blocks = X.shape[1], row_blocks(X)
    gram, total = np.zeros((p, p)), np.zeros(p)
    room, product = np.empty((blocks[0].stop, p), shift.dtype), np.empty((p, p), shift.dtype)
    as_it_is = X.dtype == shift.dtype and not shift.any()
    for rows in blocks:
        block = X[rows]
        if not as_it_is:
            block = np.subtract(block, shift, out=room[: len(block)], casting="same_kind")
        total += block.sum(axis=0)
        gram += np.matmul(block.T, block, out=product)
    return gram, total


def sample_gram(X: Array, *, center: bool, dtype: AnyDType) -> tuple[Array, Array]:
    """(X − mean)(X − mean)ᵀ and the mean in float64, from one pass over blocks of columns.

    Means that are smaller than the deviations from them are removed from the products, at the cost
    of one bit; others from the data, at the cost of a copy.
    """
    xp = array_namespace(X)
    n, p = X.shape
    place = {"dtype": xp.float64, "device": device(X)}
    gram, mean = xp.zeros((n, n), **place), xp.zeros(p, **place)
    small = center
    for columns in row_blocks(X, axis=1):
        block = xp.astype(X[:, columns], dtype, copy=False)
        product = None
        if small:
            mean[columns] = _block_mean(block, xp.float64)
            product = xp.astype(xp.matmul(block, block.T), xp.float64, copy=False)
            means = xp.mean(product, axis=0)
            product = product - means[:, None] - means[None, :] + xp.mean(means)
            small = not _matters(mean[columns], product)
        if center and not small:
            block, mean[columns] = centred(block)
            product = None
        gram += xp.matmul(block, block.T) if product is None else product
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


def _block_mean(block: Array, dtype: AnyDType) -> Array:
    xp = array_namespace(block)
    return xp.astype(xp.mean(xp.astype(block, xp.float64, copy=False), axis=0), dtype)


# --- from Gram matrices to decompositions ------------------------------------------------------


def from_feature_gram(
    gram: Array, *, like: Array, mean: Array, n_samples: int, center: bool
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
        "gram",
        gram=to_numpy(gram),
    )


def from_sample_gram(
    gram: Array,
    *,
    right: Callable[[np.ndarray], Array],
    mean: Array,
    n_features: int,
    center: bool,
    dtype: AnyDType,
) -> Decomposition:
    """The decomposition from the centred n×n Gram matrix.

    `right` takes columns uₕ/γₕ to the rows (X − mean)ᵀuₕ/γₕ.
    """
    eigen = Eigen.of(gram)
    n = gram.shape[0]
    spectrum = _spectrum(eigen.values, gram, n_features, n, center=center, dtype=dtype)

    # Needed twice: for components, and for scores.
    left = lru_cache(maxsize=1)(eigen.top)

    def top(k: int) -> Array:
        return right(left(k) / spectrum.singular_values[:k])

    return Decomposition(spectrum, top, mean, n, "gram", left=left)


def _spectrum(
    values: np.ndarray, gram: Array, p: int, n: int, *, center: bool, dtype: AnyDType
) -> Spectrum:
    """Singular values from eigenvalues in increasing order; centred data have one sample less."""
    M = samples(n, center)
    largest = np.maximum(values[::-1][: min(p, M)], 0.0)
    trace = float(np.trace(to_numpy(gram)))
    total = max(trace, float(largest.sum()))
    return Spectrum(np.sqrt(largest), (p, M), total, resolution=eps(dtype))


@dataclass(frozen=True)
class SquaredSpectrum:
    """Squares of singular values, largest first, and right vectors as rows on demand."""

    squares: FloatArray
    right: Callable[[int], FloatArray]


def squares_of(
    gram: FloatArray | None, rows: FloatArray | None, scale: FloatArray
) -> SquaredSpectrum:
    """Squared spectrum of a matrix V with columns divided by `scale`, from VᵀV or from its rows.

    It uses the Gram matrix of the features if given, else that of the samples. Where its rounding
    errors reach the noise (`is_precise`), `squares_of_rows` has more digits.
    """
    if gram is not None:
        gram = gram / scale[:, None] / scale
        if len(gram) <= SMALL:
            return squares_of_grams(gram[None])[0]
        eigen = Eigen.of(gram)
        return SquaredSpectrum(eigen.values[::-1], lambda k: eigen.top(k).T)
    assert rows is not None
    rows = rows / scale
    eigen = Eigen.of(rows @ rows.T)
    squares = eigen.values[::-1]
    return SquaredSpectrum(squares, lambda k: (eigen.top(k) / np.sqrt(squares[:k])).T @ rows)


def squares_of_rows(rows: FloatArray, scale: FloatArray) -> SquaredSpectrum:
    """`squares_of` by an SVD of the rows, which squares nothing beforehand."""
    _, gamma, vectors = np.linalg.svd(rows / scale, full_matrices=False)
    return SquaredSpectrum(gamma**2, lambda k: vectors[:k])


def squares_of_grams(grams: FloatArray, *, vectors: bool = True) -> list[SquaredSpectrum]:
    """Squared spectra of matrices V whose VᵀV are small, (K, p, p), in one call for all of them.

    Without `vectors` it takes less than half the time, and `right` must not be called.
    """
    with one_blas_thread():
        if not vectors:
            return [_of_eigen(values, np.empty((0, 0))) for values in np.linalg.eigvalsh(grams)]
        found = np.linalg.eigh(grams)
    return [_of_eigen(*pair) for pair in zip(*found, strict=True)]


def _of_eigen(values: FloatArray, vectors: FloatArray) -> SquaredSpectrum:
    return SquaredSpectrum(values[::-1], lambda k: vectors[:, ::-1][:, :k].T)


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
        """Reduce once to tridiagonal form, from which both values and vectors are cheap."""
        a = to_numpy(symmetric)
        n = a.shape[0]
        with one_blas_thread() if n <= ONE_THREAD else nullcontext():
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
        with one_blas_thread() if n <= ONE_THREAD else nullcontext():
            _, _, z, info = lapack.dstemr(
                self.diagonal, np.append(self.beside, 0.0), 2, 0.0, 1.0, n - k + 1, n
            )
            if info:
                raise np.linalg.LinAlgError("the eigenvectors of a Gram matrix did not converge")
            z = np.asfortranarray(z[:, :k])
            # Q is the product of reflectors of the lower part, as a QR factorisation stores them.
            z[1:], _, _ = lapack.dormqr(
                "L", "N", self.reduced[1:, :-1], self.reflectors, z[1:], lwork=64 * k
            )
        return z[:, ::-1]


# --- sparse matrices ---------------------------------------------------------------------------


def without_offsets(X: Sparse) -> tuple[Sparse, FloatArray]:
    """The matrix less the means of columns without zeros, which leaves it as sparse; and the means.

    Only such columns can have means that are large beside the deviations from them. Squares of such
    means would cost the squares of the deviations all their digits.
    """
    n, p = X.shape
    columns = X.tocsc()
    full = np.diff(columns.indptr) == n
    if not full.any():
        return X, np.zeros(p)
    mean = np.where(full, np.asarray(columns.mean(axis=0, dtype=np.float64)).ravel(), 0.0)
    data = columns.data - np.repeat(mean, np.diff(columns.indptr))
    kept = (data.astype(X.dtype), columns.indices, columns.indptr)
    return sp.csc_array(kept, shape=(n, p)).tocsr(), mean


def decompose_sparse(X: Sparse, *, center: bool) -> Decomposition:
    """The decomposition from XᵀX or XXᵀ in float64, less what the mean adds to it."""
    n, p = X.shape
    if min(n, p) > LARGEST:
        raise ValueError(
            f"the spectrum of this {n}×{p} sparse matrix falls too slowly to be cut off, and its "
            f"shorter side is beyond {LARGEST}: give n_components."
        )
    wide: Sparse = sp.csr_array(X, dtype=np.float64)
    mean = np.asarray(wide.mean(axis=0)).ravel() if center else np.zeros(p)
    if n > p:
        square = (wide.T @ wide).toarray() - n * np.outer(mean, mean)
        like = np.zeros(0, X.dtype)
        return from_feature_gram(square, like=like, mean=mean, n_samples=n, center=center)
    along = wide @ mean
    square = (wide @ wide.T).toarray() - along[:, None] - along + mean @ mean

    def right(left: np.ndarray) -> np.ndarray:
        return np.asarray((wide.T @ left).T - np.outer(left.sum(axis=0), mean), dtype=X.dtype)

    return from_sample_gram(
        square, right=right, mean=mean, n_features=p, center=center, dtype=X.dtype
    )
