"""A matrix with holes whose rows are on the workers of Dask: what belongs to columns is here.

A pass over rows is one task for each block, given what belongs to columns, and a tree of sums that
ends here. Nothing of the size of the rows does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.namespaces import row_blocks
from bayespca.arrays.places import columns_of
from bayespca.arrays.types import FloatArray
from bayespca.sources.cluster import computed
from bayespca.sources.constant import extremes, is_constant
from bayespca.sources.errors import UnusableData
from bayespca.sources.records import Delayed, Partitions
from bayespca.sources.seen import Few, check_any_value, few
from bayespca.sources.sums import added, total_over
from bayespca.sources.tasks import mapped, mapped_parts, reduced
from bayespca.spectrum.tolerances import EPS

from .holes import (
    Change,
    Given,
    Holes,
    IncompleteRows,
    RowWeights,
    Total,
    altered_copy,
    sums_of_last,
)
from .observing import counts_and_totals, new_rows


@dataclass(frozen=True, eq=False)
class DistantHoles(IncompleteRows):
    """Data with holes whose rows are on workers: `blocks` become `Holes` there.

    `lengths` are the rows of each block; all else as in `Holes`.
    """

    blocks: tuple[Delayed, ...]
    lengths: tuple[int, ...]
    location: FloatArray
    unit: FloatArray
    centred: bool
    weights: RowWeights | None = None
    rounding: FloatArray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return sum(self.lengths), self.location.size

    def _with(self, weights: RowWeights) -> DistantHoles:
        """Blocks get their part of the weights when they are read."""
        parts = [RowWeights(*pair) for pair in zip(*map(self._parts, weights), strict=True)]
        blocks = tuple(mapped_parts(Holes._with, self.blocks, parts))
        return replace(self, blocks=blocks, weights=weights)

    def multiplied(self, rows: FloatArray, columns: FloatArray) -> DistantHoles:
        parts = self._parts(rows)
        blocks = mapped_parts(Holes.multiplied, self.blocks, parts, broadcast=(columns,))
        return replace(self, blocks=tuple(blocks))

    def _parts(self, of_rows: FloatArray) -> list[FloatArray]:
        """What belongs to the rows of each block."""
        return np.split(of_rows, np.cumsum(self.lengths)[:-1])

    def total(self, sums: Callable[..., Total], *given: Any) -> Total:
        return total_over(self.blocks, sums, *given)

    def matrix(self, rows: Callable[..., NDArray[Any]], *given: Any) -> Partitions:
        """Made when it is read."""
        kind = np.dtype(np.float64)
        chunks = tuple(mapped_parts(rows, self.blocks, broadcast=given))
        return Partitions(chunks, self.shape[1], kind, stored=kind, lengths=self.lengths)

    def altered(
        self, matrix: Partitions, change: Change[Given, Total], steps: Sequence[Given]
    ) -> tuple[Partitions, Total]:
        """Nothing of the matrix is kept but the steps that lead to it."""
        altered = self.matrix(altered_copy, change, steps)
        return altered, self.total(sums_of_last, change, steps)

    def over(self, matrix: Partitions, sums: Callable[..., Total], *given: Any) -> Total:
        found: Total = computed(reduced(mapped(matrix, sums, *given), added))[0]
        return found

    def columns_of(self, matrix: Partitions, columns: NDArray[np.intp]) -> Partitions:
        chunks = tuple(mapped(matrix, columns_of, columns))
        return replace(matrix, chunks=chunks, n_features=columns.size)


# --- what columns hold -------------------------------------------------------------------------


class ColumnLook(NamedTuple):
    """What some blocks hold: their rows, those with values in each block, rows without; how many
    values each column has, their sum, the smallest and the largest.
    """

    n_rows: int
    known: list[int]
    empty: Few
    counts: FloatArray
    totals: FloatArray
    low: FloatArray
    high: FloatArray

    def location(self, *, center: bool) -> FloatArray:
        """Means of columns that have values."""
        return np.asarray(center * self.totals / np.maximum(self.counts, 1))

    def largest(self, *, center: bool) -> FloatArray:
        """The largest difference from the location: that of an extreme value, for differences are
        rounded in the order of the numbers.
        """
        location = self.location(center=center)
        return np.maximum(np.abs(self.low - location), np.abs(self.high - location))

    def constant(self, *, center: bool) -> NDArray[np.bool_]:
        """Columns that do not vary, of those that have values."""
        rounding = sum(self.known) * EPS * np.abs(self.location(center=center))
        small = self.largest(center=center) <= rounding
        same = is_constant(self.low, self.high, center=True) & small
        return np.asarray((self.counts > 0) & same)


def look_at(X: Partitions) -> ColumnLook:
    """What columns hold, by one pass; raise where that is nothing, or infinite."""
    look: ColumnLook = computed(reduced(mapped(X, _look), _followed))[0]
    check_any_value(look.counts.sum(), look.n_rows * X.n_features)
    _check_finite(look, X)
    return look


def _look(X: NDArray[Any]) -> ColumnLook:
    is_empty = np.asarray(np.isnan(X).all(axis=1))
    counts, totals = counts_and_totals(X)
    low, high = extremes(X)
    return ColumnLook(
        n_rows=len(X),
        known=[len(X) - int(is_empty.sum())],
        empty=few(is_empty),
        counts=counts,
        totals=totals,
        low=low,
        high=high,
    )


def _followed(first: ColumnLook, second: ColumnLook) -> ColumnLook:
    return ColumnLook(
        n_rows=first.n_rows + second.n_rows,
        known=first.known + second.known,
        empty=first.empty.followed_by(second.empty, first.n_rows),
        counts=first.counts + second.counts,
        totals=first.totals + second.totals,
        low=np.minimum(first.low, second.low),
        high=np.maximum(first.high, second.high),
    )


def _check_finite(look: ColumnLook, X: Partitions) -> None:
    wrong = np.flatnonzero((look.counts > 0) & (np.isinf(look.low) | np.isinf(look.high)))
    if wrong.size:
        j = int(wrong[0])
        name = f"{j} (counting from 0)" if X.names is None else repr(X.names[j])
        raise UnusableData(
            f"Input X contains infinity, first in column {name}: remove or fill what is not a "
            "finite number.",
            column=j,
        )


# --- blocks at unit scale ----------------------------------------------------------------------


def squares_of_block(
    X: NDArray[Any],
    live: NDArray[np.bool_],
    location: FloatArray,
    varying: FloatArray,
    size: float | FloatArray,
) -> FloatArray:
    """Σ((x − location)/size)² of each column, 0 for one that does not vary."""
    total = np.zeros(location.size)
    for rows in row_blocks(X):
        block = (X[rows][:, live] - location) / size
        total += np.nansum(block * block, axis=0)
    return total * varying


def holes_of_block(
    X: NDArray[Any],
    live: NDArray[np.bool_],
    location: FloatArray,
    varying: FloatArray,
    unit: FloatArray,
    center: bool,
    rounding: FloatArray | None,
) -> Holes:
    """The rows and columns of a block that have values."""
    inside = X[:, live]
    inside = inside[~np.isnan(inside).all(axis=1)]
    data = new_rows(inside, location=location, unit=unit, centred=center)
    if not varying.all():
        # What is left of a column that does not vary is rounding, which is no data.
        data.values[:, varying == 0] = 0.0
    return replace(data, rounding=rounding)


def rows_with_values(X: NDArray[Any], live: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
    """Which rows have values in some columns."""
    return [np.asarray(~np.isnan(X[:, live]).all(axis=1))]
