"""Sheets of Excel: read as the text table that they would be saved as."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from .packages import need
from .records import File, How, first_line
from .text_files import open_text_file


def open_excel(path: Path, how: How) -> File:
    """The first sheet of a workbook, or the one that `array` names; numbers as they are stored."""
    rows = _rows(path, how.array)
    with TemporaryDirectory(prefix="bayespca-") as folder:
        text = Path(folder) / f"{path.stem}.csv"
        with text.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(map(_fields, rows))
        try:
            found = open_text_file(text, replace(how, array=None, delimiter=",", decimal="."))
            table = found.read()
        except ValueError as error:
            raise ValueError(str(error).replace(str(text), str(path))) from error
    return replace(found, path=path, n_samples=table.shape[0], read=lambda: table, blocks=None)


def _rows(path: Path, sheet: str | None) -> list[tuple[Any, ...]]:
    """The rows of a sheet that are not empty."""
    openpyxl = need("openpyxl", f"reading {path}")
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except Exception as error:
        # openpyxl and zipfile raise errors of many types for a damaged file.
        raise ValueError(f"{path} cannot be read as .xlsx: {first_line(error)}") from error
    if sheet is not None and sheet not in book.sheetnames:
        names = ", ".join(map(repr, book.sheetnames))
        raise ValueError(f"{path} has no sheet {sheet!r}; it has {names}.")
    values = book[sheet or book.sheetnames[0]].values
    rows = [row for row in values if any(cell is not None for cell in row)]
    book.close()
    if not rows:
        raise ValueError(f"{path} holds no rows.")
    return rows


def _fields(row: Iterable[Any]) -> list[str]:
    return [_text(cell) for cell in row]


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    return cell.isoformat() if isinstance(cell, datetime) else str(cell)
