"""Tables of zeros and ones, some of whose cells may be holes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class BinaryCells:
    """A table of zeros and ones, a byte for each cell.

    Attributes
    ----------
    ones
        Whether a cell is 1; False in holes: (n, p).
    seen
        Whether a cell is no hole: (n, p); None if none is.
    """

    ones: BoolArray
    seen: BoolArray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.ones.shape

    @property
    def values(self) -> FloatArray:
        """1.0 where a cell is 1, 0.0 elsewhere."""
        return _numbers(self.ones)

    @property
    def known(self) -> FloatArray | None:
        """1.0 where a cell is no hole, 0.0 in holes; None if there are none."""
        return None if self.seen is None else _numbers(self.seen)

    def part(self, rows: Any) -> BinaryCells:
        """Some of the rows, or some of the rows and columns."""
        return BinaryCells(self.ones[rows], None if self.seen is None else self.seen[rows])

    def without_holes(self, values: FloatArray) -> FloatArray:
        """Set the values in holes to 0, in place."""
        if self.seen is not None:
            values *= self.seen
        return values


def _numbers(flags: BoolArray) -> FloatArray:
    """Flags as 0.0 and 1.0, by way of bytes, which are converted faster."""
    return flags.view(np.uint8).astype(np.float64)
