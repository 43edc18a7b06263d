"""A matrix with holes as updates need it: at unit scale, with zeros in holes, sorted by pattern."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays import cuda
from bayespca.arrays.namespaces import (
    array_namespace,
    cast,
    is_numpy_array,
    row_blocks,
    to_numpy,
)
from bayespca.arrays.parallel import in_turn
from bayespca.arrays.places import at, columns_of, taken
from bayespca.arrays.types import Array, FloatArray, Index
from bayespca.inference.digest import fingerprint

from .patterns import pattern_of_rows

# Most patterns and rows of a block: its numbers stay in the cache, while Python's overhead, which
# threads cannot share, stays small. Few patterns are split into smaller blocks, so that several
# threads have work.
BLOCK = 1024
LEAST_BLOCK = 128
BLOCKS = 64
ROWS = 4096

Total = TypeVar("Total")
Given = TypeVar("Given")
# Alters a copy of the values, given some parameters, and returns sums over the rows.
Change = Callable[[Array, "Holes", Given], Total]


class RowWeights(NamedTuple):
    """Weights of rows, where they differ.

    `root` is √w: rows are multiplied by it, and it is their regressor of the mean. `shares` is the
    part of each row that is left after the mean is removed: (n,) both.
    """

    root: FloatArray
    shares: FloatArray

    @classmethod
    def of(cls, precision: FloatArray, *, centred: bool) -> RowWeights:
        """Weights for rows with precisions w; a mean takes one row in total from the shares."""
        taken = precision / precision.sum() if centred and precision.size > 1 else 0 * precision
        return cls(np.sqrt(precision), 1 - taken)


class IncompleteRows(ABC):
    """Data with holes as sweeps use them, wherever the rows live: properties of the columns, and
    sums over rows. Names are those of `Holes`.
    """

    location: FloatArray
    unit: FloatArray
    centred: bool
    weights: RowWeights | None
    rounding: FloatArray | None

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(n, p): rows, columns."""

    @property
    def freedom(self) -> int:
        """M: the number of rows, less one for the mean."""
        return max(self.shape[0] - self.centred, 1)

    @property
    def share(self) -> float:
        """Part of a row that is left after the mean is removed; 1 where rows have shares of their
        own, which include it.
        """
        return self.freedom / self.shape[0] if self.weights is None else 1.0

    @cached_property
    def column_counts(self) -> FloatArray:
        """Observed cells of each column."""
        return self.total(_column_counts)

    @cached_property
    def row_counts(self) -> FloatArray:
        """Observed cells of each row."""
        return np.concatenate(self.total(_row_counts))

    @cached_property
    def places(self) -> Index:
        """Index of each row in the data as given, where rows without values do not count."""
        orders = self.total(_orders)
        begins = np.cumsum([0, *(order.size for order in orders[:-1])])
        return np.concatenate([order + begin for order, begin in zip(orders, begins, strict=True)])

    def squares_of_rows(self, root: float | FloatArray) -> FloatArray:
        """Σ(x/root)² of each row."""
        return np.concatenate(self.total(_squares_of_rows, root))

    @cached_property
    def totals(self) -> FloatArray:
        """Σwx of each column."""
        return self.total(_totals)

    @cached_property
    def squares(self) -> FloatArray:
        """Σwx² of each column."""
        return self.total(_squares)

    def weighted(self, precision: FloatArray) -> IncompleteRows:
        """These data with row weights w, in the order of these rows."""
        found = self._with(RowWeights.of(precision, centred=self.centred))
        # Counts do not depend on weights.
        vars(found).update(column_counts=self.column_counts, row_counts=self.row_counts)
        return found

    @abstractmethod
    def multiplied(self, rows: FloatArray, columns: FloatArray) -> IncompleteRows:
        """These data with rows and columns multiplied by numbers, in the order of these rows."""

    @abstractmethod
    def _with(self, weights: RowWeights) -> IncompleteRows:
        """These data with other row weights."""

    @abstractmethod
    def total(self, sums: Callable[..., Total], *given: Any) -> Total:
        """Sums over rows that a function returns; `added` can merge those of several blocks."""

    @abstractmethod
    def matrix(self, rows: Callable[..., Array], *given: Any) -> Any:
        """A matrix that a function makes of the rows, one row from each."""

    @abstractmethod
    def altered(
        self, matrix: Any, change: Change[Given, Total], steps: Sequence[Given]
    ) -> tuple[Any, Total]:
        """The copy of the values after the last of the `steps`, and the sums of that step. `matrix`
        is the copy before it.
        """

    @abstractmethod
    def over(self, matrix: Any, sums: Callable[..., Total], *given: Any) -> Total:
        """Sums that a function returns over the rows of a matrix that was made of these rows."""

    @abstractmethod
    def columns_of(self, matrix: Any, columns: Index) -> Any:
        """Some columns of a matrix that was made of these rows."""


@dataclass(frozen=True, eq=False)
class Holes(IncompleteRows):
    """Data with holes: rows are samples, sorted so that those with the same holes are together.

    Attributes
    ----------
    values
        (X − location)/unit where observed, 0 elsewhere: n×p, float64, where X was.
    patterns
        The different rows of the mask, True where observed: m×p, m ≤ n; where X was.
    starts
        Where the rows of each pattern begin, with n at the end: (m + 1,).
    order
        Index in X of each row: (n,).
    location, unit
        Numbers that were subtracted from the columns, and divisors of the columns.
    centred
        Whether the mean is part of the model.
    weights
        Weights of the rows; None where all count 1. They are not part of `values`.
    unweighted
        Where cells have weights, the values without them: `values` are then multiplied by the
        weights, `patterns` are the weights, and each row is a pattern of its own. None where all
        cells count 1.
    known
        Known precisions of cells, relative to each other, 0 in holes; None if there are none.
    rounding
        Variance of each column due to the rounding of its numbers, which is added to all squared
        residuals of cells; None where rounding is ignored.

    All but `values` and `patterns` are NumPy arrays.
    """

    values: Array
    patterns: Array
    starts: Index
    order: Index
    location: FloatArray
    unit: FloatArray
    centred: bool = True
    weights: RowWeights | None = None
    unweighted: Array | None = None
    known: Array | None = None
    rounding: FloatArray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        n, p = self.values.shape
        return int(n), int(p)

    @property
    def pattern(self) -> Index:
        return pattern_of_rows(self.starts)

    @property
    def mask(self) -> Array:
        """True where observed: n×p."""
        if self.patterns.shape[0] == self.values.shape[0]:
            return self.patterns
        return taken(self.patterns, self.pattern)

    @property
    def shares(self) -> FloatArray:
        """Number of rows of each pattern, each counted by its share: (m,)."""
        return _shares(self.weights, self.starts)

    def _with(self, weights: RowWeights) -> Holes:
        return replace(self, weights=weights)

    def with_cells(self, precision: Array) -> Holes:
        """These data with cell weights ω, 0 in holes, which replace the mask."""
        found = replace(
            self,
            values=self.values * precision,
            patterns=precision,
            starts=np.arange(self.shape[0] + 1),
            unweighted=self.values,
        )
        vars(found).update(column_counts=self.column_counts, row_counts=self.row_counts)
        return found

    @property
    def plain_values(self) -> Array:
        """The values without weights of cells."""
        return self.values if self.unweighted is None else self.unweighted

    def multiplied(self, rows: FloatArray, columns: FloatArray) -> Holes:
        values = self.values * at(self.values, rows)[:, None]
        values *= at(values, columns)
        return replace(self, values=values)

    def total(self, sums: Callable[..., Total], *given: Any) -> Total:
        return sums(self, *given)

    def matrix(self, rows: Callable[..., Array], *given: Any) -> Array:
        return rows(self, *given)

    def altered(
        self, matrix: Array, change: Change[Given, Total], steps: Sequence[Given]
    ) -> tuple[Array, Total]:
        """The copy, altered in place, and the sums of the last step."""
        return matrix, change(matrix, self, steps[-1])

    def over(self, matrix: Array, sums: Callable[..., Total], *given: Any) -> Total:
        return sums(matrix, *given)

    def columns_of(self, matrix: Array, columns: Index) -> Array:
        return columns_of(matrix, columns)

    def __sizeof__(self) -> int:
        """Size in bytes, by which Dask makes room in the memory of a worker."""
        return int(sum(getattr(a, "nbytes", 0) for a in vars(self).values()))

    def over_columns(self, x: FloatArray) -> FloatArray:
        """Σⱼxⱼ over the observed columns of each pattern: (m,)."""
        return to_numpy(self.over_columns_there(x))

    def over_columns_there(self, x: Array) -> Array:
        """As `over_columns`, but the result stays where the data are."""
        xp, here = array_namespace(self.values), at(self.values, x)
        found = cuda.sums_where(self.patterns, here) if cuda.is_served(self.patterns) else None
        if found is not None:
            return found
        parts = row_blocks(self.patterns)

        def work(rows: slice) -> Array:
            return xp.matmul(floats(self.patterns[rows, :]), here)

        sums = in_turn(work, parts) if is_numpy_array(self.patterns) else map(work, parts)
        return xp.concat(list(sums))

    def over_patterns(self, x: NDArray[Any]) -> FloatArray:
        """Σx over the patterns in which each column is observed: (p,)."""
        xp, here = array_namespace(self.values), at(self.values, x)
        total = xp.zeros_like(self.values[0, :])
        for rows in row_blocks(self.patterns):
            total += xp.matmul(here[rows], floats(self.patterns[rows, :]))
        return to_numpy(total)

    def blocks(self, most: int | None = None) -> Iterator[Block]:
        """The rows in blocks of a few hundred patterns; with `most`, of at most that many rows."""
        return (self.block(*edge) for edge in self.edges(most))

    def block(self, first: int, last: int) -> Block:
        """The block from row `first` up to row `last`."""
        low = int(np.searchsorted(self.starts, first, side="right")) - 1
        high = int(np.searchsorted(self.starts, last, side="left"))
        rows, which = slice(first, last), slice(low, high)
        if self.patterns.shape[0] == self.values.shape[0]:
            starts = self.starts[: last - first + 1]
        else:
            starts = np.clip(self.starts[low : high + 1], first, last) - first
        weights = self.weights
        if weights is not None:
            weights = RowWeights(weights.root[rows], weights.shares[rows])
        return Block(rows, which, self.values[rows, :], self.patterns[which, :], starts, weights)

    def edges(self, most: int | None = None) -> list[tuple[int, int]]:
        """Where blocks begin and end."""
        n, m = self.shape[0], self.starts.size - 1
        patterns, rows = min(BLOCK, max(m // BLOCKS, LEAST_BLOCK)), ROWS
        if most is not None:
            patterns = rows = most
        found, first = [], 0
        while first < n:
            low = int(np.searchsorted(self.starts, first, side="right")) - 1
            last = min(first + rows, int(self.starts[min(low + patterns, m)]))
            found.append((first, last))
            first = last
        return found

    def in_order(self, rows: Array) -> Array:
        """Values that belong to the rows, in the order of X."""
        if np.array_equal(self.order, np.arange(self.order.size)):
            return rows
        return taken(rows, np.argsort(self.order))


@dataclass(frozen=True, eq=False)
class Block:
    """A block of rows: slices of its rows and patterns, its values, the masks of its patterns,
    where the rows of each pattern begin in the block, and row weights.
    """

    rows: slice
    which: slice
    values: Array
    seen: Array
    starts: Index
    weights: RowWeights | None = None

    @cached_property
    def mask(self) -> Array:
        """1.0 where observed in each pattern."""
        return floats(self.seen)

    @property
    def pattern(self) -> Index:
        """The pattern of each row, among those of the block."""
        return pattern_of_rows(self.starts)

    @property
    def shares(self) -> FloatArray:
        """Number of rows of each pattern, each counted by its share: (m,)."""
        return _shares(self.weights, self.starts)


def _shares(weights: RowWeights | None, starts: Index) -> FloatArray:
    if weights is None:
        return np.diff(starts).astype(np.float64)
    return np.add.reduceat(weights.shares, starts[:-1])


def altered_copy(data: Holes, change: Change[Given, Total], steps: Sequence[Given] = ()) -> Array:
    """A copy of the values, altered by one step after another."""
    matrix = array_namespace(data.values).asarray(data.values, copy=True)
    for step in steps:
        change(matrix, data, step)
    return matrix


def sums_of_last(data: Holes, change: Change[Given, Total], steps: Sequence[Given]) -> Total:
    """Sums that the last of the steps returns."""
    return change(altered_copy(data, change, steps[:-1]), data, steps[-1])


def digests_of_cells(data: Holes) -> list[str]:
    """Digests of the cells, which differ where cells do."""
    return [fingerprint(to_numpy(data.values), to_numpy(data.patterns))]


def _column_counts(data: Holes) -> FloatArray:
    return data.over_patterns(np.diff(data.starts))


def _orders(data: Holes) -> list[Index]:
    return [data.order]


def _row_counts(data: Holes) -> list[FloatArray]:
    return [data.over_columns(np.ones(data.shape[1]))[data.pattern]]


def _squares_of_rows(data: Holes, root: float | FloatArray) -> list[FloatArray]:
    xp, found = array_namespace(data.values), []
    precision = at(data.values, np.ones(data.shape[1]) / np.square(root))
    for rows in row_blocks(data.values):
        found.append(to_numpy(xp.matmul(data.values[rows, :] ** 2, precision)))
    return found


def _totals(data: Holes) -> FloatArray:
    xp = array_namespace(data.values)
    if data.weights is None:
        return to_numpy(xp.sum(data.values, axis=0))
    return to_numpy(xp.matmul(at(data.values, data.weights.root**2), data.values))


def _squares(data: Holes) -> FloatArray:
    if data.weights is None and data.unweighted is None:
        return squares_of_columns(data.values)
    xp, total = array_namespace(data.values), np.zeros(data.shape[1])
    for rows in row_blocks(data.values):
        block = data.values[rows, :] * data.plain_values[rows, :]
        w = np.ones(block.shape[0]) if data.weights is None else data.weights.root[rows] ** 2
        total += to_numpy(xp.matmul(at(block, w), block))
    return total


def floats(seen: Array) -> Array:
    return cast(seen, array_namespace(seen).float64)


def squares_of_columns(values: Array, divisor: float = 1.0) -> FloatArray:
    """Σ(x/divisor)² of each column."""
    xp = array_namespace(values)
    total = xp.zeros_like(values[0, :])
    for rows in row_blocks(values):
        block = values[rows, :] / divisor
        total += xp.sum(block * block, axis=0)
    return to_numpy(total)
