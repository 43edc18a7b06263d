"""Features of the rows of one side, standardized to mean 0 and variance 1.

Sparse features stay sparse: their means are subtracted in products, not in the matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from bayespca.arrays.types import FloatArray, Matrix, Vector

# A matrix of scipy.sparse.
Sparse: TypeAlias = Any
# Least standard deviation of a column that varies, in units of its largest entry.
LEAST_SPREAD = 1e-12


@dataclass(frozen=True, eq=False)
class SparseFeatures:
    """F = S − t·mᵀ for sparse S (n, p), means m (p,) and t (n,).

    t is 1 for rows that have features, and 0 for the others, whose features are at the mean. FᵀF
    is computed once.
    """

    cells: Sparse
    mean: Vector
    there: Vector
    gram: Matrix

    @property
    def shape(self) -> tuple[int, int]:
        n, p = self.cells.shape
        return int(n), int(p)

    @property
    def T(self) -> _Turned:
        return _Turned(self)

    def __matmul__(self, weights: FloatArray) -> FloatArray:
        return np.asarray(self.cells @ weights - np.outer(self.there, self.mean @ weights))

    def digests(self) -> list[FloatArray]:
        return [self.cells.data, self.cells.indices, self.cells.indptr, self.mean, self.there]


@dataclass(frozen=True, eq=False)
class _Turned:
    """Fᵀ"""

    features: SparseFeatures

    def __matmul__(self, other: FloatArray) -> FloatArray:
        own = self.features
        return np.asarray(own.cells.T @ other - np.outer(own.mean, own.there @ other))


Features: TypeAlias = FloatArray | SparseFeatures


def gram_of(features: Features) -> FloatArray:
    """FᵀF"""
    return features.gram if isinstance(features, SparseFeatures) else features.T @ features


def standardized(features: FloatArray) -> FloatArray:
    """Features with mean 0 and variance 1; columns that do not vary are left out."""
    off = features - features.mean(axis=0)
    spread = np.sqrt(np.mean(off**2, axis=0))
    varies = _varies(spread, np.abs(features).max(axis=0, initial=0.0))
    return np.asarray(off[:, varies] / spread[varies])


def sparse_standardized(cells: Sparse, there: FloatArray) -> SparseFeatures:
    """`standardized` for sparse cells; rows with `there` = 0 have no features and get the mean."""
    n, count = cells.shape[0], max(float(there.sum()), 1.0)
    mean = np.asarray(cells.sum(axis=0)).ravel() / count
    squares = np.asarray(cells.multiply(cells).sum(axis=0)).ravel()
    spread = np.sqrt(np.maximum(squares - count * mean**2, 0.0) / n)
    largest = np.asarray(abs(cells).max(axis=0).todense()).ravel() if n else np.zeros_like(mean)
    varies = np.flatnonzero(_varies(spread, largest))
    scaled = (cells.tocsc()[:, varies].multiply(1 / spread[varies])).tocsr()
    mean = mean[varies] / spread[varies]
    gram = (scaled.T @ scaled).toarray() - count * np.outer(mean, mean)
    return SparseFeatures(scaled, mean, there, gram)


def _varies(spread: FloatArray, largest: FloatArray) -> FloatArray:
    return np.asarray(spread > LEAST_SPREAD * (largest + 1e-300))
