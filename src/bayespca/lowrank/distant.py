"""A matrix with holes whose rows live on Dask's workers, while its columns are updated here.

In a pass over rows, each block is one task, which gets the parameters of the columns, and a tree of
sums ends here. Nothing as large as the rows is brought here.
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
from bayespca.sources.checks import UnusableData
from bayespca.sources.cluster import computed
from bayespca.sources.constant import extremes, is_constant
from bayespca.sources.records import Delayed, Partitions
from bayespca.sources.seen import Few, check_any_value, few
from bayespca.sources.tasks import added, mapped, mapped_parts, reduced, total_over
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
    """Data with holes whose rows live on workers, where `blocks` become `Holes`.

    `lengths` are the numbers of rows of the blocks; everything else is as in `Holes`.
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
        """These data with other weights; each block gets its part of them when it is read."""
        parts = [RowWeights(*pair) for pair in zip(*map(self._parts, weights), strict=True)]
        blocks = tuple(mapped_parts(Holes._with, self.blocks, parts))
        return replace(self, blocks=blocks, weights=weights)

    def multiplied(self, rows: FloatArray, columns: FloatArray) -> DistantHoles:
        parts = self._parts(rows)
        blocks = mapped_parts(Holes.multiplied, self.blocks, parts, broadcast=(columns,))
        return replace(self, blocks=tuple(blocks))

    def _parts(self, of_rows: FloatArray) -> list[FloatArray]:
        """Values of all rows, split into those of each block."""
        return np.split(of_rows, np.cumsum(self.lengths)[:-1])

    def total(self, sums: Callable[..., Total], *given: Any) -> Total:
        return total_over(self.blocks, sums, *given)

    def matrix(self, rows: Callable[..., NDArray[Any]], *given: Any) -> Partitions:
        """The matrix that a function makes of rows; blocks are made when they are read."""
        kind = np.dtype(np.float64)
        chunks = tuple(mapped_parts(rows, self.blocks, broadcast=given))
        return Partitions(chunks, self.shape[1], kind, stored=kind, lengths=self.lengths)

    def altered(
        self, matrix: Partitions, change: Change[Given, Total], steps: Sequence[Given]
    ) -> tuple[Partitions, Total]:
        """The altered matrix and the sums; only the steps are kept, not the matrix itself."""
        altered = self.matrix(altered_copy, change, steps)
        return altered, self.total(sums_of_last, change, steps)

    def over(self, matrix: Partitions, sums: Callable[..., Total], *given: Any) -> Total:
        found: Total = computed(reduced(mapped(matrix, sums, *given), added))[0]
        return found

    def columns_of(self, matrix: Partitions, columns: NDArray[np.intp]) -> Partitions:
        chunks = tuple(mapped(matrix, columns_of, columns))
        return replace(matrix, chunks=chunks, n_features=columns.size)


# --- summaries of columns ----------------------------------------------------------------------


class ColumnLook(NamedTuple):
    """Summary of some blocks: number of rows, number of rows with values in each block, rows
    without values; number of values of each column, their sum, the smallest and the largest.
    """

    n_rows: int
    known: list[int]
    empty: Few
    counts: FloatArray
    totals: FloatArray
    low: FloatArray
    high: FloatArray

    def location(self, *, center: bool) -> FloatArray:
        """Means of the columns, 0 for columns without values and if not `center`."""
        return np.asarray(center * self.totals / np.maximum(self.counts, 1))

    def largest(self, *, center: bool) -> FloatArray:
        """The largest distance from the location, which is that of an extreme value because
        rounding keeps the order of differences.
        """
        location = self.location(center=center)
        return np.maximum(np.abs(self.low - location), np.abs(self.high - location))

    def constant(self, *, center: bool) -> NDArray[np.bool_]:
        """Mask of the columns that have values but do not vary."""
        rounding = sum(self.known) * EPS * np.abs(self.location(center=center))
        small = self.largest(center=center) <= rounding
        same = is_constant(self.low, self.high, center=True) & small
        return np.asarray((self.counts > 0) & same)


def look_at(X: Partitions) -> ColumnLook:
    """Summarise the columns in one pass; raise if there are no values, or infinite ones."""
    look: ColumnLook = computed(reduced(mapped(X, _look), _followed))[0]
    check_any_value(look.counts.sum(), look.n_rows * X.n_features)
    wrong = np.flatnonzero((look.counts > 0) & (np.isinf(look.low) | np.isinf(look.high)))
    if wrong.size:
        j = int(wrong[0])
        name = f"{j} (counting from 0)" if X.names is None else repr(X.names[j])
        raise UnusableData(
            f"Input X contains infinity, first in column {name}: remove or fill values that are "
            "not finite.",
            column=j,
        )
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
    """The `Holes` of a block, without rows and columns that have no values."""
    inside = X[:, live]
    inside = inside[~np.isnan(inside).all(axis=1)]
    data = new_rows(inside, location=location, unit=unit, centred=center)
    if not varying.all():
        # Rounding errors are all that is left of a column that does not vary.
        data.values[:, varying == 0] = 0.0
    return replace(data, rounding=rounding)


def rows_with_values(X: NDArray[Any], live: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
    """Mask of the rows that have values in the `live` columns, as a list of one."""
    return [np.asarray(~np.isnan(X[:, live]).all(axis=1))]
