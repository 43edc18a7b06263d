"""A matrix with holes, as the updates want it: at unit scale, zeros in the holes, by pattern."""

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
from bayespca.arrays.types import Array, FloatArray
from bayespca.inference.checkpoint import fingerprint

from .patterns import pattern_of_rows

# Patterns, and rows, that are worked on at a time: what belongs to them stays in the cache, and
# what Python does for them, one thread after another, is little against it. Blocks are smaller
# where there would be few of them, so that there is work for several threads.
BLOCK = 1024
LEAST_BLOCK = 128
BLOCKS = 64
ROWS = 4096

Total = TypeVar("Total")
Given = TypeVar("Given")
# Changes a copy of the values by what is given, and sums something up over the rows.
Change = Callable[[Array, "Holes", Given], Total]


class RowWeights(NamedTuple):
    """How much rows count where that is not the same for all.

    `root` is √w: rows are multiplied by it, and it is their regressor of the mean. `shares` is what
    is left of each row when the mean has taken its part: (n,) both.
    """

    root: FloatArray
    shares: FloatArray

    @classmethod
    def of(cls, precision: FloatArray, *, centred: bool) -> RowWeights:
        """For rows that count w, of which one is taken in all."""
        taken = precision / precision.sum() if centred and precision.size > 1 else 0 * precision
        return cls(np.sqrt(precision), 1 - taken)


class IncompleteRows(ABC):
    """Data with holes as sweeps see them, wherever the rows are: what is known of the columns, and
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
        """M: rows, less the one that the mean takes."""
        return max(self.shape[0] - self.centred, 1)

    @property
    def share(self) -> float:
        """How much of a row is left when the mean has taken its part of it, besides what rows have
        as their own share.
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
    def places(self) -> NDArray[np.intp]:
        """Which row of the data as given, without those that have no value, each row is."""
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
        """The same with rows that count w, in the order of these rows."""
        found = self._with(RowWeights.of(precision, centred=self.centred))
        # Which do not depend on them.
        vars(found).update(column_counts=self.column_counts, row_counts=self.row_counts)
        return found

    @abstractmethod
    def multiplied(self, rows: FloatArray, columns: FloatArray) -> IncompleteRows:
        """Rows and columns multiplied by numbers, in the order of these rows."""

    @abstractmethod
    def _with(self, weights: RowWeights) -> IncompleteRows:
        """The same with other weights."""

    @abstractmethod
    def total(self, sums: Callable[..., Total], *given: Any) -> Total:
        """What a function sums up over rows, whose sums over more rows `added` would merge."""

    @abstractmethod
    def matrix(self, rows: Callable[..., Array], *given: Any) -> Any:
        """A matrix that a function makes of rows, each from its own row."""

    @abstractmethod
    def altered(
        self, matrix: Any, change: Change[Given, Total], steps: Sequence[Given]
    ) -> tuple[Any, Total]:
        """The copy of the values that all `steps` but the last led to, after the last one, and what
        that one summed up.
        """

    @abstractmethod
    def over(self, matrix: Any, sums: Callable[..., Total], *given: Any) -> Total:
        """What a function sums up over the rows of a matrix that was made of these."""

    @abstractmethod
    def columns_of(self, matrix: Any, columns: NDArray[np.intp]) -> Any:
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
        Which row of X each row is: (n,).
    location, unit
        What was subtracted from the columns, and divided by.
    centred
        Whether the mean is part of the model.
    weights
        How much rows count; None where all count 1. They are not part of `values`.
    unweighted
        The values, where cells count differently, which `values` and `patterns` are multiplied by;
        each row is a pattern of its own then. None where all count 1.
    known
        Precisions of cells that are known, relative to the others, 0 in holes; None if there are
        none.
    rounding
        Variance of each column that comes of how its numbers were written down, which is added to
        all squares of what is left in cells; None where it is left out of account.

    All but `values` and `patterns` are NumPy arrays.
    """

    values: Array
    patterns: Array
    starts: NDArray[np.intp]
    order: NDArray[np.intp]
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
    def pattern(self) -> NDArray[np.intp]:
        """The pattern of each row."""
        return pattern_of_rows(self.starts)

    @property
    def mask(self) -> Array:
        """True where observed: n×p."""
        if self.patterns.shape[0] == self.values.shape[0]:
            return self.patterns
        return taken(self.patterns, self.pattern)

    @property
    def shares(self) -> FloatArray:
        """Rows of each pattern, each with its own share: (m,)."""
        return _shares(self.weights, self.starts)

    def _with(self, weights: RowWeights) -> Holes:
        return replace(self, weights=weights)

    def with_cells(self, precision: Array) -> Holes:
        """The same with cells that count ω, 0 in holes: it takes the place of the mask."""
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
        """The values, whatever cells count."""
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
        """The copy is altered where it is."""
        return matrix, change(matrix, self, steps[-1])

    def over(self, matrix: Array, sums: Callable[..., Total], *given: Any) -> Total:
        return sums(matrix, *given)

    def columns_of(self, matrix: Array, columns: NDArray[np.intp]) -> Array:
        return columns_of(matrix, columns)

    def __sizeof__(self) -> int:
        """Bytes: Dask goes by them when it makes room in the memory of a worker."""
        return int(sum(getattr(a, "nbytes", 0) for a in vars(self).values()))

    def over_columns(self, x: FloatArray) -> FloatArray:
        """Σⱼxⱼ over the observed columns of each pattern: (m,)."""
        return to_numpy(self.over_columns_there(x))

    def over_columns_there(self, x: Array) -> Array:
        """The same where the data are."""
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
        """The rows, a few hundred patterns at a time; with `most`, that many rows."""
        return (self.block(*edge) for edge in self.edges(most))

    def block(self, first: int, last: int) -> Block:
        """Some of the rows."""
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
        """What belongs to the rows, in the order of X."""
        if np.array_equal(self.order, np.arange(self.order.size)):
            return rows
        return taken(rows, np.argsort(self.order))


@dataclass(frozen=True, eq=False)
class Block:
    """Some of the rows: which rows and patterns they are, their values, what is observed in their
    patterns, where the rows of each pattern begin among these rows, and how much they count.
    """

    rows: slice
    which: slice
    values: Array
    seen: Array
    starts: NDArray[np.intp]
    weights: RowWeights | None = None

    @cached_property
    def mask(self) -> Array:
        """1.0 where observed in each pattern."""
        return floats(self.seen)

    @property
    def pattern(self) -> NDArray[np.intp]:
        """The pattern of each row, among these patterns."""
        return pattern_of_rows(self.starts)

    @property
    def shares(self) -> FloatArray:
        """Rows of each pattern, each with its own share: (m,)."""
        return _shares(self.weights, self.starts)


def _shares(weights: RowWeights | None, starts: NDArray[np.intp]) -> FloatArray:
    if weights is None:
        return np.diff(starts).astype(np.float64)
    return np.add.reduceat(weights.shares, starts[:-1])


def altered_copy(data: Holes, change: Change[Given, Total], steps: Sequence[Given] = ()) -> Array:
    """The values, altered by one step after the other."""
    matrix = array_namespace(data.values).asarray(data.values, copy=True)
    for step in steps:
        change(matrix, data, step)
    return matrix


def sums_of_last(data: Holes, change: Change[Given, Total], steps: Sequence[Given]) -> Total:
    """What the last of the steps sums up."""
    return change(altered_copy(data, change, steps[:-1]), data, steps[-1])


def digests_of_cells(data: Holes) -> list[str]:
    """Short texts that differ where cells do."""
    return [fingerprint(to_numpy(data.values), to_numpy(data.patterns))]


def _column_counts(data: Holes) -> FloatArray:
    return data.over_patterns(np.diff(data.starts))


def _orders(data: Holes) -> list[NDArray[np.intp]]:
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
