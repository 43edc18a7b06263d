"""`Data`: a matrix that was read, and its properties, found out once and handed on.

`BinaryCells` is a table of zeros and ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.namespaces import is_sparse
from bayespca.arrays.types import AnyDType, Array, FloatArray, Names

from .records import Partitions, Source

BoolArray = NDArray[np.bool_]


class Where(StrEnum):
    """The place of the numbers, which decides who can compute with them."""

    DENSE = "dense"
    """An array in memory, or on a device."""
    SPARSE = "sparse"
    """A scipy matrix in memory."""
    BLOCKS = "blocks"
    """A `Source`: rows are read a block at a time."""
    PARTITIONS = "dask"
    """`Partitions` of a Dask collection, for its workers."""

    @property
    def in_memory(self) -> bool:
        return self in (Where.DENSE, Where.SPARSE)


def where_of(values: Any) -> Where:
    """The place of the numbers that an engine was given."""
    if isinstance(values, Source):
        return Where.BLOCKS
    if isinstance(values, Partitions):
        return Where.PARTITIONS
    return Where.SPARSE if is_sparse(values) else Where.DENSE


@dataclass(frozen=True, eq=False)
class Features:
    """Number of columns, and their names where they have any."""

    count: int
    names: Names | None = None

    @property
    def rise(self) -> bool:
        """Whether the names are numbers that rise, such as wavelengths, and more than a count."""
        try:
            numbers = np.array([] if self.names is None else self.names, dtype=np.float64)
        except (TypeError, ValueError):
            return False
        steps = np.diff(numbers)
        counted = numbers.size > 0 and numbers[0] in (0, 1) and bool((steps == 1).all())
        return steps.size > 0 and bool((steps > 0).all()) and not counted


@dataclass(frozen=True, eq=False)
class Data:
    """A matrix whose rows are samples, read and checked.

    Attributes
    ----------
    values
        As an engine takes them: an array of float32 or float64, a sparse matrix, a `Source`, or
        `Partitions`. Without infinities, if in memory; without NaN, if sparse.
    where
        Which of these they are.
    features
        Number and names of the columns.
    holes
        Number of NaN; None where it is not known before all is read.
    """

    values: Array
    where: Where
    features: Features
    holes: int | None

    @property
    def dtype(self) -> AnyDType:
        return self.values.dtype

    @property
    def shape(self) -> tuple[int | None, int]:
        """Numbers of rows and columns; None for rows that are not in memory."""
        rows = int(self.values.shape[0]) if self.where.in_memory else None
        return rows, self.features.count

    @property
    def is_empty(self) -> bool:
        """Whether all cells are known to be holes."""
        rows, columns = self.shape
        return rows is not None and self.holes == rows * columns


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
