"""Weighted rows, with or without holes, at unit scale."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray
from bayespca.lowrank.holes import Block
from bayespca.lowrank.patterns import patterns_of
from bayespca.sources.constant import is_constant
from bayespca.spectrum.tolerances import TINY

# Numbers in the largest array computed for a block of rows.
BLOCK = 1 << 22


@dataclass(frozen=True, eq=False)
class MixtureRows:
    """Rows sorted by their pattern of holes.

    Attributes
    ----------
    values
        The cells, 0 in holes; (n, p), in float64.
    seen
        One row for each pattern of holes: 1 for an observed cell, 0 for a hole; (P, p).
    pattern
        The pattern of each row, in increasing order; (n,).
    order
        The position of each row in the data as given.
    weights
        The weight of each row; (n,).
    """

    values: FloatArray
    seen: FloatArray
    pattern: NDArray[np.intp]
    order: NDArray[np.intp]
    weights: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape

    @cached_property
    def is_complete(self) -> bool:
        return bool((self.seen == 1).all())

    @cached_property
    def total(self) -> float:
        """Sum of the weights."""
        return float(self.weights.sum())

    @cached_property
    def n_cells(self) -> float:
        """Number of observed cells, each counted with the weight of its row."""
        return float(self.weights @ self.seen.sum(axis=1)[self.pattern])

    def blocks(self, width: int) -> Iterator[Block]:
        """Blocks of rows small enough for arrays of `width` numbers per row."""
        n = self.shape[0]
        size = max(64, BLOCK // max(width, 1))
        for start in range(0, n, size):
            rows = slice(start, min(start + size, n))
            pattern = self.pattern[rows]
            which = slice(int(pattern[0]), int(pattern[-1]) + 1)
            starts = np.searchsorted(pattern, np.arange(which.start, which.stop + 1))
            yield Block(rows, which, self.values[rows], self.seen[which], starts)

    def filled(self, values: FloatArray) -> MixtureRows:
        """The same rows with other values and without holes."""
        n, p = self.shape
        return replace(self, values=values, seen=np.ones((1, p)), pattern=np.zeros(n, np.intp))

    def taken(self, which: NDArray[np.bool_], weights: FloatArray) -> MixtureRows:
        """Some of the rows, with other weights."""
        rows = np.flatnonzero(which)
        seen, pattern = self.seen, self.pattern[rows]
        if len(seen) > 1:
            kept, pattern = np.unique(pattern, return_inverse=True)
            seen = seen[kept]
        values = self.values.take(rows, axis=0)
        return MixtureRows(values, seen, pattern, self.order[rows], weights[rows])

    def in_order(self, values: FloatArray) -> FloatArray:
        """Put values of each row in the order of the data as given."""
        out = np.empty_like(values)
        out[self.order] = values
        return out


@dataclass(frozen=True, eq=False)
class MixtureData:
    """The data of a fit: the rows and columns that carry information, and how they were scaled.

    Column j of the rows is (X[:, live[j]] − location[live[j]])/unit.
    """

    rows: MixtureRows
    location: FloatArray
    unit: float
    live: NDArray[np.intp]

    @cached_property
    def variances(self) -> FloatArray:
        """Variances of the columns over all rows, one of which goes to the mean."""
        rows = self.rows
        counts = np.maximum(rows.weights @ rows.seen[rows.pattern] - 1, 1.0)
        return np.asarray(rows.weights @ rows.values**2 / counts)


def gathered(X: FloatArray, weights: FloatArray) -> MixtureRows:
    """Rows sorted by their pattern of holes (NaN)."""
    n, p = X.shape
    holes = np.isnan(X)
    if not holes.any():
        order = np.arange(n)
        return MixtureRows(X, np.ones((1, p)), np.zeros(n, np.intp), order, weights)
    first, which = patterns_of(holes)
    # A seed must draw the same rows however `patterns_of` orders the patterns it finds.
    by_holes = np.lexsort(np.packbits(holes[first], axis=1).T[::-1])
    pattern = np.argsort(by_holes)[which]
    order = np.argsort(pattern, kind="stable")
    values = np.where(holes, 0.0, X)[order]
    return MixtureRows(values, 1.0 - holes[first[by_holes]], pattern[order], order, weights[order])


def prepared(X: NDArray[np.floating], weights: FloatArray | None) -> MixtureData:
    """Centred data at unit scale, without constant columns, empty rows or rows of weight 0.

    Constant columns have no noise. Counted as features, they would bias the noise towards zero.
    """
    cells: FloatArray = np.asarray(X, dtype=np.float64)
    weights = np.ones(len(cells)) if weights is None else weights
    counted = (weights > 0) & ~np.isnan(cells).all(axis=1)
    cells, weights = cells[counted], weights[counted]
    # Weighted means of observed cells and the largest deviations from them, about a value of the
    # column itself, so that constant columns have exactly no spread.
    seen = ~np.isnan(cells)
    counts = np.maximum(weights @ seen, TINY)
    most = np.where(seen.any(axis=0), np.where(seen, cells, -np.inf).max(axis=0), 0.0)
    least = np.where(seen.any(axis=0), np.where(seen, cells, np.inf).min(axis=0), 0.0)
    middle = most + weights @ np.where(seen, cells - most, 0.0) / counts
    constant = is_constant(least, most, center=True)
    spread = np.where(constant, 0.0, np.maximum(most - middle, middle - least))
    location = np.where(constant, most, middle)
    live = np.flatnonzero(spread > 0)
    if not live.size:
        live = np.arange(cells.shape[1])
    unit = float(spread.max()) or 1.0
    values = (cells[:, live] - location[live]) / unit
    rms = np.sqrt(np.nanmean(values**2)) or 1.0
    return MixtureData(gathered(values / rms, weights), location, unit * float(rms), live)
