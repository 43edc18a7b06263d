"""Excel sheets: read as the text tables that they would be saved as, and written."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from math import isfinite, isnan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from .packages import need
from .records import Arrow, File, How, readable
from .text_files import open_text_file

# Limits of Excel.
MOST_ROWS, MOST_COLUMNS = 1_048_576, 16_384


def open_excel(path: Path, how: How) -> File:
    """Open the first sheet of a workbook, or the one that `array` names; numbers as stored."""
    rows = _rows(path, how.array)
    with TemporaryDirectory(prefix="bayespca-") as folder:
        text = Path(folder) / f"{path.stem}.csv"
        with text.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([_text(cell) for cell in row] for row in rows)
        try:
            found = open_text_file(text, replace(how, array=None, delimiter=",", decimal="."))
            table = found.read()
        except ValueError as error:
            raise ValueError(str(error).replace(str(text), str(path))) from error
    return replace(found, path=path, n_samples=table.shape[0], read=lambda: table, blocks=None)


def _rows(path: Path, sheet: str | None) -> list[tuple[Any, ...]]:
    """The non-empty rows of a sheet, all of the same width."""
    openpyxl = need("openpyxl", f"reading {path}")
    # openpyxl and zipfile raise errors of many types for a damaged file.
    with readable(path, ".xlsx", Exception):
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    if sheet is not None and sheet not in book.sheetnames:
        names = ", ".join(map(repr, book.sheetnames))
        raise ValueError(f"{path} has no sheet {sheet!r}; it has {names}.")
    values = book[sheet or book.sheetnames[0]].values
    rows = [row for row in values if any(cell is not None for cell in row)]
    book.close()
    if not rows:
        raise ValueError(f"{path} holds no rows.")
    # If a workbook does not state its width, rows end with their last value.
    width = max(map(len, rows))
    return [row + (None,) * (width - len(row)) for row in rows]


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    return cell.isoformat() if isinstance(cell, datetime) else str(cell)


# --- writing -----------------------------------------------------------------------------------


def write_sheet(path: Path, tables: Iterable[Arrow]) -> None:
    """Write a workbook with one sheet: a row of names, then the rows of all Arrow tables."""
    openpyxl = need("openpyxl", "writing .xlsx")
    tables = list(tables)
    n_rows, n_columns = 1 + sum(table.num_rows for table in tables), tables[0].num_columns
    if n_rows > MOST_ROWS or n_columns > MOST_COLUMNS:
        raise ValueError(
            f"a sheet of Excel holds {MOST_ROWS:,} rows, including the names, and {MOST_COLUMNS:,} "
            f"columns, but there are {n_rows:,} and {n_columns:,}: write .csv or .parquet."
        )
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("Sheet1")
    sheet.append([_cell(name, sheet) for name in tables[0].column_names])
    for table in tables:
        columns = [column.to_pylist() for column in table.columns]
        for row in zip(*columns, strict=True):
            sheet.append([_cell(value, sheet) for value in row])
    book.save(path)


def _cell(value: Any, sheet: Any) -> Any:
    """The value of a cell: a number, a date or text.

    Excel has no infinities and no time zones, so these become text. Text that begins with = is
    marked as text, or Excel would compute it.
    """
    if isinstance(value, float) and not isfinite(value):
        return None if isnan(value) else str(value)
    if getattr(value, "tzinfo", None) is not None:
        return value.isoformat()
    if not isinstance(value, str):
        return value
    cells = need("openpyxl.cell", "writing .xlsx")
    text = cells.cell.ILLEGAL_CHARACTERS_RE.sub("\ufffd", value)
    found = cells.WriteOnlyCell(sheet, text)
    found.data_type = "s"
    return found
