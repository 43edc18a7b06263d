"""Numbers as people write them: with thousands separators, percent signs and currencies."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from bayespca.datasets import low_rank
from bayespca.io.dialect import bare
from bayespca.io.files import open_file
from bayespca.io.records import How

from .installed import run

X = (1000 * low_rank(30, 3, 1, random_state=0).X).round(2) + 2000
WRITTEN = [[f"{a:,.2f}", f"${b:.2f}".replace("$-", "-$"), f"{c:.2f} %"] for a, b, c in X.tolist()]


@pytest.mark.parametrize(
    ("field", "decimal", "digits"),
    [
        ("1,234.5", ".", "1234.5"),
        ("1,234,567", ".", "1234567"),
        ("1 234,5", ",", "1234,5"),
        ("1.234.567,8", ",", "1234567,8"),
        ("1\u202f234,5", ",", "1234,5"),
        ("1'234.5", ".", "1234.5"),
        ("12 %", ".", "12"),
        ("$3.20", ".", "3.20"),
        ("-$3.20", ".", "-3.20"),
        ("3,20 €", ",", "3,20"),
        ("USD 1,200", ".", "1200"),
        # Not numbers, even without separators and units.
        ("1,23", ".", "1,23"),
        ("1,2345.6", ".", "1,2345.6"),
        ("1,234 567", ".", "1,234 567"),
        ("2024-01-05", ".", "2024-01-05"),
        ("abc", ".", "abc"),
    ],
)
def test_digits_of_numbers(field, decimal, digits):
    assert bare(field, decimal) == digits


def test_columns_are_named_with_the_option_that_reads_them(tmp_path):
    frame = pd.DataFrame(WRITTEN, columns=["sales", "price", "share"])
    frame.to_csv(tmp_path / "x.csv", index=False)
    said = run("fit", "x.csv", cwd=tmp_path, rc=1)
    assert "in 'sales', 'price', 'share', were not read. Read them with --units" in said
    run("fit", "x.csv", "--units", "--scores", "s.csv", cwd=tmp_path)
    np.savetxt(tmp_path / "plain.csv", X, delimiter=",", header="sales,price,share", comments="")
    for way in ("--in-memory", "--stream"):
        found = json.loads(run("fit", "x.csv", "--units", way, "--json", cwd=tmp_path))
        same = json.loads(run("fit", "plain.csv", way, "--json", cwd=tmp_path))
        assert found["free_energy"] == pytest.approx(same["free_energy"], rel=1e-9)


def test_columns_beside_numbers_are_named(tmp_path):
    frame = pd.DataFrame(WRITTEN, columns=["sales", "price", "share"]).assign(a=X[:, 0], b=X[:, 1])
    frame.to_csv(tmp_path / "x.csv", index=False)
    layout = open_file(tmp_path / "x.csv").layout
    assert layout.feature_names == ["a", "b"]
    assert "Read them with --units" in layout.notes[-1]
    assert not open_file(tmp_path / "x.csv", How(units=True)).layout.notes


def test_decimal_commas_and_holes(tmp_path):
    rows = [["3,20 €", "1 234,5"], ["NA", "12 345,0"], ["-1,00 €", "?"], ["2,50 €", "7,25"]]
    lines = ["price;sales", *(";".join(row) for row in rows)]
    (tmp_path / "x.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    values = open_file(tmp_path / "x.csv", How(units=True)).read().values
    nan = np.nan
    np.testing.assert_array_equal(values, [[3.2, 1234.5], [nan, 12345], [-1, nan], [2.5, 7.25]])


def test_what_is_no_number_is_named_with_its_place(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n$1,2\n$2,3\n$3,x\n$4,5\n")
    with pytest.raises(ValueError, match="line 4, column 'b': 'x' is not a number"):
        open_file(tmp_path / "x.csv", How(units=True)).read()
