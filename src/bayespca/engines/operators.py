"""Matrices that are only multiplied: dense or sparse, centred on the fly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayespca.arrays import cuda
from bayespca.arrays.namespaces import (
    array_namespace,
    cast,
    eps,
    is_numpy_array,
    row_blocks,
    sum_of_squares,
)
from bayespca.arrays.types import AnyDType, Array, FloatArray, Sparse
from bayespca.spectrum.records import samples

from .records import StoredBasis

# The means may exceed the standard deviations by this over √ε before X is centred in a copy: 10
# times in float32, 2e5 times in float64.
OFFSET = 10.0 * float(np.sqrt(np.finfo(np.float32).eps))


@dataclass(frozen=True)
class InMemory:
    """Common part of the operators of matrices in memory."""

    values: Any
    mean: Array
    sum_of_squares: float
    centered: bool

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.values.shape[0]), int(self.values.shape[1])

    @property
    def spectrum_shape(self) -> tuple[int, int]:
        n, p = self.shape
        return p, samples(n, self.centered)

    @property
    def is_distant(self) -> bool:
        return False

    @property
    def dtype(self) -> AnyDType:
        return self.values.dtype

    def new_basis(self, like: Array) -> StoredBasis:
        return StoredBasis(self.shape[0], like)


@dataclass(frozen=True)
class DenseOperator(InMemory):
    """An array, centred on the fly unless `is_shifted` says that `values` are centred already."""

    is_shifted: bool = False

    def matmul(self, Q: Array) -> Array:
        # Rows times Xᵀ: BLAS is faster at this than at X times columns, and the result is stored
        # by rows again.
        rows, X = Q.T, self.values
        if rows.dtype == X.dtype:
            product = rows @ X.T
        else:  # without converting all of X at once
            xp = array_namespace(X)
            parts = [rows @ cast(X[some, :], rows.dtype).T for some in row_blocks(X)]
            product = xp.concat(parts, axis=1)
        if self.centered and not self.is_shifted:
            product -= cast(self.mean @ cast(Q, self.mean.dtype), product.dtype)[:, None]
        return product.T

    def rmatmul(self, W: Array) -> Array:
        xp = array_namespace(W)
        product = W.T @ self.values
        if self.centered and not self.is_shifted:
            sums = xp.sum(W, axis=0)
            product -= sums[:, None] * cast(self.mean, product.dtype)[None, :]
        return product.T


@dataclass(frozen=True)
class ScaledOperator(InMemory):
    """(x_ij − shiftⱼ)·columnsⱼ·rowsᵢ, computed on the fly."""

    shift: Array
    columns: Array
    rows: Array

    def matmul(self, Q: Array) -> Array:
        across = (Q * self.columns[:, None]).T
        product = across @ self.values.T
        product -= (across @ self.shift)[:, None]
        product *= self.rows
        return product.T

    def rmatmul(self, W: Array) -> Array:
        down = (W * self.rows[:, None]).T
        product = down @ self.values
        product -= np.outer(down.sum(axis=1), self.shift)
        product *= self.columns
        return product.T


@dataclass(frozen=True)
class SparseOperator(InMemory):
    """A scipy sparse matrix, centred on the fly."""

    def matmul(self, Q: Array) -> Array:
        product = self.values @ np.ascontiguousarray(Q)
        return product - (self.mean @ Q).astype(product.dtype)

    def rmatmul(self, W: Array) -> Array:
        product = self.values.T @ np.ascontiguousarray(W)
        return product - np.outer(self.mean, W.sum(axis=0)).astype(product.dtype)


def dense_operator(X: Array, *, center: bool = True) -> DenseOperator:
    """The operator of a floating-point array whose rows are samples.

    X is not copied, unless its means are so large that multiplying before they are removed would
    cost precision.
    """
    xp = array_namespace(X)
    n = X.shape[0]
    total, squares = _column_sums(X)
    if not center:
        return DenseOperator(X, xp.zeros_like(total), squares, centered=False)
    mean = total / n
    offset = n * float(mean @ mean)
    if squares - offset > 1e-3 * squares:
        squares -= offset
    else:
        # A small difference of large numbers: sum the squares of small ones instead.
        rest, squares = _column_sums(X, mean)
        mean, squares = mean + rest / n, squares - float(rest @ rest) / n
    if squares <= offset * (4 * float(np.finfo(np.float64).eps)) ** 2:
        squares = 0.0
    is_precise = offset * eps(X.dtype) <= OFFSET**2 * squares
    if is_precise or not squares:
        return DenseOperator(X, mean, squares, centered=True)
    # The means are subtracted in float64.
    values = xp.empty_like(X)
    for rows in row_blocks(X):
        values[rows, :] = cast(cast(X[rows, :], mean.dtype) - mean, X.dtype)
    return DenseOperator(values, mean, squares, centered=True, is_shifted=True)


def scaled_operator(
    X: FloatArray, shift: FloatArray, columns: FloatArray, rows: FloatArray, squares: float
) -> ScaledOperator | None:
    """The operator of X in float64 less `shift`, with scaled rows and columns.

    `squares` is the sum of its squared entries. None where multiplying before the shift would cost
    precision.
    """
    offset = float(rows @ rows) * float(np.sum((shift * columns) ** 2))
    if not offset * eps(X.dtype) <= OFFSET**2 * squares:
        return None
    zero = np.zeros(X.shape[1])
    return ScaledOperator(X, zero, squares, False, shift=shift, columns=columns, rows=rows)


def sparse_operator(X: Sparse, *, center: bool = True) -> SparseOperator:
    """The operator of a scipy sparse matrix whose rows are samples; it stays sparse."""
    n, p = X.shape
    values = X.tocsr()
    if not np.issubdtype(values.dtype, np.floating):
        values = values.astype(np.float64)
    squares = float(np.sum(np.square(values.data, dtype=np.float64)))
    if not center:
        return SparseOperator(values, np.zeros(p), squares, centered=False)
    mean = np.bincount(values.indices, weights=values.data, minlength=p) / n
    centred = max(squares - n * float(mean @ mean), 0.0)
    return SparseOperator(values, mean, centred, centered=True)


def _column_sums(X: Array, shift: Array | None = None) -> tuple[Array, float]:
    """Column sums and the sum of all squares of X − shift in float64, from blocks of rows.

    Outside NumPy, where a block would be written to memory and read again, one pass gives both sums
    or each, if possible.
    """
    xp = array_namespace(X)
    if cuda.is_served(X):
        found = cuda.sums_and_squares(X, shift)
        if found is not None:
            return found[0], float(found[1])
    if shift is None and not is_numpy_array(X):
        return xp.sum(X, axis=0, dtype=xp.float64), sum_of_squares(X)
    total = xp.sum(X[:0, :], axis=0, dtype=xp.float64)
    squares = 0.0
    for rows in row_blocks(X):
        block = xp.astype(X[rows, :], xp.float64, copy=False)
        if shift is not None:
            block = block - shift
        total += xp.sum(block, axis=0)
        squares += float(xp.sum(xp.vecdot(block, block)))
    return total, squares
