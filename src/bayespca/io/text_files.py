"""CSV, TSV and similar files, read by pyarrow once the dialect and the layout are known."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from . import layout as layouts
from .arrow_files import features_of, table_of
from .dialect import Dialect, TextSample, open_text, recognise
from .packages import need
from .records import Arrow, File, How, Layout, RowBlock, Table, first_line

# Number of rows to search for the place of a mistake.
SEARCHED_ROWS = 3_000_000
# Largest block of a file that is read in blocks.
READ_AHEAD = 4 * 2**20
# With more columns, pyarrow gets only those texts for missing values that occur in the file.
WIDE = 2000


def open_text_file(path: Path, how: How) -> File:
    """Open a text table: guess its dialect and layout from its first rows."""
    sample, layout = recognised(path, how)
    pa, pa_csv = (need(name, f"reading {path}") for name in ("pyarrow", "pyarrow.csv"))
    flaws = (pa.ArrowException, OSError, UnicodeError)

    def read() -> Table:
        size = block_size_of(sample, READ_AHEAD)
        columns = range(layout.n_columns)
        options = reading_options(pa, pa_csv, sample, layout, columns, block_size=size)
        try:
            table = pa_csv.read_csv(path, **options)
        except flaws as error:
            if "Empty CSV" in str(error):
                raise ValueError(f"{path} holds no rows.") from None
            raise ValueError(complaint(error, path, sample, layout)) from error
        if not table.num_rows:
            raise ValueError(f"{path} holds no rows.")
        table = with_numbers(table, path, sample, layout)
        found = table_of(table, layout, np.dtype(np.float64), str(path), texts=how.texts)
        return replace(found, no_value=sample.dialect.no_level)

    def blocks(block_bytes: int) -> Iterator[RowBlock]:
        columns = [j for j in range(layout.n_columns) if j not in layout.aside]
        size = block_size_of(sample, min(block_bytes, READ_AHEAD))
        options = reading_options(pa, pa_csv, sample, layout, columns, block_size=size)
        keys = [str(j) for j in layout.features]
        try:
            with pa_csv.open_csv(path, **options) as batches:
                for batch in batches:
                    known = with_numbers(batch, path, sample, layout)
                    values, ids = features_of(known, keys, np.dtype(np.float64), pa), None
                    if layout.id_column is not None:
                        ids = known.column(str(layout.id_column)).to_pylist()
                    yield RowBlock(values, ids)
        except flaws as error:
            if "Empty CSV" not in str(error):
                raise ValueError(complaint(error, path, sample, layout)) from error

    # A number takes about as many characters in a file as bytes in memory.
    return File(path, layout, np.dtype(np.float64), None, path.stat().st_size, read, blocks)


def recognised(path: Path, how: How) -> tuple[TextSample, Layout]:
    """The first rows of a text table with its dialect, and its layout."""
    need("pyarrow", f"reading {path}")
    sample = recognise(path, how)
    layout = layouts.of_sample(sample, how, str(path))
    layouts.check_features(layout, str(path), how, sample)
    if layout.n_columns > WIDE:
        # Texts for missing values that do not occur are left out: for each column, pyarrow would
        # keep 50 kB of tables for the usual ones.
        dialect = sample.dialect
        absent = {text for text in dialect.missing if text.strip()}
        with open_text(path, dialect.encoding) as text:
            for line in text:
                if not absent:
                    break
                lower = line.lower()
                absent -= {word for word in absent if word.strip().lower() in lower}
        missing = tuple(word for word in dialect.missing if word not in absent)
        sample = replace(sample, dialect=replace(dialect, missing=missing))
    return sample, layout


def block_size_of(sample: TextSample, size: int) -> int:
    """Size of a block in bytes: `size`, or more if lines are long, because a line must fit.

    pyarrow reads dozens of blocks ahead, regardless of their size.
    """
    rows = [*sample.rows, sample.names or []]
    longest = max(sum(4 * len(field) + 3 for field in row) for row in rows)
    return min(max(size, 16 * longest), 2**31 - 1)


def reading_options(
    pa: Arrow,
    pa_csv: Arrow,
    sample: TextSample,
    layout: Layout,
    columns: Sequence[int],
    *,
    block_size: int | None,
) -> dict[str, Any]:
    """Options for pyarrow: features are numbers, other columns text, named by position."""
    dialect = sample.dialect
    # Columns are named by position, because a file need not have names.
    keys = [str(j) for j in range(layout.n_columns)]
    number = pa.string() if dialect.units else pa.float64()
    types = {str(j): pa.bool_() if j in layout.booleans else number for j in layout.features}
    texts = [j for j in columns if str(j) not in types]
    encoding = "utf8" if dialect.encoding.startswith("utf-8") else dialect.encoding
    return {
        "read_options": pa_csv.ReadOptions(
            column_names=keys,
            skip_rows=dialect.n_skipped + dialect.has_header,
            encoding=encoding,
            **({} if block_size is None else {"block_size": block_size}),
        ),
        "parse_options": pa_csv.ParseOptions(
            delimiter=dialect.delimiter, newlines_in_values=dialect.has_quotes
        ),
        "convert_options": pa_csv.ConvertOptions(
            column_types=types | {str(j): pa.string() for j in texts},
            include_columns=[str(j) for j in columns],
            null_values=dialect.markers(),
            strings_can_be_null=False,
            decimal_point=dialect.decimal,
        ),
    }


def with_numbers(table: Arrow, path: Path, sample: TextSample, layout: Layout) -> Arrow:
    """A table or batch in which numbers replace texts like $3.20, if the dialect has units."""
    if not sample.dialect.units:
        return table
    pa = need("pyarrow", f"reading {path}")
    for j in (j for j in layout.features if j not in layout.booleans):
        fields = table.column(str(j)).to_pylist()
        if not all(_is_fine(field, sample.dialect, False) for field in fields):
            raise ValueError(_wrong_value(path, sample, layout, ""))
        numbers = [
            None if sample.dialect.is_missing(f) else sample.dialect.number(f) for f in fields
        ]
        place = table.schema.get_field_index(str(j))
        table = table.set_column(place, str(j), pa.array(numbers, pa.float64()))
    return table


# --- what is wrong, and where ------------------------------------------------------------------


def complaint(error: BaseException, path: Path, sample: TextSample, layout: Layout) -> str:
    """A readable sentence with line and column, from an error of pyarrow."""
    text = first_line(error)
    column = re.search(r"column #(\d+)", text)
    # The number of the column is of no use: pyarrow counts only the columns that it reads.
    value = re.search(r"invalid value '(.*)'", text, flags=re.DOTALL)
    if column and value:
        return _wrong_value(path, sample, layout, value[1])
    if "Expected" in text and "columns" in text:
        # The first line with too many or too few fields.
        for line, fields in data_rows(path, sample.dialect):
            if len(fields) != layout.n_columns:
                said = "its header names" if sample.names is not None else "its first line has"
                return (
                    f"{path}, line {line} has {len(fields)} field{'s' * (len(fields) != 1)}, but "
                    f"{said} {layout.n_columns} columns: correct the line, or name the delimiter "
                    f"if it is not {sample.dialect.delimiter!r}."
                )
    return f"{path} cannot be read: {text}"


def _wrong_value(path: Path, sample: TextSample, layout: Layout, value: str) -> str:
    """Message with the place of the first feature that is not a number."""
    dialect = sample.dialect
    for line, fields in data_rows(path, dialect):
        for j in layout.features:
            if j < len(fields) and not _is_fine(fields[j], dialect, j in layout.booleans):
                return (
                    f"{path}, line {line}, column {layout.described(j)}: {fields[j].strip()!r} is "
                    "not a number. Correct it, name it as a missing value, or set the column aside."
                )
    return f"{path}: {value!r} is not a number. Correct it, or name it as a missing value."


def _is_fine(field: str, dialect: Dialect, is_boolean: bool) -> bool:
    if dialect.is_missing(field):
        return True
    if is_boolean:
        return field.strip().lower() in {*layouts.BOOLEANS, "0", "1"}
    return dialect.is_number(field)


def data_rows(
    path: Path, dialect: Dialect, *, most: int | None = SEARCHED_ROWS
) -> Iterator[tuple[int, list[str]]]:
    """Line number and fields of the rows below the header, as far as `most` of them."""
    with open_text(path, dialect.encoding) as text:
        rows = dialect.rows(text)
        if dialect.has_header:
            next(rows, None)
        for count, row in enumerate(rows):
            if most is not None and count > most:
                return
            yield row
