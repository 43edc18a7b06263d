"""Ratings: the observed cells of a large matrix, sorted by rows and by columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray

Indices = NDArray[np.int32]
Starts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Side:
    """Cells in the order of one side: those of row i are from starts[i] to starts[i + 1], `other`
    tells their columns.
    """

    starts: Starts
    other: Indices
    values: FloatArray

    @cached_property
    def counts(self) -> Starts:
        """Cells of each row."""
        return np.asarray(self.starts[1:] - self.starts[:-1])

    def sums(self, x: FloatArray) -> FloatArray:
        """Σ of a number for each column over the cells of each row."""
        return _sums(x[self.other], self.starts)

    @cached_property
    def totals(self) -> FloatArray:
        """Σ of the values of each row."""
        return _sums(self.values, self.starts)


def _sums(x: FloatArray, starts: Starts) -> FloatArray:
    """Σ over each run; an empty one, which `reduceat` would take for its first entry, has 0."""
    out = np.zeros(starts.size - 1)
    full = np.flatnonzero(np.diff(starts))
    if full.size:
        out[full] = np.add.reduceat(x, starts[full])
    return out


@dataclass(frozen=True, eq=False)
class Ratings:
    """Observed cells of an n×m matrix, less `location` and over `unit`; no cell is there twice."""

    by_rows: Side
    by_columns: Side
    location: float
    unit: float

    @property
    def shape(self) -> tuple[int, int]:
        return self.by_rows.starts.size - 1, self.by_columns.starts.size - 1

    @property
    def n_cells(self) -> int:
        return int(self.by_rows.values.size)

    @property
    def column_counts(self) -> Starts:
        """Cells of each column."""
        return self.by_columns.counts

    @property
    def column_totals(self) -> FloatArray:
        """Σx of each column."""
        return self.by_columns.totals

    @cached_property
    def squares(self) -> float:
        """Σx²"""
        return float(np.sum(self.by_rows.values**2))


def sorted_both_ways(
    rows: Indices, columns: Indices, values: FloatArray, shape: tuple[int, int], *, center: bool
) -> Ratings:
    """The record of cells in any order."""
    location = float(values.mean()) if center and values.size else 0.0
    centred = values - location
    unit = float(np.sqrt(np.mean(centred**2))) if values.size else 0.0
    centred /= unit or 1.0
    by_rows = _sorted(rows, columns, centred, shape[0])
    by_columns = _sorted(columns, rows, centred, shape[1])
    return Ratings(by_rows, by_columns, location, unit or 1.0)


def _sorted(first: Indices, second: Indices, values: FloatArray, size: int) -> Side:
    order = np.lexsort((second, first))
    counts = np.bincount(first, minlength=size)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Side(starts, second[order].astype(np.int32), np.ascontiguousarray(values[order]))
