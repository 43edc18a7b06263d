"""What a user says of a file, its columns, and the table that it becomes, whole or in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# float32 or float64; any type of entries; and types themselves.
Floats = NDArray[np.floating[Any]]
Entries = NDArray[Any]
DType = np.dtype[Any]
# What comes from pyarrow, which has no types: a table or batch, a column, a schema, a module.
Arrow = Any


@dataclass(frozen=True)
class How:
    """What a user says about a file; None is found out.

    `id_column` is a name, or "" for none. `array` is the name of an array in an .npz file, or of a
    layer in an .h5ad file. With `transpose`, rows are features and columns are samples. With
    `units`, numbers may have thousands separators, and signs of percent and currencies. With
    `texts`, a table need not have any column of numbers.
    """

    delimiter: str | None = None
    decimal: str | None = None
    header: bool | None = None
    id_column: str | None = None
    missing: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    array: str | None = None
    transpose: bool = False
    units: bool = False
    texts: bool = False


@dataclass(frozen=True)
class Layout:
    """Columns by position: features, ids, and those that are set aside, each with the reason.

    `names` is None where the file has none; `described` makes up for that. `notes` are sentences
    about what was guessed and may be wrong.
    """

    n_columns: int
    names: tuple[str, ...] | None
    features: tuple[int, ...]
    id_column: int | None = None
    aside: dict[int, str] = field(default_factory=dict)
    booleans: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()

    def described(self, j: int) -> str:
        """The name of a column for people."""
        return repr(self.names[j]) if self.names is not None else str(j)

    def name(self, j: int) -> str:
        """The name of a column for a table that is written."""
        return self.names[j] if self.names is not None else f"column {j}"

    @property
    def feature_names(self) -> list[str] | None:
        return None if self.names is None else [self.names[j] for j in self.features]

    def without(self, empty: Sequence[int]) -> Layout:
        """The layout with features set aside that turned out to hold no value at all."""
        return replace(
            self,
            features=tuple(j for j in self.features if j not in set(empty)),
            aside=self.aside | dict.fromkeys(empty, "empty"),
            booleans=self.booleans - set(empty),
        )


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
    kept
        Columns that were set aside, and features without holes that are not floats, as the file
        has them, for the same.
    types
        Arrow's types of the columns, by name; numbers of a text file are floats.
    levels
        Levels of columns of categories that have an order, in this order.
    no_value
        Texts that stand for no value in columns of text, in lower case.
    upright
        The table as the file has it, where this one is transposed.
    """

    values: Any
    names: list[str] | None = None
    ids: list[str] | None = None
    id_name: str = "id"
    others: dict[str, Entries] = field(default_factory=dict)
    aside: dict[str, str] = field(default_factory=dict)
    order: list[str] | None = None
    kept: dict[str, Arrow] = field(default_factory=dict)
    types: dict[str, Arrow] = field(default_factory=dict)
    levels: dict[str, list[str]] = field(default_factory=dict)
    no_value: frozenset[str] = frozenset()
    upright: Table | None = None

    @property
    def shape(self) -> tuple[int, int]:
        n, p = self.values.shape
        return int(n), int(p)

    @property
    def features(self) -> list[str]:
        """Names of the p columns; by their places in the file where it has none."""
        if self.names is not None:
            return self.names
        beside = {*self.others, *([self.id_name] if self.ids is not None else [])}
        named = [name for name in self.order or () if name not in beside]
        return named or [f"column {j}" for j in range(self.shape[1])]

    @property
    def is_of_text(self) -> bool:
        """Whether it was read from text, which has no types."""
        return bool(self.no_value)

    @property
    def n_holes(self) -> int:
        """How many cells have no value."""
        if not isinstance(self.values, np.ndarray):
            return 0
        return int(np.isnan(self.values).sum())

    def with_values(self, values: Floats) -> Table:
        """The table with other numbers, as the file has it."""
        if self.upright is not None:
            return self.upright.with_values(values.T)
        return replace(self, values=values, kept={})


@dataclass(frozen=True, eq=False)
class RowBlock:
    """A block of rows with the ids that go with them."""

    values: Floats
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
        `blocks(block_bytes)` yields `RowBlock`, one block at a time; None where the format cannot.
    """

    path: Path
    layout: Layout
    dtype: DType
    n_samples: int | None
    memory: int
    read: Callable[[], Table]
    blocks: Callable[[int], Iterator[RowBlock]] | None = None


def rows_per_block(n_features: int, dtype: DType, block_bytes: int) -> int:
    return max(1, block_bytes // max(1, n_features * dtype.itemsize))


def float_type(dtype: DType) -> DType:
    """float32 stays what it is, shorter floats become it, and all else becomes float64."""
    is_short = dtype.kind == "f" and dtype.itemsize <= 4
    return np.dtype(np.float32 if is_short else np.float64)


def first_line(error: BaseException) -> str:
    """The first line of an error's text."""
    return str(error).partition("\n")[0]
