"""`bayespca impute` fills holes and leaves every other cell as it was."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayespca.cli.app import app

ROWS = 24
RNG = np.random.default_rng(0)
BIG = 2**53 + 1 + 2 * RNG.integers(0, 10**6, ROWS)


def impute(source, out):
    with pytest.raises(SystemExit) as stopped:
        app(["impute", source, "-o", out, "--draws", "1"], prog_name="bayespca")
    assert stopped.value.code == 0


@pytest.fixture
def lines(tmp_path, monkeypatch):
    """A hand-written table, all of whose oddities must survive."""
    monkeypatch.chdir(tmp_path)
    found = [["id", "a", "b", "big", "flag", "kind, if any"]]
    for i in range(ROWS):
        a, b = RNG.normal(size=2)
        found.append(
            [f"s{i}", f"{a:.3f}0", f" {b:.2e}", str(BIG[i]), ["true", "FALSE"][i % 2], 'x "y"']
        )
    found[3][1], found[7][2], found[9][3], found[11][4] = "NA", "", "?", "n.a."
    return found


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("out", ["y.csv", "y.tsv", "y.csv.gz"])
def test_text_comes_back_as_it_was(lines, delimiter, out):
    source = "x.tsv" if delimiter == "\t" else "x.csv"
    with Path(source).open("w", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(lines)
    impute(source, out)
    given = "\t" if out == "y.tsv" else ("," if delimiter == "\t" else delimiter)
    for name in (out, out.replace("y", "y-draw-1", 1)):
        table = pd.read_csv(name, sep=given, header=None, dtype=str, na_filter=False)
        for i, (ours, theirs) in enumerate(zip(table.to_numpy().tolist(), lines, strict=True)):
            for j, (one, other) in enumerate(zip(ours, theirs, strict=True)):
                if (i, j) == (11, 4):
                    assert one in ("true", "FALSE")
                elif (i, j) in ((3, 1), (7, 2), (9, 3)):
                    assert np.isfinite(float(one))
                else:
                    assert one == other


def test_decimal_commas_come_back(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    values = np.char.replace(RNG.normal(size=(ROWS, 4)).round(3).astype(str), ".", ",")
    values[2, 1] = "NA"
    Path("x.csv").write_text("a;b;c;d\n" + "\n".join(";".join(row) for row in values) + "\n")
    impute("x.csv", "y.csv")
    again = [line.split(";") for line in Path("y.csv").read_text().splitlines()[1:]]
    assert (np.array(again) != values).sum() == 1
    assert np.isfinite(float(again[2][1].replace(",", ".")))


@pytest.mark.parametrize("out", ["y.parquet", "y.feather", "y.csv"])
def test_columns_with_types_keep_them(tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    columns = {"a": RNG.normal(size=ROWS), "b": RNG.normal(size=ROWS)}
    columns["a"][3] = np.nan
    table = pa.table({**columns, "big": pa.array(BIG), "flag": pa.array(np.arange(ROWS) % 2 == 0)})
    pq.write_table(table, "x.parquet")
    impute("x.parquet", out)
    read = {"y.parquet": pd.read_parquet, "y.feather": pd.read_feather, "y.csv": pd.read_csv}[out]
    found = read(out)
    assert found["big"].tolist() == BIG.tolist()
    assert found["flag"].tolist() == [i % 2 == 0 for i in range(ROWS)]
    assert np.isfinite(found["a"]).all()
