"""A table in memory, and a file that can become one, at once or a block of rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .layout import Layout

FloatArray = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Table:
    """A table: numbers, and what stands beside them.

    Attributes
    ----------
    values
        n×p: a dense array of floats with NaN for holes, or a sparse matrix without holes.
    names
        Names of the p columns, or None.
    ids
        Names of the n rows, or None; `id_name` is what their column is called.
    others
        Columns that were set aside, as they are, by name.
    aside
        Why each of them was set aside, by name.
    order
        All column names in the order of the file, for tables that are written back.
    """

    values: Any
    names: list[str] | None = None
    ids: list[str] | None = None
    id_name: str = "id"
    others: dict[str, NDArray[Any]] = field(default_factory=dict)
    aside: dict[str, str] = field(default_factory=dict)
    order: list[str] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        n, p = self.values.shape
        return int(n), int(p)

    @property
    def n_holes(self) -> int:
        """How many cells have no value."""
        if not isinstance(self.values, np.ndarray):
            return 0
        return int(np.isnan(self.values).sum())


@dataclass(frozen=True, eq=False)
class Rows:
    """A block of rows with the ids that go with them."""

    values: FloatArray
    ids: list[str] | None = None


@dataclass(frozen=True, eq=False)
class File:
    """A file whose layout is known.

    Attributes
    ----------
    n_samples
        Number of rows where it is known before reading, else None.
    memory
        About how many bytes the table will take in memory.
    read
        `read()` is the whole table.
    blocks
        `blocks(block_bytes)` yields `Rows`, one block at a time; None where the format cannot.
    """

    path: Path
    layout: Layout
    dtype: np.dtype[Any]
    n_samples: int | None
    memory: int
    read: Callable[[], Table]
    blocks: Callable[[int], Iterator[Rows]] | None = None


def rows_per_block(n_features: int, dtype: np.dtype[Any], block_bytes: int) -> int:
    return max(1, block_bytes // max(1, n_features * dtype.itemsize))


def float_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """float32 stays what it is, shorter floats become it, and all else becomes float64."""
    is_short = dtype.kind == "f" and dtype.itemsize <= 4
    return np.dtype(np.float32 if is_short else np.float64)


def first_line(error: BaseException) -> str:
    """The first line of an error's text."""
    return str(error).partition("\n")[0]
