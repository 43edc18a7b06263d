"""Rows that are not an array in memory: a source of blocks, and partitions of a Dask collection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeAlias

from bayespca.arrays.types import DType, Floats, Numbers

Block = Floats
Blocks = Iterator[Block]
# A value and an array that Dask will compute. Dask is imported only for those who have one.
Delayed: TypeAlias = Any
DaskArray: TypeAlias = Any


@dataclass(frozen=True, eq=False)
class Source:
    """A matrix that is read in blocks of rows.

    Attributes
    ----------
    n_features
        Number of columns.
    dtype
        float32 or float64: that of the first block, and so of the results.
    names
        Column names, or None where the data have none.
    rereadable
        Whether `blocks()` may be called again.
    blocks
        `blocks()` yields two-dimensional arrays of float32 or float64, complete and finite. They
        may be read-only views of the data, and the memory behind one may be released when the
        next one is read.
    n_samples
        Number of rows where it is known before reading, else None.
    notes
        Notes for the user: columns that are not among the features, and why.
    """

    n_features: int
    dtype: DType
    names: list[str] | None
    rereadable: bool
    blocks: Callable[[], Blocks]
    n_samples: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Partitions:
    """A Dask collection as blocks of whole rows.

    Attributes
    ----------
    chunks
        One `Delayed` per block, which becomes what the collection holds there: an array or a
        table. `tasks.mapped` makes checked NumPy arrays of them.
    n_features
        Columns of every block.
    dtype
        float32 or float64: that of the blocks once they are read, and so of the results.
    stored
        The dtype that the chunks must have, or None for tables, whose columns have their own.
    names
        Column names, or None where the data have none.
    lengths
        Rows of each block, or None where Dask does not know them.
    divisors
        Divisors of the columns of each block, or None.
    columns
        The same data as blocks of whole columns, each column a row, where there are more columns
        than rows, so that this is the better way to read them.
    """

    chunks: tuple[Delayed, ...]
    n_features: int
    dtype: DType
    stored: DType | None = None
    names: tuple[str, ...] | None = None
    lengths: tuple[int, ...] | None = None
    divisors: tuple[Numbers | Delayed, ...] | None = None
    columns: Partitions | None = None

    @property
    def n_samples(self) -> int | None:
        """Number of rows, or None where Dask does not know it."""
        return None if self.lengths is None else sum(self.lengths)

    @property
    def offsets(self) -> tuple[int, ...] | None:
        """The row at which each block begins, or None."""
        return None if self.lengths is None else tuple(accumulate((0, *self.lengths)))[:-1]
