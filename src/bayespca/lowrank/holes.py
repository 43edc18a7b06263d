"""A matrix with holes, as the updates want it: at unit scale, zeros in the holes, by pattern."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays import cuda
from bayespca.arrays.namespaces import (
    array_namespace,
    cast,
    device,
    is_numpy_array,
    row_blocks,
    to_numpy,
)
from bayespca.arrays.parallel import in_turn
from bayespca.arrays.places import at, taken
from bayespca.arrays.types import Array, FloatArray
from bayespca.spectrum.records import Status
from bayespca.spectrum.tolerances import EPS

from .kernels import pattern_of_rows

# Patterns, and rows, that are worked on at a time: what belongs to them stays in the cache, and
# what Python does for them, one thread after another, is little against it. Blocks are smaller
# where there would be few of them, so that there is work for several threads.
BLOCK = 1024
LEAST_BLOCK = 128
BLOCKS = 64
ROWS = 4096


Total = TypeVar("Total")


class Sample(Protocol):
    """Data with holes as sweeps see them, wherever the rows are: what is known of the columns, and
    sums over rows. Names are those of `Holes`.
    """

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def location(self) -> FloatArray: ...
    @property
    def unit(self) -> FloatArray: ...
    @property
    def centred(self) -> bool: ...
    @property
    def freedom(self) -> int: ...
    @property
    def share(self) -> float: ...
    @property
    def column_counts(self) -> FloatArray: ...
    @property
    def totals(self) -> FloatArray: ...
    @property
    def squares(self) -> FloatArray: ...

    def total(self, sums: Callable[..., Total], *given: Any) -> Total: ...
    def matrix(self, rows: Callable[..., Array], *given: Any) -> Any: ...


class Shares(ABC):
    """What the mean takes of the rows."""

    centred: bool

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]: ...

    @property
    def freedom(self) -> int:
        """M: rows, less the one that the mean takes."""
        return max(self.shape[0] - self.centred, 1)

    @property
    def share(self) -> float:
        """How much of a row is left when the mean has taken its part of it."""
        return self.freedom / self.shape[0]


@dataclass(frozen=True, eq=False)
class Holes(Shares):
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

    All but `values` and `patterns` are NumPy arrays.
    """

    values: Array
    patterns: Array
    starts: NDArray[np.intp]
    order: NDArray[np.intp]
    location: FloatArray
    unit: FloatArray
    centred: bool = True

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

    def total(self, sums: Callable[..., Total], *given: Any) -> Total:
        """What a function sums up over rows, whose sums over more rows `added` would merge."""
        return sums(self, *given)

    def matrix(self, rows: Callable[..., Array], *given: Any) -> Array:
        """A matrix that a function makes of rows, each from its own row."""
        return rows(self, *given)

    @cached_property
    def column_counts(self) -> FloatArray:
        """Observed cells of each column."""
        return self.over_patterns(np.diff(self.starts))

    @cached_property
    def totals(self) -> FloatArray:
        """Σx of each column."""
        xp = array_namespace(self.values)
        return to_numpy(xp.sum(self.values, axis=0))

    @cached_property
    def squares(self) -> FloatArray:
        """Σx² of each column."""
        return _squares(self.values)

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
            return xp.matmul(_floats(self.patterns[rows, :]), here)

        sums = in_turn(work, parts) if is_numpy_array(self.patterns) else map(work, parts)
        return xp.concat(list(sums))

    def over_patterns(self, x: NDArray[Any]) -> FloatArray:
        """Σx over the patterns in which each column is observed: (p,)."""
        xp, here = array_namespace(self.values), at(self.values, x)
        total = xp.zeros_like(self.values[0, :])
        for rows in row_blocks(self.patterns):
            total += xp.matmul(here[rows], _floats(self.patterns[rows, :]))
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
        return Block(rows, which, self.values[rows, :], self.patterns[which, :], starts)

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
class Table:
    """A matrix as it was given: the rows and columns of it that have values, its rows, which of its
    columns have values, what to tell of the others, and an array of its library, type and place.
    """

    data: Sample
    n_samples: int
    live: NDArray[np.bool_]
    status: Status
    like: Array


@dataclass(frozen=True, eq=False)
class Block:
    """Some of the rows: which rows and patterns they are, their values, what is observed in their
    patterns, and where the rows of each pattern begin among these rows.
    """

    rows: slice
    which: slice
    values: Array
    seen: Array
    starts: NDArray[np.intp]

    @cached_property
    def mask(self) -> Array:
        """1.0 where observed in each pattern."""
        return _floats(self.seen)

    @property
    def pattern(self) -> NDArray[np.intp]:
        """The pattern of each row, among these patterns."""
        return pattern_of_rows(self.starts)

    @property
    def counts(self) -> NDArray[np.intp]:
        """Rows of each pattern."""
        return np.diff(self.starts)


def added(first: Total, second: Total) -> Total:
    """Sums over some rows and over those that follow: numbers, arrays, lists, or tuples of them."""
    if isinstance(first, tuple):
        merged = [added(a, b) for a, b in zip(first, second, strict=True)]  # type: ignore[call-overload]
        return type(first)(*merged) if hasattr(first, "_fields") else tuple(merged)  # type: ignore[return-value]
    return first + second  # type: ignore[operator]


def _floats(seen: Array) -> Array:
    return cast(seen, array_namespace(seen).float64)


def _squares(values: Array, divisor: float = 1.0) -> FloatArray:
    """Σ(x/divisor)² of each column."""
    xp = array_namespace(values)
    total = xp.zeros_like(values[0, :])
    for rows in row_blocks(values):
        block = values[rows, :] / divisor
        total += xp.sum(block * block, axis=0)
    return to_numpy(total)


# --- from a matrix with NaN --------------------------------------------------------------------


def observed(X: Array, *, center: bool, scale: bool) -> Holes:
    """Sort out a matrix with NaN: where columns lie, how large they are, which rows are alike.

    All columns have one unit unless they are scaled, so that a single noise variance keeps its
    meaning; a column that does not vary keeps the common one.
    """
    seen = _seen(X)
    counts, totals = counts_and_totals(X)
    location = totals / np.maximum(counts, 1) if center else np.zeros(counts.size)
    data = _sorted(X, seen, location, np.ones(counts.size), centred=center)
    largest = _largest(data.values)
    for j in np.flatnonzero(largest <= len(data.order) * EPS * np.abs(location)):
        if _is_constant(to_numpy(X[:, int(j)])):
            # What is left of it is rounding, which is not to be taken for data.
            data.values[:, int(j)] = largest[j] = 0.0
    # Squares of what is divided by the largest neither overflow nor vanish.
    size = float(largest.max()) or 1.0
    unit = size * units(_squares(data.values, size), counts, center=center, scale=scale)
    values = data.values
    values /= at(values, unit)
    return replace(data, unit=unit)


def units(squares: FloatArray, counts: FloatArray, *, center: bool, scale: bool) -> FloatArray:
    """What columns are divided by, from Σ(x − location)² of each."""
    unit = np.full(counts.size, np.sqrt(squares.sum() / max(counts.sum(), 1)) or 1.0)
    if not scale:
        return unit
    std = np.sqrt(squares / np.maximum(counts - center, 1))
    return np.where(std > 0, std, unit)


def new_rows(X: Array, *, location: Array, unit: Array, centred: bool = True) -> Holes:
    """Rows with NaN, in units that are given."""
    return _sorted(X, _seen(X), to_numpy(location), to_numpy(unit), centred=centred)


def sorted_by_pattern(
    values: Array,
    seen: Array,
    location: FloatArray,
    unit: FloatArray,
    *,
    centred: bool = True,
) -> Holes:
    """The record of values with zeros in their holes."""
    order, starts, first = _arranged(to_numpy(seen))
    if first.size < order.size:  # else there is nothing to be gained by sorting
        values, seen = taken(values, order), taken(seen, first)
    return Holes(values, seen, starts, order, location, unit, centred)


def _seen(X: Array) -> Array:
    """True where observed: NaN alone is not equal to itself."""
    return X == X  # noqa: PLR0124


def counts_and_totals(X: Array) -> tuple[FloatArray, FloatArray]:
    """Observed cells of each column, and Σx over them."""
    xp, p = array_namespace(X), X.shape[1]
    counts, totals = np.zeros(p), np.zeros(p)
    for rows in row_blocks(X):
        known = _seen(X[rows, :])
        counts += to_numpy(xp.sum(_floats(known), axis=0))
        cells = xp.astype(X[rows, :], xp.float64, copy=True)
        totals += to_numpy(xp.sum(_without_holes(cells, known), axis=0))
    return counts, totals


def _sorted(
    X: Array, seen: Array, location: FloatArray, unit: FloatArray, *, centred: bool
) -> Holes:
    """(X − location)/unit, written where its rows belong: there is no second copy of it."""
    xp = array_namespace(X)
    # Which rows are alike is found out on the host: what is observed is brought there once.
    order, starts, first = _arranged(to_numpy(seen))
    some_alike = first.size < order.size
    less, over = at(X, location), at(X, unit)
    values = xp.empty(X.shape, dtype=xp.float64, device=device(X))
    for rows in row_blocks(X):
        cells, known = X[rows, :], seen[rows, :]
        if some_alike:
            cells, known = taken(X, order[rows]), taken(seen, order[rows])
        values[rows, :] = _without_holes((cast(cells, xp.float64) - less) / over, known)
    patterns = taken(seen, first) if some_alike else seen
    return Holes(values, patterns, starts, order, location, unit, centred)


def _without_holes(cells: Array, seen: Array) -> Array:
    """Cells with 0 where nothing was observed, in the memory of the cells where that can be."""
    if not is_numpy_array(cells):
        xp = array_namespace(cells)
        return xp.where(seen, cells, xp.zeros_like(cells))
    # Five times as fast as np.where, which stumbles over random masks.
    np.putmask(cells, ~seen, 0.0)
    return cells


def _largest(values: Array) -> FloatArray:
    """The largest size of a number in each column."""
    xp = array_namespace(values)
    blocks = (xp.max(xp.abs(values[rows, :]), axis=0) for rows in row_blocks(values))
    return np.max([to_numpy(block) for block in blocks], axis=0)


def _is_constant(x: NDArray[Any]) -> bool:
    """Whether all that is observed of a column is the same."""
    known = x[~np.isnan(x)]
    return bool((known == known[:1]).all())


# --- which rows are alike ----------------------------------------------------------------------


def _arranged(
    seen: NDArray[np.bool_],
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """An order in which rows with the same pattern are together, where the rows of each pattern
    begin in it, and a row that has each pattern. Rows that are all different stay as they are.
    """
    first, which = patterns_of(seen)
    if first.size == len(seen):
        everything = np.arange(len(seen) + 1)
        return everything[:-1], everything, everything[:-1]
    starts = np.concatenate([[0], np.cumsum(np.bincount(which, minlength=first.size))])
    return np.argsort(which, kind="stable"), starts, first


def patterns_of(seen: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """A row that has each of the different rows of a mask, and which of these each row is."""
    bits = np.packbits(seen, axis=1)
    _, first, which = np.unique(_hashes(bits), return_index=True, return_inverse=True)
    if first.size < len(bits) and not np.array_equal(bits, bits[first[which]]):
        # Two patterns with one hash.
        rows = np.ascontiguousarray(bits).view(np.dtype((np.void, bits.shape[1]))).ravel()
        _, first, which = np.unique(rows, return_index=True, return_inverse=True)
    return first, which.ravel()


def _hashes(bits: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """A number for each row of bytes that differs where rows do, but for an accident."""
    padded = np.pad(bits, ((0, 0), (0, -bits.shape[1] % 8)))
    words = np.ascontiguousarray(padded).view(np.uint64)
    odd = np.random.default_rng(0).integers(2**63, size=words.shape[1], dtype=np.uint64) * 2 + 1
    mixed = (words ^ (words >> np.uint64(29))) * odd.astype(np.uint64)
    return np.asarray((mixed ^ (mixed >> np.uint64(32))).sum(axis=1, dtype=np.uint64))
