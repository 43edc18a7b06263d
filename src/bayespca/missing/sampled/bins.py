"""Times of ratings: runs of cells of one row in bins of time, at several widths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import Counts, FloatArray
from bayespca.missing.ratings.cells import RatingsSide

# Ratio of the widths of bins of successive levels.
FACTOR = 16
# Least ratio of the numbers of runs of successive levels, and most runs per cell.
FINER, SHARED = 1.25, 0.75
# Widths from a sixteenth of all time to a millionth: of 200 days, from 12 days to 16 seconds.
LEVELS = 5


@dataclass(frozen=True, eq=False)
class TimeScale:
    """The hierarchy of bins: its origin, its length, and the levels that are in use.

    Times may be in any unit, since bins are fractions of the whole span.
    """

    origin: float
    span: float
    levels: tuple[int, ...]

    def keys(self, rows: NDArray[np.intp], times: FloatArray, level: int) -> NDArray[np.int64]:
        """A number for each pair of row and bin; −1 for unknown rows and times out of range."""
        count = FACTOR**level
        part = (times - self.origin) / self.span
        bins = np.minimum(np.floor(part * count), count - 1)
        inside = (rows >= 0) & (part >= 0) & (part <= 1)
        return np.where(inside, rows * count + np.where(inside, bins, 0).astype(np.int64), -1)


@dataclass(frozen=True, eq=False)
class TimeBins:
    """Runs of cells for each level.

    `order` sorts cells by row and time; run r of a level begins at its starts[r], and keys[r]
    encodes row and bin. `to_columns` permutes cells sorted by rows to cells sorted by columns.
    """

    scale: TimeScale
    order: Counts
    to_columns: Counts
    starts: tuple[Counts, ...]
    keys: tuple[Counts, ...]

    def rows(self, level: int) -> NDArray[np.int64]:
        """The row of each run."""
        return self.keys[level] // FACTOR ** self.scale.levels[level]

    def parents(self, level: int) -> NDArray[np.intp]:
        """For each run, the run of the level before that contains it."""
        return np.searchsorted(self.starts[level - 1], self.starts[level], side="right") - 1

    def summed(self, level: int, values: FloatArray) -> FloatArray:
        """Σ over the cells of each run; `values` are in `order`."""
        return np.add.reduceat(values, self.starts[level])

    def spread_out(self, level: int, values: FloatArray) -> FloatArray:
        """Repeat the value of each run for its cells, in `order`."""
        edges = np.append(self.starts[level], self.order.size)
        return np.repeat(values, np.diff(edges))


def binned(side: RatingsSide, times: FloatArray) -> TimeBins:
    """Bins for the times of the cells of a side of rows, in its order.

    Levels in which few cells share a run are left out, because their effects would hardly differ
    from noise; so are levels with hardly more runs than the level before.
    """
    rows = np.repeat(np.arange(side.n_rows), side.counts)
    order = np.lexsort((times, rows))
    origin = float(times.min())
    whole = TimeScale(origin, float(times.max()) - origin, tuple(range(1, LEVELS + 1)))
    starts, keys, levels = [], [], []
    before = int(np.sum(side.counts > 0))
    for level in whole.levels:
        found = whole.keys(rows, times, level)[order]
        first = np.flatnonzero(np.append(True, found[1:] != found[:-1]))
        if FINER * before <= first.size <= SHARED * order.size:
            starts.append(first.astype(np.int64))
            keys.append(found[first])
            levels.append(level)
            before = first.size
    scale = TimeScale(whole.origin, whole.span, tuple(levels))
    to_columns = np.lexsort((rows, side.other))
    return TimeBins(scale, order, to_columns, tuple(starts), tuple(keys))
