"""Data that are read block by block: arrays, memory maps, files, tables, iterables of blocks.

`open_source` finds out what it was given and looks at the first rows only. Everything that can be
wrong with the data is said here, once, in terms of the file, row and column where it was found.
"""

from __future__ import annotations

import csv
import io
import mmap
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import array_utils
from numpy.lib import format as npy_format
from numpy.typing import NDArray

Block = NDArray[np.floating[Any]]
Blocks = Iterator[Block]
Slice = Callable[[int, int], Any]

BLOCK_BYTES = 32 * 2**20
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
MISSING = {"", "na", "n/a", "#n/a", "nan", "-nan", "null"}


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
        next one is asked for.
    n_samples
        Number of rows where it is known before reading, else None.
    """

    n_features: int
    dtype: np.dtype[Any]
    names: list[str] | None
    rereadable: bool
    blocks: Callable[[], Blocks]
    n_samples: int | None = None


def open_source(X: Any, *, block_bytes: int = BLOCK_BYTES) -> Source:
    """Open anything that can be read in blocks of rows.

    Parameters
    ----------
    X
        A two-dimensional array or memory map (or what slices like one: HDF5, zarr, torch); a
        pandas, polars or Arrow table; the path of a ``.npy``, Parquet, CSV or TSV file, a list of
        such paths, or a directory of Parquet files; or an iterable of two-dimensional blocks. An
        iterator (a generator, say) can be read only once.
    block_bytes
        The size of a block, in memory. Iterables come in the blocks that they are made of.
    """
    source = _opened(X, block_bytes)
    if source.n_features < 1:
        raise ValueError(f"{_described(X)} has no columns.")
    return replace(source, blocks=lambda: _not_empty(source.blocks(), _described(X)))


def _opened(X: Any, block_bytes: int) -> Source:
    if isinstance(X, str | Path):
        return _open_path(Path(X), block_bytes)
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise TypeError("a sparse matrix cannot be streamed: blocks of dense rows are needed.")
    if _is_table(X):
        return _open_table(X, block_bytes)
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


def _described(X: Any) -> str:
    return str(X) if isinstance(X, str | Path) else f"the {type(X).__name__}"


# --- checks ------------------------------------------------------------------------------------


def _not_empty(blocks: Blocks, where: str) -> Blocks:
    n_rows = 0
    for block in blocks:
        n_rows += len(block)
        yield block
    if not n_rows:
        raise ValueError(f"{where} holds no rows.")


def _checked(blocks: Iterable[Block], where: str, names: list[str] | None) -> Blocks:
    """The blocks of one array or file, after a look for what is not a finite number."""
    first_row = 0
    for block in blocks:
        _check_finite(block, where, first_row, names)
        first_row += len(block)
        yield block


def _check_finite(block: Block, where: str, first_row: int, names: list[str] | None) -> None:
    """A sum is finite where all numbers are; only if it is not, look for the culprit."""
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        flat = block.reshape(-1, order="A") if block.flags.forc else None
        # Of all ways to sum up, BLAS's inner product is the fastest.
        total = block.sum() if flat is None else flat @ flat
    if np.isfinite(total):
        return
    wrong = np.argwhere(~np.isfinite(block))
    if wrong.size:
        row, column = (int(i) for i in wrong[0])
        raise ValueError(
            f"{where} has {float(block[row, column])} in row {first_row + row} (counting from 0), "
            f"column {_column_name(column, names)}: data that are streamed must be complete and "
            "finite, so fill or drop such rows first."
        )


def _column_name(column: int, names: list[str] | None) -> str:
    return repr(names[column]) if names else str(column)


def _check_width(block: Block, index: int, n_features: int) -> None:
    if block.shape[1] != n_features:
        raise ValueError(
            f"block {index} has {block.shape[1]} columns, but block 0 has {n_features}: all blocks "
            "must have the same columns."
        )


# --- blocks of any kind to NumPy ---------------------------------------------------------------


def _as_block(block: Any, where: str) -> Block:
    """A block as a two-dimensional array of float32 or float64, without a copy if it is one."""
    if hasattr(block, "toarray") and hasattr(block, "nnz"):
        raise ValueError(f"{where} is sparse: blocks of dense rows are needed.")
    values = np.asarray(block)
    if values.ndim != 2:
        raise ValueError(
            f"{where} has {values.ndim} dimension{'s' * (values.ndim != 1)}, but must have two: "
            "rows are samples, columns are features."
        )
    if values.dtype.kind not in "fbiu":
        return _from_objects(values, where, _names_of(block))
    return values.astype(_float_type(values.dtype), copy=False)


def _float_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """float32 stays what it is, shorter floats become it, and all else becomes float64."""
    is_short = dtype.kind == "f" and dtype.itemsize <= 4
    return np.dtype(np.float32 if is_short else np.float64)


def _from_objects(values: NDArray[Any], where: str, names: list[str] | None) -> Block:
    """A table of mixed columns becomes float64, or the first column that cannot is named."""
    result = np.empty(values.shape)
    for j, column in enumerate(values.T):
        if column.dtype.kind != "O" or not all(_is_real(item) for item in column):
            raise ValueError(
                f"{where}, column {_column_name(j, names)}: {_sample(column)} is not a number. "
                "Remove the column or turn it into numbers first."
            )
        result[:, j] = [float(item) for item in column]
    return result


def _sample(column: NDArray[Any]) -> str:
    """The first entry that is not a number, for an error message."""
    if column.dtype.kind not in "OUS":
        return f"an entry of type {column.dtype}"
    return next(repr(item) for item in column.tolist() if not _is_real(item))


def _is_real(item: Any) -> bool:
    try:
        return not isinstance(item, str | bytes) and isinstance(float(item), float)
    except (TypeError, ValueError):
        return False


def _is_table(X: Any) -> bool:
    return hasattr(X, "iloc") or hasattr(X, "column_names") or hasattr(X, "columns")


def _names_of(table: Any) -> list[str] | None:
    names = getattr(table, "column_names", None)  # Arrow
    if names is None:
        names = getattr(table, "columns", None)  # pandas, polars
    return None if names is None or callable(names) else [str(name) for name in names]


# --- arrays and tables in memory ---------------------------------------------------------------


def _open_array(X: Any, where: str, block_bytes: int) -> Source:
    if len(X.shape) != 2:
        raise ValueError(
            f"{where} has shape {tuple(X.shape)}, but must have two dimensions: rows are samples, "
            "columns are features."
        )
    if isinstance(X, np.ndarray):
        X = X.view(np.ndarray)
    return _sliced(lambda i, j: X[i:j], X.shape, where, block_bytes)


def _open_table(X: Any, block_bytes: int) -> Source:
    names = _names_of(X)
    if hasattr(X, "iloc"):
        if names is None:
            raise ValueError("a single column was given: a table of one or more columns is needed.")
        return _sliced(lambda i, j: X.iloc[i:j], X.shape, "the table", block_bytes, names)
    return _sliced(lambda i, j: X.slice(i, j - i), X.shape, "the table", block_bytes, names)


def _sliced(
    rows: Slice,
    shape: tuple[int, int],
    where: str,
    block_bytes: int,
    names: list[str] | None = None,
) -> Source:
    """A source from a function that gives the rows i to j."""
    n, p = shape
    if not n:
        raise ValueError(f"{where} holds no rows.")
    dtype = _as_block(rows(0, 1), where).dtype
    step = _rows_per_block(p, dtype, block_bytes)

    def read() -> Blocks:
        for i in range(0, n, step):
            part = rows(i, min(i + step, n))
            yield _as_block(part, where)
            _release(part)

    return Source(p, dtype, names, True, lambda: _checked(read(), where, names), n)


def _rows_per_block(n_features: int, dtype: np.dtype[Any], block_bytes: int) -> int:
    return max(1, block_bytes // max(1, n_features * dtype.itemsize))


def _release(part: Any) -> None:
    """Give back the pages that a part of a memory map took: they would count as our memory.

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
    if path.is_dir():
        return _open_directory(path, block_bytes)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    plain = path.with_suffix("") if path.suffix.lower() in COMPRESSED else path
    ending = plain.suffix.lower()
    if ending not in OPENERS or (plain != path and OPENERS[ending] is not _open_csv):
        raise ValueError(
            f"{path} has the ending {path.suffix!r}, which is not known: use one of "
            f"{', '.join(OPENERS)}."
        )
    if not path.stat().st_size:
        raise ValueError(f"{path} is empty (0 bytes).")
    return OPENERS[ending](path, block_bytes)


def _open_directory(path: Path, block_bytes: int) -> Source:
    files = sorted(
        file
        for file in path.iterdir()
        if OPENERS.get(file.suffix.lower()) is _open_parquet
        and not file.name.startswith((".", "_"))
    )
    if not files:
        raise ValueError(f"{path} is a directory without Parquet files (.parquet, .pq).")
    return _joined([_open_path(file, block_bytes) for file in files], [str(file) for file in files])


def _joined(parts: list[Source], labels: list[str]) -> Source:
    """Several files with the same columns, one below the other."""
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
    )


def _difference(names: list[str] | None, others: list[str] | None, other: str) -> str:
    """What is different between two sets of column names."""
    if names is None:
        return f"no column names, but {other} has some"
    if others is None:
        return f"column names, but {other} has none"
    a, b = next(pair for pair in zip(names, others, strict=True) if pair[0] != pair[1])
    return f"a column {a!r} where {other} has {b!r}"


def _import(name: str, path: Path) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            f'reading {path} needs pyarrow: install it with pip install "bayespca[io]".'
        ) from error


# --- .npy --------------------------------------------------------------------------------------


def _open_npy(path: Path, block_bytes: int) -> Source:
    """A memory map: in the order of the file it is read as fast as by plain reads, or faster."""
    shape, is_fortran, dtype, offset = _npy_header(path)
    if len(shape) != 2:
        raise ValueError(f"{path} holds an array of shape {shape}, but two dimensions are needed.")
    if dtype.kind not in "fbiu":
        raise ValueError(f"{path} holds entries of type {dtype}, but real numbers are needed.")
    expected, found = offset + shape[0] * shape[1] * dtype.itemsize, path.stat().st_size
    if found < expected:
        raise ValueError(
            f"{path} ends early: an array of shape {shape} and type {dtype} takes {expected} "
            f"bytes, and the file has {found}. Copy or write it again."
        )
    if not shape[0] * shape[1]:
        raise ValueError(f"{path} holds an array of shape {shape}: there is nothing to read.")
    array = np.memmap(path, dtype, "r", offset, shape, "F" if is_fortran else "C")
    return _open_array(array, str(path), block_bytes)


def _npy_header(path: Path) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, whether columns are contiguous, type and position of the first number."""
    with path.open("rb") as file:
        try:
            version = npy_format.read_magic(file)
            if version == (1, 0):
                header = npy_format.read_array_header_1_0(file)
            else:
                header = npy_format.read_array_header_2_0(file)
        except ValueError as error:
            raise ValueError(f"{path} is not a .npy file: {error}.") from error
        return *header, file.tell()


# --- Parquet -----------------------------------------------------------------------------------


def _open_parquet(path: Path, block_bytes: int) -> Source:
    pa, parquet = _import("pyarrow", path), _import("pyarrow.parquet", path)
    try:
        with parquet.ParquetFile(path) as file:
            schema, n_rows = file.schema_arrow, file.metadata.num_rows
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} cannot be read as Parquet: {_first_line(error)}") from error
    names = [name for name in schema.names if name not in _index_columns(schema)]
    for name in names:
        _check_arrow_type(pa.types, schema.field(name).type, name, path)
    is_short = all(_is_short_float(pa.types, schema.field(name).type) for name in names)
    dtype = np.dtype(np.float32 if is_short and names else np.float64)
    step = _rows_per_block(len(names), dtype, block_bytes)

    def read() -> Blocks:
        try:
            with parquet.ParquetFile(path) as file:
                for batch in file.iter_batches(batch_size=step, columns=names):
                    yield _from_batch(batch, names, dtype, pa)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{path} cannot be read as Parquet: {_first_line(error)}") from error

    def blocks() -> Blocks:
        return _checked(read(), str(path), names)

    return Source(len(names), dtype, names, True, blocks, n_rows)


def _index_columns(schema: Any) -> list[str]:
    """The columns in which pandas stores a table's row labels."""
    stored = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in stored if isinstance(name, str)]


def _check_arrow_type(types: Any, kind: Any, name: str, path: Path) -> None:
    tests = (types.is_floating, types.is_integer, types.is_boolean, types.is_decimal)
    if not any(test(kind) for test in tests):
        raise ValueError(
            f"{path}, column {name!r}: entries of type {kind} are not numbers. Remove the column "
            "or turn it into numbers first."
        )


def _is_short_float(types: Any, kind: Any) -> bool:
    return types.is_float32(kind) or types.is_float16(kind)


def _from_batch(batch: Any, names: list[str], dtype: np.dtype[Any], pa: Any) -> Block:
    block = np.empty((batch.num_rows, len(names)), dtype, order="F")
    for j, name in enumerate(names):
        column = batch.column(name)
        if not pa.types.is_floating(column.type):
            column = column.cast(pa.float64(), safe=False)
        block[:, j] = column.to_numpy(zero_copy_only=False)
    return block


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


# --- CSV and TSV -------------------------------------------------------------------------------


def _open_csv(path: Path, block_bytes: int) -> Source:
    pa, pa_csv = _import("pyarrow", path), _import("pyarrow.csv", path)
    line = _first_text_line(path, pa)
    delimiter = _delimiter(path, line)
    fields = next(csv.reader(io.StringIO(line), delimiter=delimiter), [])
    names = None if all(_is_number(field) for field in fields) else [f.strip() for f in fields]
    # Our own names for pyarrow: those of the file need not be different from each other.
    keys = [str(j) for j in range(len(fields))]
    options = {
        "read_options": pa_csv.ReadOptions(
            # A line must fit into a block.
            block_size=max(block_bytes, 64 * len(line)),
            column_names=keys,
            skip_rows=0 if names is None else 1,
        ),
        "parse_options": pa_csv.ParseOptions(delimiter=delimiter),
        "convert_options": pa_csv.ConvertOptions(column_types=dict.fromkeys(keys, pa.float64())),
    }
    dtype = np.dtype(np.float64)

    def read() -> Blocks:
        try:
            with pa_csv.open_csv(path, **options) as batches:
                for batch in batches:
                    yield _from_batch(batch, keys, dtype, pa)
        except (pa.ArrowException, OSError) as error:
            if "Empty CSV" not in str(error):
                raise ValueError(_csv_complaint(error, path, names)) from error

    return Source(len(keys), dtype, names, True, lambda: _checked(read(), str(path), names))


def _first_text_line(path: Path, pa: Any) -> str:
    """The first line, decompressed where the ending says so."""
    head = b""
    try:
        with pa.input_stream(str(path)) as stream:
            while b"\n" not in head and (more := stream.read(2**16)):
                head += more
        return head.partition(b"\n")[0].decode("utf-8-sig").rstrip("\r")
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read as text: {_first_line(error)}") from error


def _delimiter(path: Path, line: str) -> str:
    """A tab where the ending says so, else the most frequent of the usual ones.

    Spaces separate columns in .txt files alone: elsewhere they are parts of names.
    """
    endings = {suffix.lower() for suffix in path.suffixes}
    if {".tsv", ".tab"} & endings:
        return "\t"
    bare = re.sub(r'"[^"]*"', "", line)
    best = max(",;\t|", key=bare.count)
    return " " if ".txt" in endings and best not in bare else best


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return field.strip().lower() in MISSING
    return True


def _csv_complaint(error: Exception, path: Path, names: list[str] | None) -> str:
    text = _first_line(error)
    column = re.search(r"column #(\d+)", text)
    value = re.search(r"invalid value '(.*)'", text)
    if column and value:
        return (
            f"{path}, column {_column_name(int(column[1]), names)}: {value[1]!r} is not a number. "
            "Remove the column or turn it into numbers first."
        )
    return f"{path} cannot be read: {text}"


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
            raise ValueError(
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
        _check_width(block, index, n_features)
        _check_finite(block, f"block {index}", 0, names)
        yield block


OPENERS: dict[str, Callable[[Path, int], Source]] = {
    ".npy": _open_npy,
    ".parquet": _open_parquet,
    ".pq": _open_parquet,
    ".csv": _open_csv,
    ".tsv": _open_csv,
    ".tab": _open_csv,
    ".txt": _open_csv,
}
