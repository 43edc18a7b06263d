"""Features of the rows of one side, and indicators of who has rated what as features.

Features are standardized to mean 0 and variance 1. Sparse ones stay sparse: their means are
subtracted in products, not in the matrix. Indicators are not written out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bayespca.arrays.parallel import in_turn
from bayespca.arrays.types import FloatArray, Matrix, Sparse, Vector
from bayespca.missing.ratings.cells import RatingsSide, pieces_of

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

    def __matmul__(self, weights: FloatArray) -> FloatArray:
        return np.asarray(self.cells @ weights - np.outer(self.there, self.mean @ weights))

    def digests(self) -> list[FloatArray]:
        return [self.cells.data, self.cells.indices, self.cells.indptr, self.mean, self.there]


Features: TypeAlias = FloatArray | SparseFeatures


def products(features: Features, other: FloatArray) -> tuple[FloatArray, FloatArray]:
    """FᵀF, and Fᵀ times another matrix."""
    if not isinstance(features, SparseFeatures):
        return features.T @ features, features.T @ other
    crossed = features.cells.T @ other - np.outer(features.mean, features.there @ other)
    return features.gram, np.asarray(crossed)


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


@dataclass(frozen=True, eq=False)
class Rated:
    """Who has rated what: `own` holds the cells of each row, `other` those of each column."""

    own: RatingsSide
    other: RatingsSide

    @cached_property
    def scale(self) -> FloatArray:
        """1/√Nᵢ of each row, 0 for rows without ratings."""
        counts = self.own.counts
        return np.where(counts > 0, 1 / np.sqrt(np.maximum(counts, 1)), 0.0)

    @cached_property
    def active(self) -> NDArray[np.bool_]:
        """Mask of rows with ratings; the others have no shift."""
        return np.asarray(self.own.counts > 0)

    @cached_property
    def centre(self) -> FloatArray:
        """f̄ⱼ, means over all ratings."""
        return self.other.sums(self.scale * self.own.counts) / self.own.other.size

    @cached_property
    def totals(self) -> FloatArray:
        """Σᵢ [i rated j]/√Nᵢ"""
        return self.other.sums(self.scale)

    @cached_property
    def squares(self) -> FloatArray:
        """Σᵢ fᵢⱼ² over rows with ratings."""
        raw, n = self.other.sums(self.scale**2), int(self.active.sum())
        found = raw - 2 * self.centre * self.totals + n * self.centre**2
        return np.asarray(np.maximum(found, 0.0))

    @property
    def is_constant(self) -> bool:
        """Whether all rows with ratings have rated the same columns, which is uninformative."""
        return bool((self.squares <= 1e-12).all())

    @cached_property
    def _indicators(self) -> list[Sparse]:
        """[i rated j]/√Nᵢ, in pieces of about equal work."""
        own, m = self.own, self.other.n_rows
        values = np.repeat(self.scale, own.counts)
        found = []
        for low, high in pieces_of(own, 1):
            starts = own.starts[low : high + 1]
            cells = slice(starts[0], starts[-1])
            parts = values[cells], own.other[cells], starts - starts[0]
            found.append(scipy.sparse.csr_array(parts, shape=(high - low, m)))
        return found

    def shift(self, y: FloatArray) -> FloatArray:
        """Σⱼ fᵢⱼyⱼ of each row (n, K)."""
        if not len(y):
            return np.zeros((self.own.n_rows, y.shape[1]))
        own = np.concatenate(list(in_turn(lambda some: some @ y, self._indicators)))
        return (own - self.centre @ y) * self.active[:, None]
