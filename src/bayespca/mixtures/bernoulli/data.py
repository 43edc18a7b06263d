"""Binary cells, some of which may be holes: a byte each, turned into numbers a block at a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.parallel import in_turn
from bayespca.arrays.types import FloatArray

BoolArray = NDArray[np.bool_]

# Numbers in a block of rows: what is made of it stays in a core's cache.
BLOCK = 1 << 18


@dataclass(frozen=True, eq=False)
class Cells:
    """Rows of zeros and ones.

    Attributes
    ----------
    ones
        Whether a cell is 1; False in holes: (n, p).
    seen
        Whether a cell is no hole: (n, p); None where all are there.
    weights
        How often each row counts: (n,); None where each counts once.
    """

    ones: BoolArray
    seen: BoolArray | None = None
    weights: FloatArray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        n, p = self.ones.shape
        return n, p

    @property
    def total(self) -> float:
        """Rows, each as often as it counts."""
        return float(self.shape[0]) if self.weights is None else float(self.weights.sum())

    @cached_property
    def blocks(self) -> list[slice]:
        n, p = self.shape
        step = max(BLOCK // p, 64)
        return [slice(first, min(first + step, n)) for first in range(0, n, step)]

    def known(self, rows: slice) -> FloatArray | None:
        """1.0 where a cell is no hole."""
        return None if self.seen is None else _numbers(self.seen[rows])

    def values(self, rows: slice) -> FloatArray:
        """1.0 where a cell is 1, 0.0 elsewhere."""
        return _numbers(self.ones[rows])

    def filled_row(self, row: int) -> FloatArray:
        """A row as numbers, with the share of ones of its column in a hole."""
        return self._times_filled(slice(row, row + 1), np.eye(self.shape[1]))[0]

    def squared_distances(self, centre: FloatArray) -> FloatArray:
        """‖x − c‖² of all rows, with the share of ones of its column in a hole: (n,)."""
        products = in_turn(lambda rows: self._times_filled(rows, centre), self.blocks)
        found = self._squares - 2 * np.concatenate(list(products)) + centre @ centre
        return np.maximum(found, 0.0)

    @cached_property
    def _squares(self) -> FloatArray:
        """‖x‖² of all rows, with the share of ones of its column in a hole."""
        found = np.concatenate([self.values(rows).sum(axis=1) for rows in self.blocks])
        if self.seen is not None:
            squares = self.shares**2
            known = (_numbers(self.seen[rows]) @ squares for rows in self.blocks)
            found += squares.sum() - np.concatenate(list(known))
        return found

    def _times_filled(self, rows: slice, C: FloatArray) -> FloatArray:
        """x·C = ones·C + Σ_d s_d C_d over the holes d of a row."""
        found: FloatArray = self.values(rows) @ C
        known = self.known(rows)
        if known is not None:
            filling = (self.shares * C.T).T
            found += filling.sum(axis=0) - known @ filling
        return found

    @cached_property
    def shares(self) -> FloatArray:
        """The share of ones among the cells of each column, ½ where there are none."""
        ones, counts = np.zeros(self.shape[1]), np.zeros(self.shape[1])
        for rows in self.blocks:
            weights = np.ones(rows.stop - rows.start)
            if self.weights is not None:
                weights = self.weights[rows]
            known = self.known(rows)
            ones += weights @ self.values(rows)
            counts += weights.sum() if known is None else weights @ known
        return np.where(counts > 0, ones / np.where(counts > 0, counts, 1.0), 0.5)


def _numbers(flags: NDArray[Any]) -> FloatArray:
    """Bytes become numbers faster than flags do."""
    return flags.view(np.uint8).astype(np.float64)
