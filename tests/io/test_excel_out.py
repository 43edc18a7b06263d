"""Tables written to Excel sheets and read back."""

from __future__ import annotations

import csv
from datetime import UTC, date, datetime

import numpy as np
import pytest

from bayespca.io import excel_files
from bayespca.io.files import open_file
from bayespca.io.records import How, Table
from bayespca.io.tables import write_table

openpyxl = pytest.importorskip("openpyxl")
pa = pytest.importorskip("pyarrow")


def rows(path):
    return [list(row) for row in openpyxl.load_workbook(path).active.values]


def test_numbers_names_and_holes_come_back(tmp_path):
    values = np.array([[1.5, np.nan], [-2e-9, 3.0], [0.1, 1 / 3]])
    parts = [Table(values, ["a", "b"], list(ids), "sample") for ids in ("xyz", "uvw")]
    write_table(tmp_path / "t.xlsx", parts)
    again = open_file(tmp_path / "t.xlsx", How()).read()
    assert again.values == pytest.approx(np.vstack([values, values]), rel=1e-15, nan_ok=True)
    assert list(again.names) == ["a", "b"]
    assert list(again.ids) == list("xyzuvw")


def test_text_is_never_a_formula_and_never_refused(tmp_path):
    path = tmp_path / "t.xlsx"
    zone = datetime(2026, 1, 2, 3, tzinfo=UTC)
    table = pa.table(
        {
            "=a": ["=1+1", "bell\x07"],
            "number": [float("inf"), float("nan")],
            "when": [zone, None],
            "day": [date(2026, 1, 2), None],
        }
    )
    excel_files.write_sheet(path, [table])
    names, first, second = rows(path)
    assert names == ["=a", "number", "when", "day"]
    assert first == ["=1+1", "inf", zone.isoformat(), datetime(2026, 1, 2)]
    assert second == ["bell\ufffd", None, None, None]
    cell = openpyxl.load_workbook(path).active["A2"]
    assert cell.data_type == "s"


def test_what_a_sheet_cannot_hold_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(excel_files, "MOST_ROWS", 3)
    table = Table(np.ones((3, 2)), ["a", "b"], None, "")
    with pytest.raises(ValueError, match=r"holds 3 rows, including the names.*are 4 and 2"):
        write_table(tmp_path / "t.xlsx", table)
    assert not list(tmp_path.iterdir())


def test_sheets_are_the_tables_that_text_would_be(tmp_path):
    values = np.random.default_rng(0).normal(size=(5, 3))
    table = Table(values, ["a", "b", "c"], list("vwxyz"), "id")
    for name in ("t.csv", "t.xlsx"):
        write_table(tmp_path / name, table)
    text = list(csv.reader((tmp_path / "t.csv").read_text().splitlines()))
    sheet = rows(tmp_path / "t.xlsx")
    assert sheet[0] == text[0]
    for left, right in zip(text[1:], sheet[1:], strict=True):
        assert left[0] == right[0]
        assert [float(number) for number in left[1:]] == pytest.approx(right[1:], rel=1e-15)
