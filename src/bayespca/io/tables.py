"""Writing of tables, in the format that the ending of the file names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy_format

from .excel_files import write_sheet
from .packages import need
from .records import Arrow, DType, Floats, Table
from .writing import replacing_path

Parts = Iterator[Table]


def write_table(path: str | os.PathLike[str], parts: Table | Iterable[Table]) -> None:
    """Write a table, or parts of one in row order, whole or not at all.

    An .npy or .mtx file holds only the numbers; others also hold ids and columns set aside.
    """
    path = Path(path)
    write = WRITERS[writable_ending(path)]
    parts = iter([parts] if isinstance(parts, Table) else parts)
    with replacing_path(path) as temporary:
        write(Path(temporary), parts)


def writable_ending(path: Path) -> str:
    """The ending of a path; an error unless its format can be written."""
    plain = path.with_suffix("") if path.suffix.lower() in (".gz", ".bz2", ".zst") else path
    ending = plain.suffix.lower()
    if ending not in WRITERS or (plain != path and WRITERS[ending] is not _write_text):
        raise ValueError(
            f"{path} has the ending {path.suffix!r}, which is not one that can be written: use one "
            f"of {', '.join(WRITERS)}."
        )
    return ending


def is_text(path: Path) -> bool:
    """Whether a table is written to a path as text."""
    return WRITERS[writable_ending(path)] is _write_text


def is_tabbed(path: Path) -> bool:
    """Whether the ending says that tabs separate columns."""
    return bool({".tsv", ".tab"} & {suffix.lower() for suffix in path.suffixes})


# --- tables with names -------------------------------------------------------------------------


def _arrow(table: Table, pa: Arrow) -> Arrow:
    """All columns in the order of the source file, or with ids first if there was none."""
    columns: dict[str, Arrow] = {}
    if table.ids is not None:
        columns[table.id_name] = pa.array(table.ids, pa.string())
    values = _dense(table)
    for j, name in enumerate(table.features):
        column = pa.array(np.ascontiguousarray(values[:, j]), from_pandas=True)
        columns[name] = table.kept.get(name, column)
    for name, other in table.others.items():
        columns[name] = table.kept.get(name, pa.array(other.tolist(), from_pandas=True))
    if table.order is not None:
        columns = {name: columns[name] for name in table.order if name in columns}
    return pa.table(columns)


def _dense(table: Table) -> Floats:
    values = table.values
    return values if isinstance(values, np.ndarray) else values.toarray()


def _write_text(path: Path, parts: Parts) -> None:
    pa, pa_csv = (need(name, f"writing {path}") for name in ("pyarrow", "pyarrow.csv"))
    options = pa_csv.WriteOptions(delimiter="\t" if is_tabbed(path) else ",")

    def open_writer(schema: Arrow, stack: ExitStack) -> Arrow:
        stream = stack.enter_context(pa.output_stream(str(path)))
        return pa_csv.CSVWriter(stream, schema, write_options=options)

    _write_arrow(parts, pa, open_writer)


def _write_parquet(path: Path, parts: Parts) -> None:
    pa, parquet = (need(name, f"writing {path}") for name in ("pyarrow", "pyarrow.parquet"))
    _write_arrow(parts, pa, lambda schema, stack: parquet.ParquetWriter(path, schema))


def _write_feather(path: Path, parts: Parts) -> None:
    pa = need("pyarrow", f"writing {path}")
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    _write_arrow(
        parts, pa, lambda schema, stack: pa.ipc.new_file(str(path), schema, options=options)
    )


def _write_arrow(parts: Parts, pa: Arrow, open_writer: Callable[[Arrow, ExitStack], Arrow]) -> None:
    first = _arrow(next(parts), pa)
    with ExitStack() as stack:
        writer = stack.enter_context(open_writer(first.schema, stack))
        for part in chain([first], (_arrow(part, pa) for part in parts)):
            writer.write_table(part.cast(first.schema))


def _write_excel(path: Path, parts: Parts) -> None:
    """Write one sheet with a row of names."""
    pa = need("pyarrow", f"writing {path}")
    write_sheet(path, (_arrow(part, pa) for part in parts))


# --- arrays ------------------------------------------------------------------------------------


def _write_npy(path: Path, parts: Parts) -> None:
    """Write an .npy file; the header is rewritten at the end, when the number of rows is known."""
    first = next(parts)
    n, p, dtype = 0, first.shape[1], first.values.dtype
    with path.open("wb") as file:
        _npy_header(file, (0, p), dtype)
        for part in chain([first], parts):
            file.write(np.ascontiguousarray(_dense(part), dtype=dtype).tobytes())
            n += part.shape[0]
        file.seek(0)
        _npy_header(file, (n, p), dtype)


def _npy_header(file: BinaryIO, shape: tuple[int, int], dtype: DType) -> None:
    # NumPy pads the header so that the first dimension can grow.
    description = npy_format.dtype_to_descr(dtype)
    header = {"descr": description, "fortran_order": False, "shape": shape}
    npy_format.write_array_header_1_0(file, header)


def _write_npz(path: Path, parts: Parts) -> None:
    tables = list(parts)
    first = tables[0]
    arrays = {"X": np.concatenate([_dense(table) for table in tables])}
    if first.names is not None:
        arrays["feature_names"] = np.array(first.names, dtype=str)
    if first.ids is not None:
        arrays["sample_names"] = np.array(list(chain(*(table.ids or [] for table in tables))))
    for name in first.others:
        arrays[name] = _plain(np.concatenate([table.others[name] for table in tables]))
    np.savez(path, **arrays)  # type: ignore[arg-type]


def _plain(column: np.ndarray) -> np.ndarray:
    """A column of objects as strings, which an .npz file holds without pickle."""
    if column.dtype != object:
        return column
    return np.array(["" if item is None else str(item) for item in column.tolist()])


def _write_matrix_market(path: Path, parts: Parts) -> None:
    """Write columns one after the other, without SciPy, which does not notice a full disk."""
    values = np.concatenate([_dense(table) for table in parts])
    with path.open("w", encoding="ascii") as file:
        file.write(f"%%MatrixMarket matrix array real general\n{len(values)} {values.shape[1]}\n")
        for column in values.T:
            file.writelines(f"{number!r}\n" for number in column.tolist())


WRITERS: dict[str, Callable[[Path, Parts], None]] = {
    ".csv": _write_text,
    ".tsv": _write_text,
    ".tab": _write_text,
    ".txt": _write_text,
    ".parquet": _write_parquet,
    ".pq": _write_parquet,
    ".feather": _write_feather,
    ".arrow": _write_feather,
    ".xlsx": _write_excel,
    ".npy": _write_npy,
    ".npz": _write_npz,
    ".mtx": _write_matrix_market,
}
