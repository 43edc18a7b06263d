"""The meaning of a table does not depend on its format, its width, or its column names."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bayespca.io import How, open_file
from bayespca.io.pieces import cut_up
from bayespca.io.text_files import recognised

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 5)).round(4)
FORMATS = {
    "x.csv": lambda table, path: table.to_csv(path, index=False),
    "x.tsv": lambda table, path: table.to_csv(path, index=False, sep="\t"),
    "x.parquet": lambda table, path: table.to_parquet(path, index=False),
    "x.feather": lambda table, path: table.to_feather(path),
}


def with_first(name, values):
    table = pd.DataFrame(X, columns=[f"gene{j}" for j in range(5)])
    table.insert(0, name, values)
    return table


IDS = {
    "whole numbers": ("sample_id", np.arange(100, 140)),
    "whole numbers that repeat": ("subject", np.arange(40) // 4),
    "labels that repeat": ("label", np.arange(40) % 3),
    "text": ("name", [f"s{i}" for i in range(40)]),
    "text that repeats": ("sample", ["a", "b"] * 20),
    "text without a name": ("who", [f"s{i}" for i in range(40)]),
}
OTHERS = {
    "counts": ("count", np.arange(40)),
    "fractions": ("sample_id", np.arange(40) + 0.5),
    "kinds": ("kind", ["a", "b"] * 20),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("case", IDS)
def test_what_names_the_rows_in_one_format_does_so_in_all(tmp_path, name, case):
    column, values = IDS[case]
    FORMATS[name](with_first(column, values), tmp_path / name)
    table = open_file(tmp_path / name).read()
    assert table.id_name == column
    assert table.ids == [str(value) for value in values]
    assert table.names == [f"gene{j}" for j in range(5)]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("case", OTHERS)
def test_what_does_not_name_the_rows_does_so_in_no_format(tmp_path, name, case):
    column, values = OTHERS[case]
    FORMATS[name](with_first(column, values), tmp_path / name)
    table = open_file(tmp_path / name).read()
    assert table.ids is None
    assert (column in table.names) == (case != "kinds")


# --- numbers as names ----------------------------------------------------------------------------


def csv_of(names, values, *, rows=None, **options):
    return pd.DataFrame(values, rows, names).to_csv(**options)


WHOLE = RNG.integers(0, 100, size=(30, 6))
NAMED = {
    "pandas": csv_of(range(5), X),
    "pandas, whole numbers": csv_of(range(6), WHOLE),
    "pandas without index": csv_of(range(5), X, index=False),
    "pandas without index, whole numbers": csv_of(range(6), WHOLE, index=False),
    "counted from 1": csv_of(range(1, 6), X, index=False),
    "years": csv_of(range(2000, 2005), X, index=False),
    "three years": csv_of([1990, 2000, 2010], X[:, :3], index=False),
    "years beside countries": csv_of(
        range(2000, 2005), X, index_label="country", rows=[f"c{i}" for i in range(40)]
    ),
    "years that fall": csv_of(range(2004, 1999, -1), X, index=False),
    "wavelengths": csv_of(np.linspace(0.1, 2.0, 12), RNG.random((30, 12)), index=False),
    "decimal commas": csv_of(range(2000, 2005), X, index=False, sep=";", decimal=","),
}


@pytest.mark.parametrize("case", NAMED)
def test_numbers_that_name_columns_are_no_data(tmp_path, case):
    (tmp_path / "x.csv").write_text(NAMED[case])
    file = open_file(tmp_path / "x.csv")
    n = len(NAMED[case].splitlines()) - 1
    assert file.read().shape[0] == n
    assert any("--no-header" in note for note in file.layout.notes)
    plain = open_file(tmp_path / "x.csv", How(header=False, id_column=""))
    assert not plain.layout.notes


DATA = {
    "numbers": csv_of(range(5), X, index=False, header=False),
    "whole numbers": csv_of(range(6), WHOLE, index=False, header=False),
    "answers": "1,2,3\n2,5,1\n4,1,1\n3,3,2\n5,2,2\n1,1,4\n",
    "sums": csv_of(range(9), RNG.random((20, 9)).cumsum(axis=1), index=False, header=False),
    "numbers that count, and those that go on": "0,1,2,3\n4,5,6,7\n8,9,10,11\n",
    "names of rows": "a,1,2,3\nb,3,1,2\nc,1,1,0\n",
}


@pytest.mark.parametrize("case", DATA)
def test_numbers_that_are_data_are_no_names(tmp_path, case):
    (tmp_path / "x.csv").write_text(DATA[case])
    file = open_file(tmp_path / "x.csv")
    assert file.read().shape[0] == len(DATA[case].splitlines())
    assert not file.layout.notes


# --- wide tables ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("ids", "digits"), [("whole", 0), ("text", 0), ("whole", 70)])
def test_wide_text_tables_are_read_as_narrow_ones(tmp_path, ids, digits):
    """With 70 digits a line is longer than pyarrow's default blocks of 1 MB."""
    width = 16_000
    values = np.arange(3 * width).reshape(3, width) % 97
    lines = ["id," + ",".join(f"feature_{j}" for j in range(width))]
    for i, row in enumerate(values):
        fields = (f"{x:.{digits}f}" for x in row)
        lines.append(",".join([str(i + 5) if ids == "whole" else f"s{i}", *fields]))
    (tmp_path / "x.csv").write_text("\n".join(lines) + "\n")
    file = open_file(tmp_path / "x.csv")
    table = file.read()
    assert table.ids == (["5", "6", "7"] if ids == "whole" else ["s0", "s1", "s2"])
    blocks = [block.values for block in file.blocks(2**20)]
    pieces = [piece.read() for piece in cut_up(tmp_path / "x.csv", How()).pieces]
    for found in (table.values, np.concatenate(blocks), np.concatenate(pieces)):
        np.testing.assert_array_equal(found, values)


def test_wide_text_tables_look_only_for_holes_that_they_have(tmp_path):
    """With every spelling of a hole, pyarrow takes 50 kB a column: 5 GB for 100,000 columns."""
    width = 3000
    rows = [[str(i * j % 11) for j in range(width)] for i in range(300)]
    rows[-1][5], rows[-2][7], rows[-3][9] = "n/a", " NaN", ""
    header = [f"gene_{j}" for j in range(width)]
    (tmp_path / "x.csv").write_text("\n".join(",".join(row) for row in [header, *rows]) + "\n")
    found = open_file(tmp_path / "x.csv").read().values
    assert np.argwhere(np.isnan(found)).tolist() == [[297, 9], [298, 7], [299, 5]]
    looked_for = recognised(tmp_path / "x.csv", How())[0].dialect.missing
    assert set(looked_for) == {"", "NA", "N/A", "NaN"}


def test_a_line_without_end_is_refused_at_once(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"1," * 10_000_000)
    with pytest.raises(ValueError, match=r"the first line of .*x\.csv is longer than 16 MB"):
        open_file(tmp_path / "x.csv")
