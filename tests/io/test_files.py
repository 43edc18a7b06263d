"""Every format gives the same table, and error messages say where in the file the fault is."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp

from bayespca.io import How, Table, open_file, write_table

NAMES = ["alpha", "beta", "gamma"]


def numbers(n=50):
    return np.random.default_rng(0).normal(size=(n, 3))


def frame(X):
    table = pd.DataFrame(X, columns=NAMES)
    table.insert(0, "sample", [f"s{i}" for i in range(len(X))])
    table["city"] = np.where(np.arange(len(X)) % 2, "Bonn", "Köln")
    return table


def text(path, content, **how):
    path.write_text(content, encoding="utf-8")
    return open_file(path, How(**how)).read()


# --- every format ------------------------------------------------------------------------------


def write_csv(table, path):
    table.to_csv(path, index=False)


def write_tsv(table, path):
    table.to_csv(path, index=False, sep="\t")


def write_semicolons(table, path):
    table.to_csv(path, index=False, sep=";", decimal=",")


def write_zipped(table, path):
    path.write_bytes(gzip.compress(table.to_csv(index=False).encode()))


TABLES = {
    "x.csv": write_csv,
    "x.tsv": write_tsv,
    "semicolons.csv": write_semicolons,
    "x.csv.gz": write_zipped,
    "x.parquet": lambda table, path: table.to_parquet(path, index=False),
    "x.feather": lambda table, path: table.to_feather(path),
}


@pytest.mark.parametrize("name", TABLES)
def test_every_kind_of_table(name, tmp_path):
    X = numbers()
    X[3, 1] = np.nan
    TABLES[name](frame(X), tmp_path / name)
    file = open_file(tmp_path / name)
    table = file.read()
    np.testing.assert_array_equal(table.values, X)
    assert table.names == NAMES
    assert table.ids == [f"s{i}" for i in range(50)]
    assert table.id_name == "sample"
    assert table.aside == {"city": "text"}
    assert table.others["city"][:2].tolist() == ["Köln", "Bonn"]
    assert table.order == ["sample", *NAMES, "city"]
    assert table.n_holes == 1


@pytest.mark.parametrize("name", [name for name in TABLES if "feather" not in name])
def test_blocks_are_the_table(name, tmp_path):
    X = numbers(3000)
    TABLES[name](frame(X), tmp_path / name)
    file = open_file(tmp_path / name)
    blocks = list(file.blocks(10_000))
    assert len(blocks) > 3
    np.testing.assert_array_equal(np.concatenate([rows.values for rows in blocks]), X)
    assert [i for rows in blocks for i in rows.ids] == [f"s{i}" for i in range(3000)]


def test_text_is_read_in_small_blocks(tmp_path):
    """pyarrow holds dozens of blocks at a time: large ones would amount to the whole file."""
    path = tmp_path / "x.csv"
    write_csv(pd.DataFrame(np.tile(numbers(), (4000, 1))), path)
    blocks = list(open_file(path).blocks(2**30))
    assert len(blocks) >= path.stat().st_size // (4 * 2**20)
    assert len(blocks) > 2


def test_npy(tmp_path):
    X = numbers().astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    file = open_file(tmp_path / "x.npy")
    assert file.n_samples == 50
    np.testing.assert_array_equal(file.read().values, X)
    assert file.read().values.dtype == np.float32
    rows = np.concatenate([rows.values for rows in file.blocks(100)])
    np.testing.assert_array_equal(rows, X)


def test_npz(tmp_path):
    X, y = numbers(), np.arange(50) % 3
    np.savez(tmp_path / "x.npz", X=X, y=y, other=np.eye(2), feature_names=np.array(NAMES))
    table = open_file(tmp_path / "x.npz").read()
    np.testing.assert_array_equal(table.values, X)
    assert table.names == NAMES
    assert table.others["y"].tolist() == y.tolist()
    np.testing.assert_array_equal(
        open_file(tmp_path / "x.npz", How(array="other")).read().values, np.eye(2)
    )


@pytest.mark.parametrize("is_sparse", [False, True])
def test_matrix_market(is_sparse, tmp_path):
    X = np.round(numbers() * (numbers() > 0.5), 3)
    scipy.io.mmwrite(tmp_path / "x.mtx", sp.coo_array(X) if is_sparse else X)
    values = open_file(tmp_path / "x.mtx").read().values
    assert sp.issparse(values) == is_sparse
    np.testing.assert_allclose(values.toarray() if is_sparse else values, X)


def test_h5ad(tmp_path):
    anndata = pytest.importorskip("anndata", reason="anndata is not installed")
    X = numbers().astype(np.float32)
    obs = pd.DataFrame({"kind": ["a", "b"] * 25}, index=[f"cell {i}" for i in range(50)])
    data = anndata.AnnData(sp.csr_matrix(X), obs=obs, var=pd.DataFrame(index=NAMES))
    data.layers["raw"] = X * 2
    data.write_h5ad(tmp_path / "x.h5ad")
    table = open_file(tmp_path / "x.h5ad").read()
    assert table.names == NAMES
    assert table.ids[:2] == ["cell 0", "cell 1"]
    assert table.others["kind"][:2].tolist() == ["a", "b"]
    np.testing.assert_allclose(table.values.toarray(), X)
    raw = open_file(tmp_path / "x.h5ad", How(array="raw")).read()
    np.testing.assert_allclose(raw.values, X * 2)
    with pytest.raises(ValueError, match=r"no layer 'x'; it has 'raw'"):
        open_file(tmp_path / "x.h5ad", How(array="x"))
    (tmp_path / "bad.h5ad").write_text("no")
    with pytest.raises(ValueError, match=r"bad\.h5ad cannot be read"):
        open_file(tmp_path / "bad.h5ad")


# --- what is recognised in text ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "names", "ids", "values"),
    [
        ("a,b\n1,2\n3,4\n", ["a", "b"], None, [[1, 2], [3, 4]]),
        ("1,2\n3,4\n", None, None, [[1, 2], [3, 4]]),
        ("x1,1,2\nx2,3,4\n", None, ["x1", "x2"], [[1, 2], [3, 4]]),
        ('"","a","b"\n"r1",1,2\n"r2",3,4\n', ["a", "b"], ["r1", "r2"], [[1, 2], [3, 4]]),
        ('"a" "b"\n"r1" 1 2\n"r2" 3 4\n', ["a", "b"], ["r1", "r2"], [[1, 2], [3, 4]]),
        ("id,2001,2002\n7,1,2\n8,3,4\n", ["2001", "2002"], ["7", "8"], [[1, 2], [3, 4]]),
        ("# made by hand\na,b\n1,2\n3,4\n", ["a", "b"], None, [[1, 2], [3, 4]]),
        ("#a\tb\n1\t2\n3\t4\n", ["#a", "b"], None, [[1, 2], [3, 4]]),
        ("a;b\n1,5;2\n3;4,25\n", ["a", "b"], None, [[1.5, 2], [3, 4.25]]),
        ("a|b\n1|NA\n?|4\n", ["a", "b"], None, [[1, np.nan], [np.nan, 4]]),
        ("a,b\n1, NA\nnull,4\n", ["a", "b"], None, [[1, np.nan], [np.nan, 4]]),
        ("a,b\ntrue,1\nFALSE,2\n", ["a", "b"], None, [[1, 1], [0, 2]]),
        ("a,b\r\n1,2\r\n3,4\r\n", ["a", "b"], None, [[1, 2], [3, 4]]),
        ('a,"b, c"\n1,2\n\n3,4\n', ["a", "b, c"], None, [[1, 2], [3, 4]]),
        ("\ufeffa,b\n1,2\n3,4\n", ["a", "b"], None, [[1, 2], [3, 4]]),
        ("a,b\n1e-3,-2.5E+2\n.5,3.\n", ["a", "b"], None, [[1e-3, -250], [0.5, 3]]),
        ("index,a\n0,5\n1,7\n", ["a"], ["0", "1"], [[5], [7]]),
        ("count,a\n0,5\n1,7\n", ["count", "a"], None, [[0, 5], [1, 7]]),
    ],
)
def test_what_is_recognised(content, names, ids, values, tmp_path):
    ending = ".txt" if '" "' in content else ".csv"
    table = text(tmp_path / f"x{ending}", content)
    assert table.names == names
    assert table.ids == ids
    np.testing.assert_array_equal(table.values, values)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_other_encodings(encoding, tmp_path):
    (tmp_path / "x.csv").write_bytes("größe,b\n1,2\n3,4\n".encode(encoding))
    table = open_file(tmp_path / "x.csv").read()
    assert table.names == ["größe", "b"]
    np.testing.assert_array_equal(table.values, [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("content", "how", "names", "values"),
    [
        ("1,2\n3,4\n", {"header": True}, ["1", "2"], [[3, 4]]),
        ("a:b\n1:2\n", {"delimiter": ":"}, ["a", "b"], [[1, 2]]),
        ("a,b\n-999,2\n1,0\n", {"missing": ("-999",)}, ["a", "b"], [[np.nan, 2], [1, 0]]),
        ("id,a\n5,2\n6,3\n", {"id_column": ""}, ["id", "a"], [[5, 2], [6, 3]]),
        ("a,b\n5,2\n6,3\n", {"id_column": "b"}, ["a"], [[5], [6]]),
        ("a,b,c\n5,2,1\n6,3,1\n", {"drop": ("b",)}, ["a", "c"], [[5, 1], [6, 1]]),
        ("1;2,5\n3;4\n", {"decimal": ","}, None, [[1, 2.5], [3, 4]]),
    ],
)
def test_everything_can_be_said(content, how, names, values, tmp_path):
    table = text(tmp_path / "x.csv", content, **how)
    assert table.names == names
    np.testing.assert_array_equal(table.values, values)


def test_a_column_without_values_is_set_aside(tmp_path):
    table = text(tmp_path / "x.csv", "a,b,c\n1,NA,3\n2,,4\n")
    assert table.names == ["a", "c"]
    assert table.aside == {"b": "empty"}


# --- what is wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "how", "message"),
    [
        ("a,b\n1,2\n3,x\n4,5\n", {}, r"x\.csv, line 3, column 'b': 'x' is not a number"),
        ("1,2\n3,4\n5,6,7\n", {}, r"x\.csv, line 3 has 3 fields, but its first line has 2 columns"),
        ("a,b\n1,2\n3\n", {}, r"x\.csv, line 3 has 1 field, but its header names 2 columns"),
        ("a,b,a\n1,2,3\n", {}, r"two columns called 'a' \(columns 1 and 3\)"),
        ("a,b\nx,y\nz,w\n", {}, r"x\.csv has no column of numbers .*'b' \(text\)"),
        ("a,b\n1,2\n", {"delimiter": ";"}, r"no column of numbers .* splitting lines at ';'"),
        ("a,b\n1,2\n", {"drop": ("c",)}, r"x\.csv has no column 'c'. Its columns are 'a', 'b'"),
        ("a,b\n1,2\n", {"id_column": "c"}, r"x\.csv has no column 'c'"),
        ("a,b\nNA,NA\n", {}, r"x\.csv has no value in any of its 2 columns"),
        ("a,b\n", {}, r"x\.csv holds no rows"),
        ("\n\n", {}, r"x\.csv holds no rows"),
        ("", {}, r"x\.csv is empty"),
        ("\x00\x01\x02", {}, r"x\.csv cannot be read as text"),
    ],
)
def test_mistakes_are_told_with_their_place(content, how, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        text(tmp_path / "x.csv", content, **how)


def test_a_mistake_far_down_is_found(tmp_path):
    rows = ["a,b"] + ["1,2"] * 20_000 + ["3,oops"] + ["1,2"] * 10
    with pytest.raises(ValueError, match=r"line 20002, column 'b': 'oops'"):
        text(tmp_path / "x.csv", "\n".join(rows))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": np.eye(2), "b": np.eye(3)}, r"2 matrices of numbers: name the array"),
        ({"a": np.arange(3)}, r"no matrices of numbers"),
        ({"X": np.arange(3)}, r"array 'X' has shape \(3,\)"),
        ({"X": np.array([["a"]])}, r"entries of type <U1"),
    ],
)
def test_npz_without_a_matrix(arrays, message, tmp_path):
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        open_file(tmp_path / "x.npz")


@pytest.mark.parametrize("name", ["x.npz", "x.mtx", "x.feather", "x.parquet", "x.npy"])
def test_files_that_are_not_what_they_say(name, tmp_path):
    (tmp_path / name).write_text("this is none of them\n1 2 3\n")
    with pytest.raises(ValueError, match=rf"{name} (cannot be read|is not)"):
        open_file(tmp_path / name).read()


def test_an_npy_file_with_another_ending(tmp_path):
    with (tmp_path / "x.npz").open("wb") as file:
        np.save(file, np.eye(3))
    with pytest.raises(ValueError, match=r"x\.npz is not an \.npz file"):
        open_file(tmp_path / "x.npz")


def test_a_pickle_is_not_opened(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.array([[object()]], dtype=object))
    with pytest.raises(ValueError, match="no matrices"):
        open_file(tmp_path / "x.npz")


# --- writing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["x.csv", "x.tsv", "x.csv.gz", "x.parquet", "x.feather", "x.npz", "x.npy", "x.mtx"]
)
@pytest.mark.parametrize("in_parts", [False, True])
def test_what_is_written_is_read(name, in_parts, tmp_path):
    X = numbers()
    X[3, 1] = np.nan if name not in ("x.mtx",) else 0.5
    ids = [f"s{i}" for i in range(50)]
    city = np.array(["Bonn", "Köln"] * 25, dtype=object)
    whole = Table(X, NAMES, ids, "sample", {"city": city})
    parts = [
        Table(X[part], NAMES, ids[part], "sample", {"city": city[part]})
        for part in (slice(0, 20), slice(20, 50))
    ]
    write_table(tmp_path / name, parts if in_parts else whole)
    table = open_file(tmp_path / name).read()
    np.testing.assert_array_equal(table.values, X)
    if name not in ("x.npy", "x.mtx"):
        assert table.names == NAMES
        assert table.ids == ids
        assert table.others["city"].tolist() == city.tolist()
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_columns_are_written_in_their_old_order(tmp_path):
    (tmp_path / "x.csv").write_text("city,b,id,a\nBonn,1,x,3\nBonn,2,y,4\n")
    table = open_file(tmp_path / "x.csv", How(id_column="id")).read()
    write_table(tmp_path / "y.csv", table)
    assert (tmp_path / "y.csv").read_text().replace('"', "") == (tmp_path / "x.csv").read_text()


def test_a_failure_leaves_what_was_there(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("before")

    def parts():
        yield Table(np.eye(2), ["a", "b"])
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError):
        write_table(path, parts())
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_an_ending_that_cannot_be_written(tmp_path):
    with pytest.raises(ValueError, match=r"ending '.h5ad', which is not one that can be written"):
        write_table(tmp_path / "x.h5ad", Table(np.eye(2)))
