"""Indicators of who has rated what, as features of rows, without writing them out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bayespca.arrays.parallel import in_turn
from bayespca.arrays.types import FloatArray, Sparse
from bayespca.missing.ratings.cells import RatingsSide, pieces_of


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

    def raw(self, y: FloatArray) -> FloatArray:
        """Σⱼ yⱼ/√Nᵢ over the columns that row i has rated (n, K)."""
        return np.concatenate(list(in_turn(lambda some: some @ y, self._indicators)))

    def shift(self, y: FloatArray) -> FloatArray:
        """Σⱼ fᵢⱼyⱼ of each row (n, K)."""
        if not len(y):
            return np.zeros((self.own.n_rows, y.shape[1]))
        return (self.raw(y) - self.centre @ y) * self.active[:, None]


def shift_of_new(y: FloatArray, centre: FloatArray, columns: NDArray[np.int32]) -> FloatArray:
    """Σⱼ fⱼyⱼ of a new user who has rated some columns, for draws y (draw, m, K)."""
    if not columns.size:
        return np.zeros((len(y), y.shape[2]))
    own = y[:, columns].sum(axis=1, dtype=np.float64) / np.sqrt(columns.size)
    return np.asarray(own - centre @ y)
