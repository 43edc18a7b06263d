"""Every kind of source gives the same rows, and errors say what is wrong with one."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from bayespca.sources import open_source

NAMES = ["a", "b", "c"]


def numbers(n: int = 1000, dtype: Any = np.float64) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, len(NAMES))).astype(dtype)


def read(X: Any, **options: Any) -> np.ndarray:
    """All rows of a source; blocks are copied because the next one may overwrite them."""
    return np.concatenate([block.copy() for block in open_source(X, **options).blocks()])


def frame(X: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(X, columns=NAMES)


# --- every kind --------------------------------------------------------------------------------


def npy(X: np.ndarray, folder: Path) -> Path:
    np.save(folder / "x.npy", X)
    return folder / "x.npy"


def fortran_npy(X: np.ndarray, folder: Path) -> Path:
    return npy(np.asfortranarray(X), folder)


def memory_map(X: np.ndarray, folder: Path) -> np.ndarray:
    return np.load(npy(X, folder), mmap_mode="r")


def part_of_a_memory_map(X: np.ndarray, folder: Path) -> np.ndarray:
    padded = np.pad(X, ((5, 7), (2, 1)))
    return np.load(npy(padded, folder), mmap_mode="r")[5:-7, 2:-1]


def parquet(X: np.ndarray, folder: Path) -> str:
    frame(X).to_parquet(folder / "x.parquet", row_group_size=300)
    return str(folder / "x.parquet")


def parquet_folder(X: np.ndarray, folder: Path) -> Path:
    (folder / "parts").mkdir()
    for i, part in enumerate(np.array_split(X, 3)):
        frame(part).to_parquet(folder / "parts" / f"part-{i}.parquet")
    frame(X[:0]).to_parquet(folder / "parts" / "part-9.parquet")
    (folder / "parts" / "_SUCCESS").touch()
    return folder / "parts"


def parquet_files(X: np.ndarray, folder: Path) -> list[Path]:
    return sorted(parquet_folder(X, folder).glob("*.parquet"))


def comma(X: np.ndarray, folder: Path) -> Path:
    frame(X).to_csv(folder / "x.csv", index=False)
    return folder / "x.csv"


def tab(X: np.ndarray, folder: Path) -> Path:
    frame(X).to_csv(folder / "x.tsv", index=False, sep="\t")
    return folder / "x.tsv"


def semicolon(X: np.ndarray, folder: Path) -> Path:
    frame(X).to_csv(folder / "x.csv", index=False, sep=";")
    return folder / "x.csv"


def zipped(X: np.ndarray, folder: Path) -> Path:
    frame(X).to_csv(folder / "x.csv.gz", index=False)
    return folder / "x.csv.gz"


def headless(X: np.ndarray, folder: Path) -> Path:
    np.savetxt(folder / "x.txt", X)
    return folder / "x.txt"


def mixed_files(X: np.ndarray, folder: Path) -> list[Path]:
    return [parquet_folder(X[:400], folder), comma(X[400:], folder)]


WITHOUT_NAMES: dict[str, Callable[[np.ndarray, Path], Any]] = {
    "array": lambda X, _: X,
    "Fortran array": lambda X, _: np.asfortranarray(X),
    "strided array": lambda X, _: np.repeat(X, 2, axis=1)[:, ::2],
    "reversed array": lambda X, _: X[::-1].copy()[::-1],
    "foreign byte order": lambda X, _: X.astype(X.dtype.newbyteorder()),
    "memory map": memory_map,
    "part of a memory map": part_of_a_memory_map,
    "npy": npy,
    "Fortran npy": fortran_npy,
    "list of blocks": lambda X, _: np.array_split(X, 7),
    "generator": lambda X, _: (part for part in np.array_split(X, 7)),
    "blocks without rows": lambda X, _: [X[:0], X, X[:0]],
    "list of npy files": lambda X, folder: [str(npy(X, folder))],
    "headless text": headless,
}
WITH_NAMES: dict[str, Callable[[np.ndarray, Path], Any]] = {
    "pandas": lambda X, _: frame(X),
    "polars": lambda X, _: pl.DataFrame(X, schema=NAMES),
    "Arrow": lambda X, _: pa.Table.from_pandas(frame(X)),
    "pandas blocks": lambda X, _: [frame(part) for part in np.array_split(X, 4)],
    "polars blocks": lambda X, _: (pl.DataFrame(x, schema=NAMES) for x in np.array_split(X, 4)),
    "Arrow blocks": lambda X, _: pa.Table.from_pandas(frame(X)).to_batches(max_chunksize=99),
    "Parquet": parquet,
    "Parquet folder": parquet_folder,
    "Parquet files": parquet_files,
    "csv": comma,
    "tsv": tab,
    "semicolons": semicolon,
    "csv.gz": zipped,
    "files of two kinds": mixed_files,
}
ONCE = {"generator", "polars blocks"}
TEXT = {"headless text", "csv", "tsv", "semicolons", "csv.gz", "files of two kinds"}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [*WITHOUT_NAMES, *WITH_NAMES])
def test_every_kind_gives_all_rows(kind, dtype, tmp_path):
    X = numbers(dtype=dtype)
    source = open_source((WITHOUT_NAMES | WITH_NAMES)[kind](X, tmp_path), block_bytes=5000)
    assert source.n_features == 3
    assert source.names == (NAMES if kind in WITH_NAMES else None)
    assert source.rereadable == (kind not in ONCE)
    assert source.n_samples in (None, len(X))
    assert source.dtype == (np.float64 if kind in TEXT else dtype)
    for _ in range(1 if kind in ONCE else 2):
        blocks = [block.copy() for block in source.blocks()]
        assert all(block.dtype in (dtype, source.dtype) for block in blocks)
        rtol = np.finfo(dtype).eps if kind in TEXT else 0
        np.testing.assert_allclose(np.concatenate(blocks), X, rtol=rtol)
        if source.n_samples and kind not in TEXT:
            assert max(block.nbytes for block in blocks) <= 5000


def test_arrays_are_not_copied():
    for X in (numbers(), np.asfortranarray(numbers()), numbers(dtype=np.float32)):
        blocks = list(open_source(X, block_bytes=4000).blocks())
        assert len(blocks) > 1
        assert all(np.shares_memory(block, X) for block in blocks)


def test_a_read_only_array():
    X = numbers()
    X.flags.writeable = False
    np.testing.assert_array_equal(read(X), X)


def test_a_row_larger_than_a_block():
    assert [len(block) for block in open_source(numbers(3), block_bytes=1).blocks()] == [1, 1, 1]


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(bool, "f8"), (np.int8, "f8"), (np.uint64, "f8"), (np.float16, "f4"), (np.longdouble, "f8")],
)
def test_other_types_become_floats(dtype, expected, tmp_path):
    X = (numbers() > 0).astype(dtype)
    for given in (X, npy(X, tmp_path), [X]):
        source = open_source(given)
        assert source.dtype == np.dtype(expected)
        block = next(source.blocks())
        assert block.dtype == np.dtype(expected)
        np.testing.assert_array_equal(block, X.astype(np.float64))


def test_parquet_columns_of_many_types(tmp_path):
    columns = {
        "bool": [True, False],
        "int": [1, -2],
        "float": np.array([0.5, 1.5], np.float32),
        "decimal": [Decimal("1.25"), Decimal("2.50")],
    }
    pq.write_table(pa.table(columns), tmp_path / "x.pq")
    expected = [[1, 1, 0.5, 1.25], [0, -2, 1.5, 2.5]]
    np.testing.assert_array_equal(read(tmp_path / "x.pq"), expected)


def test_row_labels_that_pandas_stores_are_no_data(tmp_path):
    frame(numbers(4)).set_index(pd.Index([3, 1, 4, 2], name="id")).to_parquet(
        tmp_path / "x.parquet"
    )
    assert open_source(tmp_path / "x.parquet").names == NAMES


def test_a_mixed_table_becomes_float64():
    table = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5], "c": [True, False]})
    np.testing.assert_array_equal(read(table), [[1, 0.5, 1], [2, 1.5, 0]])
    np.testing.assert_array_equal(read(table.convert_dtypes()), [[1, 0.5, 1], [2, 1.5, 0]])


def test_integers_that_turn_into_decimals_far_down(tmp_path):
    """The type of a column is not guessed from its first rows."""
    X = np.ones((5000, 3))
    X[4000:] = 0.25
    frame(X).astype(object).where(X != 1, 1).to_csv(tmp_path / "x.csv", index=False)
    np.testing.assert_array_equal(read(tmp_path / "x.csv", block_bytes=2000), X)


@pytest.mark.parametrize(
    ("text", "names", "rows"),
    [
        ("a,b\n1,2\n", ["a", "b"], [[1, 2]]),
        ("1,2\n3,4\n", None, [[1, 2], [3, 4]]),
        ("\ufeffa,b\r\n1,2\r\n", ["a", "b"], [[1, 2]]),
        ('"x, y";z\n1;2\n', ["x, y", "z"], [[1, 2]]),
        ("only one\n1\n2\n", ["only one"], [[1], [2]]),
        ("first one,second one\n1,2\n", ["first one", "second one"], [[1, 2]]),
        ("a,b\n1e-3, 2\n", ["a", "b"], [[1e-3, 2]]),
    ],
)
def test_headers_and_delimiters(tmp_path, text, names, rows):
    (tmp_path / "x.csv").write_bytes(text.encode())
    source = open_source(tmp_path / "x.csv")
    assert source.names == names
    np.testing.assert_array_equal(np.concatenate(list(source.blocks())), rows)


def test_a_generator_is_read_lazily_and_once():
    taken = []

    def blocks() -> Iterator[np.ndarray]:
        for i in range(4):
            taken.append(i)
            yield numbers(5)

    source = open_source(blocks())
    assert taken == [0]
    assert len(list(source.blocks())) == 4
    with pytest.raises(ValueError, match="cannot be read again"):
        list(source.blocks())


def test_an_iterable_that_starts_again_is_rereadable():
    class Loader:
        def __iter__(self) -> Iterator[np.ndarray]:
            return iter(np.array_split(numbers(), 3))

    source = open_source(Loader())
    assert source.rereadable
    assert [len(list(source.blocks())) for _ in range(2)] == [3, 3]


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_reading_leaves_memory_maps_as_they_are(tmp_path, mode):
    """Changes to a private map exist only in memory, and must not be released."""
    X = numbers(20_000)
    mapped = np.load(npy(X, tmp_path), mmap_mode=mode)
    if mode != "r":
        mapped[::2] = 7.0
        X[::2] = 7.0
    for _ in range(2):
        np.testing.assert_array_equal(read(mapped, block_bytes=10_000), X)
    np.testing.assert_array_equal(mapped, X)


# --- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["array", "strided array", "Fortran array", "memory map", "npy"])
def test_numbers_that_are_not_finite(kind, bad, tmp_path):
    X = numbers()
    X[777, 2] = bad
    with pytest.raises(ValueError, match=rf"has {bad} in row 777 .* column 2: .*fill or drop"):
        read(WITHOUT_NAMES[kind](X, tmp_path), block_bytes=5000)


@pytest.mark.parametrize("kind", ["pandas", "polars", "Arrow", "Parquet", "csv", "tsv"])
def test_holes_are_named_by_column(kind, tmp_path):
    X = numbers()
    X[777, 1] = np.nan
    with pytest.raises(ValueError, match=r"has nan in row 777 .* column 'b'"):
        read(WITH_NAMES[kind](X, tmp_path), block_bytes=5000)


def test_nulls_of_integer_columns_are_holes(tmp_path):
    pq.write_table(pa.table({"a": [1, 2, None]}), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"x\.parquet has nan in row 2 .* column 'a'"):
        read(tmp_path / "x.parquet")


def test_holes_in_an_iterable_are_named_by_block():
    X = numbers()
    X[777, 1] = np.nan
    with pytest.raises(ValueError, match=r"block 7 has nan in row 77 .* column 1"):
        read(np.array_split(X, 10))


def test_large_numbers_are_no_infinities():
    """Their squares overflow, and even their sum, but they are finite."""
    X = np.full((10, 2), 3e38, np.float32)
    np.testing.assert_array_equal(read(X), X)
    np.testing.assert_array_equal(read(np.repeat(X, 2, axis=1)[:, ::2]), X)


def test_blocks_of_different_widths():
    with pytest.raises(ValueError, match="block 2 has 4 columns, but block 0 has 3"):
        read([numbers(5), numbers(5), np.zeros((5, 4))])


@pytest.mark.parametrize("kind", ["npy", "Fortran npy"])
def test_a_npy_file_that_ends_early(kind, tmp_path):
    path = WITHOUT_NAMES[kind](numbers(), tmp_path)
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(ValueError, match=r"x\.npy ends early: .* takes 24128 bytes, .* has 23128"):
        open_source(path)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(5), "shape"),
        (np.zeros((2, 2, 2)), "shape"),
        (np.zeros((0, 3)), "nothing to read"),
        (np.zeros((3, 0)), "nothing to read"),
        (np.zeros((2, 2), complex), "complex128"),
        (np.array([["a", "b"]]), "<U1"),
        (np.zeros((2, 2), "f4,f4"), "real numbers are needed"),
    ],
)
def test_npy_files_without_a_matrix_of_numbers(array, message, tmp_path):
    with pytest.raises(ValueError, match=rf"x\.npy .*{message}"):
        open_source(npy(array, tmp_path))


@pytest.mark.parametrize("name", ["x.npy", "x.parquet"])
def test_files_that_are_not_what_their_ending_says(name, tmp_path):
    (tmp_path / name).write_text("this is neither one nor the other")
    with pytest.raises(ValueError, match=rf"{name} (is not|cannot be read)"):
        open_source(tmp_path / name)


def test_a_text_column_in_parquet(tmp_path):
    pq.write_table(pa.table({"a": [1.0], "city": ["Bonn"]}), tmp_path / "x.parquet")
    source = open_source(tmp_path / "x.parquet")
    assert source.names == ["a"]
    assert source.notes == ("column 'city' was skipped (text)",)


def test_a_text_column_in_csv(tmp_path):
    (tmp_path / "x.csv").write_text("a,city\n1,Bonn\n2,Bonn")
    source = open_source(tmp_path / "x.csv")
    assert source.names == ["a"]
    assert source.notes == ("column 'city' was skipped (text)",)


@pytest.mark.parametrize("n", [2, 5000])
def test_text_in_a_column_of_numbers(tmp_path, n):
    rows = ["a,city", *["1,2"] * n, "1,Bonn"]
    (tmp_path / "x.csv").write_text("\n".join(rows))
    place = rf"x\.csv, line {n + 2}, column 'city': 'Bonn' is not a number"
    with pytest.raises(ValueError, match=place):
        read(tmp_path / "x.csv", block_bytes=1000)


def test_a_csv_with_a_short_row(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n3\n")
    place = r"x\.csv, line 3 has 1 field, but its header names 2 columns"
    with pytest.raises(ValueError, match=place):
        read(tmp_path / "x.csv")


def test_a_csv_that_is_not_text(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"\xff\xfe\x00\n\x01")
    with pytest.raises(ValueError, match=r"x\.csv cannot be read as text"):
        open_source(tmp_path / "x.csv")


@pytest.mark.parametrize("kept", [0.01, 0.9])
def test_a_broken_archive(kept, tmp_path):
    frame(numbers(5000)).to_csv(tmp_path / "whole.csv", index=False)
    content = gzip.compress((tmp_path / "whole.csv").read_bytes())
    (tmp_path / "x.csv.gz").write_bytes(content[: int(kept * len(content))])
    with pytest.raises(ValueError, match=r"x\.csv\.gz"):
        read(tmp_path / "x.csv.gz", block_bytes=10_000)


def test_damaged_pages_in_parquet(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": numbers(20_000)[:, 0]}), path, use_dictionary=False)
    content = bytearray(path.read_bytes())
    content[1000:9000] = bytes(8000)
    content[4:40] = bytes(36)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"x\.parquet cannot be read as Parquet"):
        read(path)


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"a": [1.0], "city": ["Bonn"]}),
        pd.DataFrame({"a": [1.0], "city": pd.Categorical(["Bonn"])}),
        pl.DataFrame({"a": [1.0], "city": ["Bonn"]}),
        pa.table({"a": [1.0], "city": ["Bonn"]}),
    ],
)
def test_a_text_column_in_a_table(table):
    with pytest.raises(ValueError, match="the table, column 'city': 'Bonn' is not a number"):
        read(table)
    with pytest.raises(ValueError, match="block 0, column 'city': 'Bonn' is not a number"):
        read([table])


@pytest.mark.parametrize("dtype", ["datetime64[s]", complex])
def test_types_that_are_no_real_numbers(dtype):
    with pytest.raises(ValueError, match=r"column 0: an entry of type (datetime64|complex)"):
        open_source(np.zeros((2, 2), dtype))


def test_numbers_written_as_text_are_not_guessed():
    with pytest.raises(ValueError, match="column 1: '2' is not a number"):
        read(np.array([[1, "2"]], dtype=object))


@pytest.mark.parametrize("name", ["x.npy", "x.parquet", "x.csv", "folder"])
def test_a_missing_file(name, tmp_path):
    with pytest.raises(FileNotFoundError, match=f"{name} does not exist"):
        open_source(tmp_path / name)


@pytest.mark.parametrize("name", ["x.ods", "x", "x.npy.gz", "x.gz"])
def test_an_unknown_ending(name, tmp_path):
    (tmp_path / name).write_text("1,2")
    with pytest.raises(ValueError, match=r"ending .* not known: use one of \.csv, \.tsv"):
        open_source(tmp_path / name)


@pytest.mark.parametrize("name", ["x.npy", "x.parquet", "x.csv", "x.tsv"])
def test_an_empty_file(name, tmp_path):
    (tmp_path / name).touch()
    with pytest.raises(ValueError, match=rf"{name} is empty \(0 bytes\)"):
        open_source(tmp_path / name)


def test_no_rows(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n")
    frame(numbers(0)).to_parquet(tmp_path / "x.parquet")
    for given in (tmp_path / "x.csv", tmp_path / "x.parquet", numbers(0), [numbers(0)]):
        with pytest.raises(ValueError, match="holds no rows"):
            read(given)
    with pytest.raises(ValueError, match="holds no blocks"):
        read([])


def test_no_columns(tmp_path):
    pd.DataFrame(index=range(3)).to_parquet(tmp_path / "x.parquet")
    for given in (np.zeros((3, 0)), [np.zeros((3, 0))], tmp_path / "x.parquet"):
        with pytest.raises(ValueError, match="has no columns"):
            open_source(given)


def test_a_folder_without_parquet(tmp_path):
    with pytest.raises(ValueError, match="is a folder without Parquet files"):
        open_source(tmp_path)


def test_files_with_different_columns(tmp_path):
    paths = [tmp_path / name for name in ("1.csv", "2.csv", "3.csv", "4.csv")]
    for path, text in zip(paths, ("a,b\n1,2", "a,c\n1,2", "a,b,c\n1,2,3", "1,2"), strict=True):
        path.write_text(text)
    with pytest.raises(ValueError, match=r"2\.csv has a column 'c' where .*1\.csv has 'b'"):
        open_source([paths[0], paths[1]])
    with pytest.raises(ValueError, match=r"3\.csv has 3 columns, but .*1\.csv has 2"):
        open_source([paths[0], paths[2]])
    with pytest.raises(ValueError, match=r"4\.csv has no column names, but .*1\.csv has"):
        open_source([paths[0], paths[3]])
    with pytest.raises(ValueError, match=r"1\.csv has column names, but .*4\.csv has none"):
        open_source([paths[3], paths[0]])


@pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
def test_a_missing_package_is_named(name, tmp_path, monkeypatch):
    (tmp_path / name).write_text("a,b\n1,2\n")
    for module in [key for key in sys.modules if key.partition(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r'pip install "bayespca\[io\]"'):
        open_source(tmp_path / name)


@pytest.mark.parametrize("given", [3, None, 2.5, np.sum])
def test_what_has_no_rows_at_all(given):
    with pytest.raises(TypeError, match="give an array, a table, a path or an iterable"):
        open_source(given)


@pytest.mark.parametrize("given", [np.zeros(3), np.zeros((2, 2, 2)), np.float64(3)])
def test_arrays_that_are_not_matrices(given):
    with pytest.raises(ValueError, match="two dimensions"):
        open_source(given)


@pytest.mark.parametrize("given", [[1, 2, 3], [[1, 2], [3, 4]], [np.zeros(3)]])
def test_blocks_that_are_not_matrices(given):
    with pytest.raises(ValueError, match=r"block 0 has . dimensions?, but must have two"):
        open_source(given)


def test_sparse_matrices_are_refused():
    with pytest.raises(TypeError, match="sparse matrix cannot be streamed"):
        open_source(sp.eye_array(3).tocsr())
    with pytest.raises(ValueError, match="block 0 is sparse"):
        open_source([sp.eye_array(3).tocsr()])


def test_a_single_column_of_a_table_is_refused():
    with pytest.raises(ValueError, match="got a single column"):
        open_source(pd.Series([1.0, 2.0]))
    with pytest.raises(ValueError, match="two dimensions"):
        open_source(pl.Series([1.0, 2.0]))
