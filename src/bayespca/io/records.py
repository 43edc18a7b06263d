"""Records of files: options for reading, the layout of columns, tables, and endings of names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# float32 or float64; any type of entries; and types themselves.
Floats = NDArray[np.floating[Any]]
Entries = NDArray[Any]
DType = np.dtype[Any]
# Objects of pyarrow, which has no types: a table or batch, a column, a schema, a module.
Arrow = Any
# Endings of names.
TEXT = (".csv", ".tsv", ".tab", ".txt")
PARQUET = (".parquet", ".pq")
FEATHER = (".feather", ".arrow")
EXCEL = (".xlsx", ".xlsm")
READABLE = (*TEXT, *PARQUET, *FEATHER, ".npy", ".npz", ".mtx", ".h5ad", *EXCEL)
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")


@dataclass(frozen=True)
class How:
    """Options for reading a file; None is guessed.

    `id_column` is a name, or "" for none. `array` is the name of an array in an .npz file, of a
    layer in an .h5ad file, or of an Excel sheet. With `transpose`, rows are features and columns
    are samples. With `units`, numbers may have thousands separators, and percent and currency
    signs. With `texts`, a table needs no column of numbers.
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
    """Columns by position: features, ids, and columns set aside, each with the reason.

    `names` is None if the file has none; `described` then uses positions. `notes` are sentences
    about guesses that may be wrong.
    """

    n_columns: int
    names: tuple[str, ...] | None
    features: tuple[int, ...]
    id_column: int | None = None
    aside: dict[int, str] = field(default_factory=dict)
    booleans: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()

    def described(self, j: int) -> str:
        """The name of a column for messages."""
        return repr(self.names[j]) if self.names is not None else str(j)

    def name(self, j: int) -> str:
        """The name of a column for output tables."""
        return self.names[j] if self.names is not None else f"column {j}"

    @property
    def feature_names(self) -> list[str] | None:
        return None if self.names is None else [self.names[j] for j in self.features]

    def without(self, empty: Sequence[int]) -> Layout:
        """The layout with empty features set aside."""
        return replace(
            self,
            features=tuple(j for j in self.features if j not in set(empty)),
            aside=self.aside | dict.fromkeys(empty, "empty"),
            booleans=self.booleans - set(empty),
        )


@dataclass(frozen=True, eq=False)
class Table:
    """A table: numbers, their names, and the columns that are not numbers.

    Attributes
    ----------
    values
        n×p: a dense array of floats with NaN for holes, or a sparse matrix without holes.
    names
        Names of the p columns, or None.
    ids
        Names of the n rows, or None; `id_name` is the name of their column.
    others
        Columns that were set aside, unchanged, by name.
    aside
        The reason why each of them was set aside, by name.
    order
        All column names in the order of the file, for tables that are written back.
    kept
        Arrow columns to write back unchanged: those set aside, and features without holes that are
        not floats.
    types
        Arrow types of the columns, by name; numbers of a text file are floats.
    levels
        Levels of the ordered categorical columns, in order.
    no_value
        Texts that stand for no value in columns of text, in lower case.
    upright
        The table as it is in the file, if this one is transposed; else None.
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
        """Names of the p columns; if the file has none, by their positions."""
        if self.names is not None:
            return self.names
        beside = {*self.others, *([self.id_name] if self.ids is not None else [])}
        named = [name for name in self.order or () if name not in beside]
        return named or [f"column {j}" for j in range(self.shape[1])]

    def column(self, j: int) -> Entries:
        """The values of one feature."""
        found = self.values[:, [j]]
        return np.asarray(found.toarray() if hasattr(found, "toarray") else found)[:, 0]

    def without(self, names: Sequence[str], why: str) -> Table:
        """The table with some of its features set aside, and the reason; others are left alone."""
        places = {name: self.features.index(name) for name in names if name in self.features}
        rest = np.setdiff1d(np.arange(self.shape[1]), list(places.values()))
        columns = {name: self.column(j) for name, j in places.items()}
        return replace(
            self,
            values=self.values[:, rest],
            names=None if self.names is None else [self.names[j] for j in rest],
            others=self.others | columns,
            aside=self.aside | dict.fromkeys([*places, *(set(names) & set(self.others))], why),
        )

    @property
    def is_of_text(self) -> bool:
        """Whether the table comes from a text file, which has no types."""
        return bool(self.no_value)

    @property
    def n_holes(self) -> int:
        """Number of cells without a value."""
        if not isinstance(self.values, np.ndarray):
            return 0
        return int(np.isnan(self.values).sum())

    def with_values(self, values: Floats) -> Table:
        """The table with other numbers, in the orientation of the file."""
        if self.upright is not None:
            return self.upright.with_values(values.T)
        return replace(self, values=values, kept={})


@dataclass(frozen=True, eq=False)
class RowBlock:
    """A block of rows with their ids."""

    values: Floats
    ids: list[str] | None = None


@dataclass(frozen=True, eq=False)
class File:
    """A file whose layout is known.

    `n_samples` is None if the number of rows is not known before reading, `memory` the approximate
    size of the table in bytes. `read()` returns the whole table, `blocks(block_bytes)` yields a
    `RowBlock` at a time; it is None if the format cannot.
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
    """The type for computations: float32 for float32 and shorter floats, else float64."""
    is_short = dtype.kind == "f" and dtype.itemsize <= 4
    return np.dtype(np.float32 if is_short else np.float64)


def first_line(error: BaseException) -> str:
    """The first line of an error's text."""
    return str(error).partition("\n")[0]


@contextmanager
def readable(path: Path | str, kind: str, *errors: type[BaseException]) -> Iterator[None]:
    """Turn errors of these types into a sentence: the file cannot be read, or not as `kind`."""
    try:
        yield
    except errors as error:
        what = f" as {kind}" if kind else ""
        raise ValueError(f"{path} cannot be read{what}: {first_line(error)}") from error


# --- endings -----------------------------------------------------------------------------------


def known_ending(
    path: Path,
    known: Sequence[str] = READABLE,
    text: Sequence[str] = TEXT,
    compressed: Sequence[str] = COMPRESSED,
    so: str = "known",
) -> str:
    """The ending that names the format, without that of a compression, which only text may have."""
    plain = path.with_suffix("") if path.suffix.lower() in compressed else path
    ending = plain.suffix.lower()
    if ending not in known or (plain != path and ending not in text):
        raise ValueError(
            f"{path} has the ending {path.suffix!r}, which is not {so}: use one of "
            f"{', '.join(known)}."
        )
    return ending


def ending_of(path: Path, text: tuple[str, ...], others: tuple[str, ...], what: str) -> str:
    """The ending of an existing, non-empty file; an error if it is not known for `what`."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a file in it.")
    ending = known_ending(path, text + others, text, so=f"known for {what}")
    if not path.stat().st_size:
        raise ValueError(f"{path} is empty (0 bytes).")
    return ending
