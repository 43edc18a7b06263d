"""Weighted rows of zeros and ones, converted to floats one block at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from bayespca.arrays.parallel import in_turn
from bayespca.arrays.types import FloatArray
from bayespca.sources.data import BinaryCells
from bayespca.sources.seen import seen_in
from bayespca.spectrum.records import Status

# Numbers in a block of rows: arrays of this size stay in a core's cache.
BLOCK = 1 << 18


@dataclass(frozen=True, eq=False)
class BernoulliRows(BinaryCells):
    """Rows of zeros and ones.

    Attributes
    ----------
    weights
        How often each row counts: (n,); None where each counts once.
    status
        Advice on rows and columns of the original table that have no value at all.
    """

    weights: FloatArray | None = None
    status: Status = field(default_factory=Status)

    @property
    def total(self) -> float:
        """Number of rows, each counted with its weight."""
        return float(self.shape[0]) if self.weights is None else float(self.weights.sum())

    @cached_property
    def blocks(self) -> list[slice]:
        n, p = self.shape
        step = max(BLOCK // p, 64)
        return [slice(first, min(first + step, n)) for first in range(0, n, step)]

    def weights_of(self, rows: slice) -> FloatArray:
        return np.ones(rows.stop - rows.start) if self.weights is None else self.weights[rows]

    def squared_distances(self, row: int) -> FloatArray:
        """‖x − x_row‖² of all rows, (n,); a hole counts as the share of ones in its column."""
        centre = self._times_filled(slice(row, row + 1), np.eye(self.shape[1]))[0]
        products = in_turn(lambda rows: self._times_filled(rows, centre), self.blocks)
        found = self._squares - 2 * np.concatenate(list(products)) + centre @ centre
        return np.maximum(found, 0.0)

    @cached_property
    def _squares(self) -> FloatArray:
        """‖x‖² of all rows; a hole counts as the share of ones in its column."""
        found = np.concatenate([self.part(rows).values.sum(axis=1) for rows in self.blocks])
        if self.seen is not None:
            squares, seen = self.shares**2, BinaryCells(self.seen)
            known = [seen.part(rows).values @ squares for rows in self.blocks]
            found += squares.sum() - np.concatenate(known)
        return found

    def _times_filled(self, rows: slice, C: FloatArray) -> FloatArray:
        """x·C = ones·C + Σ_d s_d C_d over the holes d of a row, s the `shares`."""
        cells = self.part(rows)
        found: FloatArray = cells.values @ C
        known = cells.known
        if known is not None:
            filling = (self.shares * C.T).T
            found += filling.sum(axis=0) - known @ filling
        return found

    @cached_property
    def shares(self) -> FloatArray:
        """The share of ones among the observed cells of each column; ½ if it has none."""
        ones, counts = np.zeros(self.shape[1]), np.zeros(self.shape[1])
        for rows in self.blocks:
            weights, cells = self.weights_of(rows), self.part(rows)
            known = cells.known
            ones += weights @ cells.values
            counts += weights.sum() if known is None else weights @ known
        return np.where(counts > 0, ones / np.where(counts > 0, counts, 1.0), 0.5)


def bernoulli_rows(cells: BinaryCells, weights: FloatArray | None = None) -> BernoulliRows:
    """The rows of a table with at least one value and a positive weight.

    `weights` say how often each row counts.
    """
    known = seen_in(cells.seen, cells.shape)
    taken = known.rows if weights is None else known.rows & (weights > 0)
    part = cells if taken.all() else cells.part(taken)
    counts = weights if weights is None else weights[taken]
    return BernoulliRows(part.ones, part.seen, counts, known.emptiness)
