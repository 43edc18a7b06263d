"""Data that are read block by block: arrays, memory maps, files, tables, iterables of blocks.

`open_source` finds out what it was given and looks at the first rows only. This module checks once
that all numbers are complete and finite, and names the row and column where they are not.
"""

from __future__ import annotations

import errno
import mmap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import array_utils

from bayespca.arrays.types import Input
from bayespca.io.array_files import mapped
from bayespca.io.files import open_file
from bayespca.io.records import PARQUET, File, Layout, float_type, rows_per_block

from .checks import IncompleteData, UnusableData, first_not_finite, not_finite
from .records import Block, Blocks, Source

Slice = Callable[[int, int], Any]

BLOCK_BYTES = 32 * 2**20


def open_source(X: Input, *, block_bytes: int = BLOCK_BYTES) -> Source:
    """Open anything that can be read in blocks of rows.

    Parameters
    ----------
    X
        A two-dimensional array or memory map (or anything sliced like one: HDF5, zarr, torch); a
        pandas, polars or Arrow table; the path of a ``.npy``, Parquet, CSV or TSV file, a list of
        such paths, or a directory of Parquet files; or an iterable of two-dimensional blocks. An
        iterator (a generator, say) can be read only once.
    block_bytes
        The size of a block in memory. Iterables keep their own blocks.
    """
    source = _opened(X, block_bytes)
    if source.n_features < 1:
        raise ValueError(f"{_described(X)} has no columns.")

    def blocks() -> Blocks:
        n_rows = 0
        for block in source.blocks():
            n_rows += len(block)
            yield block
        if not n_rows:
            raise UnusableData(f"{_described(X)} holds no rows.")

    return replace(source, blocks=blocks)


def _opened(X: Input, block_bytes: int) -> Source:
    if isinstance(X, str | Path):
        return _open_path(Path(X), block_bytes)
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise TypeError("a sparse matrix cannot be streamed: blocks of dense rows are needed.")
    if hasattr(X, "iloc") or hasattr(X, "column_names") or hasattr(X, "columns"):
        names, has_rows = _names_of(X), hasattr(X, "iloc")
        if has_rows and names is None:
            raise ValueError(
                'got a single column; pass a table with one or more columns, such as df[["a"]].'
            )
        rows = (lambda i, j: X.iloc[i:j]) if has_rows else (lambda i, j: X.slice(i, j - i))
        return _sliced(rows, X.shape, "the table", block_bytes, names)
    if hasattr(X, "shape") and hasattr(X, "__getitem__"):
        return _open_array(X, _described(X), block_bytes)
    if not isinstance(X, Iterable):
        raise TypeError(
            f"cannot read rows from {_described(X)}: give an array, a table, a path or an iterable "
            "of two-dimensional blocks."
        )
    if isinstance(X, list | tuple) and X and all(isinstance(item, str | Path) for item in X):
        return _joined([_open_path(Path(item), block_bytes) for item in X], [str(x) for x in X])
    return _open_iterable(X)


def _described(X: Input) -> str:
    return str(X) if isinstance(X, str | Path) else f"the {type(X).__name__}"


# --- checks ------------------------------------------------------------------------------------


def _checked(blocks: Iterable[Block], where: str, names: list[str] | None) -> Blocks:
    """The blocks of one array or file, checked for numbers that are not finite."""
    first_row = 0
    for block in blocks:
        _check_finite(block, where, first_row, names)
        first_row += len(block)
        yield block


def _check_finite(block: Block, where: str, first_row: int, names: list[str] | None) -> None:
    found = not_finite(block)
    if not found:
        return
    row, column = first_not_finite(block)
    value = float(block[row, column])
    kind = IncompleteData if np.isnan(value) else UnusableData
    raise kind(
        f"{where} has {value} in row {first_row + row} (counting from 0), column "
        f"{_column_name(column, names)}: data that are streamed must be complete and finite, so "
        "fill or drop such rows first.",
        row=first_row + row,
        column=column,
    )


def _column_name(column: int, names: list[str] | None) -> str:
    return repr(names[column]) if names else str(column)


# --- blocks of any kind to NumPy ---------------------------------------------------------------


def _as_block(block: Any, where: str) -> Block:
    """A block as a two-dimensional array of float32 or float64; not copied if it is one already."""
    if hasattr(block, "toarray") and hasattr(block, "nnz"):
        raise UnusableData(f"{where} is sparse: blocks of dense rows are needed.")
    values = np.asarray(block)
    if values.ndim != 2:
        many = " Put single rows together first, as np.stack(list(rows)) does."
        raise UnusableData(
            f"{where} has {values.ndim} dimension{'s' * (values.ndim != 1)}, but must have two: "
            f"rows are samples, columns are features.{many * (values.ndim == 1)}"
        )
    if values.dtype.kind not in "fbiu":
        # A table of mixed columns; the error names the first one that is not numbers.
        result = np.empty(values.shape)
        for j, column in enumerate(values.T):
            if column.dtype.kind != "O" or not all(_is_real(item) for item in column):
                found = f"an entry of type {column.dtype}"
                if column.dtype.kind in "OUS":
                    found = next(repr(item) for item in column.tolist() if not _is_real(item))
                name = _column_name(j, _names_of(block))
                raise UnusableData(
                    f"{where}, column {name}: {found} is not a number. "
                    "Remove the column or turn it into numbers first."
                )
            result[:, j] = [float(item) for item in column]
        return result
    return values.astype(float_type(values.dtype), copy=False)


def _is_real(item: Any) -> bool:
    try:
        return not isinstance(item, str | bytes) and isinstance(float(item), float)
    except (TypeError, ValueError):
        return False


def _names_of(table: Any) -> list[str] | None:
    names = getattr(table, "column_names", None)  # Arrow
    if names is None:
        names = getattr(table, "columns", None)  # pandas, polars
    return None if names is None or callable(names) else [str(name) for name in names]


# --- arrays and tables in memory ---------------------------------------------------------------


def _open_array(X: Input, where: str, block_bytes: int) -> Source:
    if len(X.shape) != 2:
        raise ValueError(
            f"{where} has shape {tuple(X.shape)}, but must have two dimensions: rows are samples, "
            "columns are features."
        )
    if isinstance(X, np.ndarray):
        X = X.view(np.ndarray)
    return _sliced(lambda i, j: X[i:j], X.shape, where, block_bytes)


def _sliced(
    rows: Slice,
    shape: tuple[int, int],
    where: str,
    block_bytes: int,
    names: list[str] | None = None,
) -> Source:
    """A source from a function that returns rows i to j."""
    n, p = shape
    if not n:
        raise ValueError(f"{where} holds no rows.")
    dtype = _as_block(rows(0, 1), where).dtype
    step = rows_per_block(p, dtype, block_bytes)

    def read() -> Blocks:
        for i in range(0, n, step):
            part = rows(i, min(i + step, n))
            yield _as_block(part, where)
            _release(part)

    return Source(p, dtype, names, True, lambda: _checked(read(), where, names), n)


def _release(part: Any) -> None:
    """Release the pages of a part of a memory map, which would count as our memory.

    Only for maps that share the file's pages: a private one would lose what was written to it.
    """
    base = part
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    if not isinstance(base, np.memmap) or base.mode == "c":
        return
    pages = base.base
    while isinstance(pages, np.ndarray):
        pages = pages.base
    if isinstance(pages, mmap.mmap) and hasattr(pages, "madvise"):
        start = np.frombuffer(pages, np.uint8).__array_interface__["data"][0]
        low, high = (bound - start for bound in array_utils.byte_bounds(part))
        low -= low % mmap.PAGESIZE
        pages.madvise(mmap.MADV_DONTNEED, low, high - low)


# --- files -------------------------------------------------------------------------------------


def _open_path(path: Path, block_bytes: int) -> Source:
    if not path.is_dir():
        return from_file(open_file(path), block_bytes=block_bytes)
    files = sorted(
        file
        for file in path.iterdir()
        if file.suffix.lower() in PARQUET and not file.name.startswith((".", "_"))
    )
    if not files:
        raise ValueError(
            f"{path} is a folder without Parquet files (.parquet, .pq): name a file in it."
        )
    return _joined([_open_path(file, block_bytes) for file in files], [str(file) for file in files])


def from_file(file: File, *, block_bytes: int = BLOCK_BYTES) -> Source:
    """The rows of a file, a block at a time."""
    path = file.path
    if path.suffix.lower() == ".npy" and (array := _mapped(path)) is not None:
        return _open_array(array, str(path), block_bytes)
    if file.blocks is None:
        table = file.read()
        if not isinstance(table.values, np.ndarray):
            raise TypeError(
                f"{path} holds a sparse matrix, which cannot be read in blocks of rows."
            )
        return replace(_open_array(table.values, str(path), block_bytes), names=table.names)
    read, names = file.blocks, file.layout.feature_names

    def blocks() -> Blocks:
        return _checked((rows.values for rows in read(block_bytes)), str(path), names)

    return Source(
        len(file.layout.features),
        file.dtype,
        names,
        True,
        blocks,
        file.n_samples,
        notes_on_columns(file.layout),
    )


def _mapped(path: Path) -> np.memmap[Any, Any] | None:
    """A memory map; None where the address space is too small for the file."""
    try:
        return mapped(path)
    except (MemoryError, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.ENOMEM:
            raise
        return None


def notes_on_columns(layout: Layout) -> tuple[str, ...]:
    """Notes on the columns: which one names the rows, which were set aside, and why."""
    found = [note.rstrip(".") for note in layout.notes]
    if layout.id_column is not None:
        found.append(f"column {layout.described(layout.id_column)} names the rows")
    found += [
        f"column {layout.described(j)} was skipped ({why})" for j, why in layout.aside.items()
    ]
    return tuple(found)


def _joined(parts: list[Source], labels: list[str]) -> Source:
    """A source of several files with the same columns, one below the other."""
    first = parts[0]
    for part, label in zip(parts, labels, strict=True):
        if part.n_features != first.n_features:
            raise ValueError(
                f"{label} has {part.n_features} columns, but {labels[0]} has {first.n_features}: "
                "files that are read together must have the same columns."
            )
        if part.names != first.names:
            raise ValueError(
                f"{label} has {_difference(part.names, first.names, labels[0])}: files that are "
                "read together must have the same columns."
            )
    counts = [part.n_samples for part in parts]
    return Source(
        first.n_features,
        np.result_type(*(part.dtype for part in parts)),
        first.names,
        all(part.rereadable for part in parts),
        lambda: chain.from_iterable(part.blocks() for part in parts),
        None if None in counts else sum(count for count in counts if count),
        first.notes,
    )


def _difference(names: list[str] | None, others: list[str] | None, other: str) -> str:
    """Description of the first difference between two lists of column names."""
    if names is None:
        return f"no column names, but {other} has some"
    if others is None:
        return f"column names, but {other} has none"
    a, b = next(pair for pair in zip(names, others, strict=True) if pair[0] != pair[1])
    return f"a column {a!r} where {other} has {b!r}"


# --- iterables of blocks -----------------------------------------------------------------------


def _open_iterable(X: Iterable[Any]) -> Source:
    iterator = iter(X)
    is_rereadable = iterator is not X
    first = next(iterator, None)
    if first is None:
        raise ValueError(f"the {type(X).__name__} holds no blocks.")
    block = _as_block(first, "block 0")
    names, p = _names_of(first), block.shape[1]
    pending: list[Iterator[Any]] = [chain([block], iterator)]
    del first, iterator

    def blocks() -> Blocks:
        if is_rereadable:
            return _checked_blocks(X, p, names)
        if not pending:
            raise UnusableData(
                f"the {type(X).__name__} has been read and cannot be read again: give a list, an "
                "array or a file."
            )
        return _checked_blocks(pending.pop(), p, names)

    if is_rereadable:
        pending.clear()
    return Source(p, block.dtype, names, is_rereadable, blocks)


def _checked_blocks(items: Iterable[Any], n_features: int, names: list[str] | None) -> Blocks:
    for index, item in enumerate(items):
        block = _as_block(item, f"block {index}")
        if block.shape[1] != n_features:
            raise UnusableData(
                f"block {index} has {block.shape[1]} columns, but block 0 has {n_features}: all "
                "blocks must have the same columns."
            )
        _check_finite(block, f"block {index}", 0, names)
        yield block
