"""Binary cells as the updates want them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray

BoolArray = NDArray[np.bool_]

# Rows that are worked on at a time: there is work for several threads, and what belongs to them
# stays in the cache.
BLOCK, LEAST_BLOCK, BLOCKS = 1024, 64, 32


@dataclass(frozen=True, eq=False)
class Cells:
    """Rows of zeros and ones: which cells are 1, and which are no holes (None: all are there)."""

    ones: BoolArray
    seen: BoolArray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        n, p = self.ones.shape
        return n, p

    @cached_property
    def blocks(self) -> list[slice]:
        n = self.shape[0]
        step = min(BLOCK, max(n // BLOCKS, LEAST_BLOCK))
        return [slice(first, min(first + step, n)) for first in range(0, n, step)]

    @cached_property
    def column_counts(self) -> FloatArray:
        """Cells of each column that are no holes."""
        n, p = self.shape
        return np.full(p, float(n)) if self.seen is None else self.seen.sum(axis=0, dtype=float)

    @cached_property
    def shares(self) -> FloatArray:
        """Share of ones in each column, with half a cell of each kind added."""
        return np.asarray((self.ones.sum(axis=0) + 0.5) / (self.column_counts + 1))

    def part(self, rows: Any) -> Cells:
        """Some of the rows."""
        return Cells(self.ones[rows], None if self.seen is None else self.seen[rows])

    def columns(self, which: BoolArray) -> Cells:
        """Some of the columns."""
        return Cells(self.ones[:, which], None if self.seen is None else self.seen[:, which])

    @property
    def values(self) -> FloatArray:
        """1.0 where a cell is 1."""
        return self.ones.astype(np.float64)

    def without_holes(self, values: FloatArray) -> FloatArray:
        """With 0 in holes, in the memory of the values."""
        if self.seen is not None:
            values *= self.seen
        return values
