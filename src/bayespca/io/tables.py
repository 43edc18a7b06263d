"""Writing of tables, in the format that the ending of the file names."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy_format

from .dialect import TextSample, writing_text
from .excel_files import write_sheet
from .packages import need
from .records import FEATHER, PARQUET, TEXT, Arrow, DType, Floats, How, Table, known_ending
from .text_files import data_rows, recognised
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
    writable = "one that can be written"
    return known_ending(path, tuple(WRITERS), TEXT, (".gz", ".bz2", ".zst"), writable)


def is_text(path: Path) -> bool:
    """Whether a table is written to a path as text."""
    return writable_ending(path) in TEXT


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
    **dict.fromkeys(TEXT, _write_text),
    **dict.fromkeys(PARQUET, _write_parquet),
    **dict.fromkeys(FEATHER, _write_feather),
    ".xlsx": _write_excel,
    ".npy": _write_npy,
    ".npz": _write_npz,
    ".mtx": _write_matrix_market,
}


# --- tables whose holes were filled ------------------------------------------------------------
#
# Every other cell stays exactly as it was: conversion to float64 would change numbers with more
# digits, whole numbers beyond 2⁵³, and truth values.


def write_filled(out: Path, table: Table, values: Floats, source: Path, how: How) -> None:
    """Write `values`, which differ from the table read from `source` only in its holes.

    From text to text, only the fields of holes change; otherwise columns without holes stay
    unchanged.
    """
    if table.upright is not None:
        table, values = table.upright, values.T
    if known_ending(source) not in TEXT or not is_text(out):
        write_table(out, replace(table, values=values))
        return
    sample, layout = recognised(source, how)
    places = [j for j in layout.features if layout.name(j) not in table.aside]
    columns = {j: column.tolist() for j, column in zip(places, values.T, strict=True)}
    _write_filled_text(out, source, sample, columns)


def write_completed(
    out: Path, table: Table, columns: Mapping[str, Sequence[Any]], source: Path, how: How
) -> None:
    """Like `write_filled`, for columns of any type, given by name; other columns had no holes."""
    if known_ending(source) not in TEXT or not is_text(out):
        pa = need("pyarrow", f"writing {out}")
        values = np.array(table.values)
        for j, name in enumerate(table.features):
            if name in columns:
                values[:, j] = columns[name]
        others = {
            name: np.array(columns.get(name, other.tolist()), dtype=object)
            for name, other in table.others.items()
        }
        kept = {name: _typed(table, name, some, pa) for name, some in columns.items()}
        write_table(out, replace(table, values=values, others=others, kept=table.kept | kept))
        return
    sample, layout = recognised(source, how)
    every = ((j, layout.name(j)) for j in range(layout.n_columns))
    _write_filled_text(
        out, source, sample, {j: columns[name] for j, name in every if name in columns}
    )


def _write_filled_text(
    out: Path, source: Path, sample: TextSample, columns: Mapping[int, Sequence[Any]]
) -> None:
    """Write the rows of a text table with missing fields filled from `columns`, by position."""
    with replacing_path(out) as temporary, writing_text(temporary) as text:
        # A tab if the ending says so, else the delimiter of the file that was read, or a comma.
        dialect = sample.dialect
        delimiter = dialect.delimiter if dialect.delimiter in ",;|" else ","
        delimiter = "\t" if is_tabbed(out) else delimiter
        writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
        if sample.names is not None:
            writer.writerow(sample.names[1:] if dialect.has_short_header else sample.names)
        forms = {j: _Forms.of(sample, j) for j in columns}
        for i, (_, fields) in enumerate(data_rows(source, dialect, most=None)):
            for j, values in columns.items():
                if isinstance(values[i], str):
                    # Among texts, "none" may be a value.
                    is_hole = fields[j].strip().lower() in dialect.no_level
                else:
                    is_hole = dialect.is_missing(fields[j])
                if is_hole:
                    fields[j] = forms[j].written(values[i])
            writer.writerow(fields)


# --- types -------------------------------------------------------------------------------------


def _typed(table: Table, name: str, values: Sequence[Any], pa: Arrow) -> Arrow:
    """A column in the type of the file; for text files, which have no types, in its own."""
    kind = table.types.get(name)
    if kind is None or table.is_of_text:
        return pa.array(values)
    if not pa.types.is_dictionary(kind):
        return pa.array(values, kind)
    if name not in table.levels:
        return pa.array(values).dictionary_encode().cast(kind)
    levels = table.levels[name]
    codes = pa.array([levels.index(value) for value in values], kind.index_type)
    return pa.DictionaryArray.from_arrays(codes, pa.array(levels), ordered=True)


@dataclass(frozen=True)
class _Forms:
    """Notation of a column of a text table: the decimal sign, whether numbers have decimals, and
    the words for true and false.
    """

    decimal: str
    has_decimals: bool
    words: Mapping[str, str]

    @classmethod
    def of(cls, sample: TextSample, j: int) -> _Forms:
        fields, decimal = [field.strip() for field in sample.column(j)], sample.dialect.decimal
        words = {field.lower(): field for field in fields}
        return cls(decimal, any(decimal in field for field in fields), words)

    def written(self, value: Any) -> str:
        if isinstance(value, bool):
            word = "true" if value else "false"
            # A column without this word has others, whose case it gets.
            other = next(iter(self.words.values()), "")
            change = str.upper if other.isupper() else str.title if other.istitle() else str
            return self.words.get(word, change(word))
        if isinstance(value, int) and self.has_decimals:
            value = float(value)
        return value if isinstance(value, str) else repr(value).replace(".", self.decimal)
