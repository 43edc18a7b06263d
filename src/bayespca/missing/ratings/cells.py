"""Observed cells sorted by one side, and sums over them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray, Sparse

Indices = NDArray[np.int32]
Starts = NDArray[np.int64]

# Number of cells to work on at a time.
CHUNK = 1 << 16
# Pieces of work to share among threads; more than there are threads, so that none waits long.
PIECES = 32


@dataclass(frozen=True, eq=False)
class RatingsSide:
    """Cells sorted by one side: those of row i run from starts[i] to starts[i + 1].

    `other` holds their columns.
    """

    starts: Starts
    other: Indices
    values: FloatArray

    @property
    def n_rows(self) -> int:
        return int(self.starts.size) - 1

    @cached_property
    def counts(self) -> Starts:
        """Number of cells of each row."""
        return np.asarray(self.starts[1:] - self.starts[:-1])

    @cached_property
    def totals(self) -> FloatArray:
        """Σ of the values of each row."""
        return _sums(self.values, self.starts)

    def sums(self, x: FloatArray) -> FloatArray:
        """Σ xⱼ over the cells of each row, for a number x of each column."""
        return _sums(x[self.other], self.starts)

    def weighted_sum(self, a: FloatArray, b: FloatArray) -> float:
        """Σ xᵢⱼaᵢbⱼ over the cells, for numbers a of rows and b of columns."""
        total = 0.0
        for cells, rows in self._chunks():
            # No BLAS here: its threads would take cores from the threads of the loops.
            total += float(np.einsum("c,c,c->", self.values[cells], a[rows], b[self.other[cells]]))
        return total

    def sum_of_products(self, a: FloatArray, b: FloatArray) -> float:
        """Σ aᵢᵀbⱼ over the cells, for vectors a of rows and b of columns."""
        total = 0.0
        for cells, rows in self._chunks():
            total += float(np.einsum("ck,ck->", a[rows], b[self.other[cells]]))
        return total

    def matrix(self, values: FloatArray, m: int) -> Sparse:
        """Sparse matrix with m columns that has a value in each cell."""
        return scipy.sparse.csr_array((values, self.other, self.starts), shape=(self.n_rows, m))

    def products(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """aᵢᵀbⱼ of each cell, for vectors a of rows and b of columns."""
        out = np.empty(self.other.size)
        for cells, rows in self._chunks():
            out[cells] = np.einsum("ck,ck->c", a[rows], b[self.other[cells]])
        return out

    def left_over(
        self, rows: FloatArray, columns: FloatArray, location: float, *, biases: bool
    ) -> FloatArray:
        """x − m − u − v − aᵀb of each cell, for rows (a, u) and columns (b, v)."""
        rest = self.values - location
        if biases:
            rest -= columns[self.other, -1]
            rest -= np.repeat(rows[:, -1], self.counts)
        H = rows.shape[1] - biases
        for cells, own in self._chunks():
            a, b = rows[own, :H], columns[self.other[cells], :H]
            rest[cells] -= np.einsum("ch,ch->c", a, b)
        return rest

    def _chunks(self) -> Iterator[tuple[slice, NDArray[np.int64]]]:
        """Slices of the cells, and the rows of these."""
        for first in range(0, self.other.size, CHUNK):
            last = min(first + CHUNK, self.other.size)
            low = int(np.searchsorted(self.starts, first, side="right")) - 1
            high = int(np.searchsorted(self.starts, last, side="left"))
            edges = np.clip(self.starts[low : high + 1], first, last)
            counts = edges[1:] - edges[:-1]
            yield slice(first, last), np.repeat(np.arange(low, high), counts)


def _sums(x: FloatArray, starts: Starts) -> FloatArray:
    """Σ over each run; 0 for empty runs, for which `reduceat` would return an entry of x."""
    out = np.zeros(starts.size - 1)
    full = np.flatnonzero(np.diff(starts))
    if full.size:
        out[full] = np.add.reduceat(x, starts[full])
    return out


def pieces_of(side: RatingsSide, K: int) -> list[tuple[int, int]]:
    """Edges of pieces of about equal work, counted as cells plus K for each row."""
    n = side.n_rows
    work = side.starts + np.arange(n + 1) * K
    edges = np.unique(np.searchsorted(work, np.linspace(0, work[-1], PIECES + 1)))
    edges[-1] = n
    return [(int(low), int(high)) for low, high in itertools.pairwise(edges)]


def sorted_side(first: Indices, second: Indices, values: FloatArray, size: int) -> RatingsSide:
    """A side of `size` rows from cells in any order; `first` holds rows and `second` columns."""
    order = np.lexsort((second, first))
    counts = np.bincount(first, minlength=size)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return RatingsSide(starts, second[order].astype(np.int32), np.ascontiguousarray(values[order]))
