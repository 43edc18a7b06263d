"""Dask collections as blocks of rows: chunking does not matter, and wrong chunks are named."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask.delayed import delayed
from hypothesis import given, settings
from hypothesis import strategies as st

from bayespca.sources.checks import IncompleteData, check_complete
from bayespca.sources.cluster import ClusterError, computed
from bayespca.sources.files import of_files
from bayespca.sources.partitions import is_dask, is_dask_table, partitioned, rows_joined
from bayespca.sources.tasks import array_of_rows, mapped, reduced


def total(block, weight=1.0):
    return block.sum(axis=0) * weight


def add(a, b):
    return a + b


def itself(block):
    return block


def checked(partitions):
    return computed(*mapped(partitions, itself))


def joined(partitions):
    return np.concatenate(checked(partitions))


@st.composite
def chunkings(draw, n):
    """Sizes of chunks that add up to n; some may be zero."""
    cuts = sorted(draw(st.lists(st.integers(0, n), max_size=4)))
    edges = [0, *cuts, n]
    return tuple(b - a for a, b in pairwise(edges))


@settings(max_examples=40, deadline=None)
@given(rows=chunkings(37), columns=chunkings(5), data=st.sampled_from(["f4", "f8", "i4", "?"]))
def test_blocks_are_the_rows_whatever_the_chunks(rows, columns, data):
    X = (10 * np.random.default_rng(0).normal(size=(37, 5))).astype(data)
    with dask.config.set(scheduler="synchronous"):
        found = partitioned(da.from_array(X, chunks=(rows, columns)))
        blocks = joined(found)
    assert found.n_samples == 37
    assert found.n_features == 5
    assert blocks.dtype == found.dtype == (np.float32 if data == "f4" else np.float64)
    assert np.array_equal(blocks, X.astype(found.dtype))


def test_unknown_chunk_sizes():
    X = np.random.default_rng(0).normal(size=(40, 4))
    x = da.from_array(X, chunks=(15, 3))
    found = partitioned(x[x[:, 0] > 0])
    assert found.lengths is None
    assert found.n_samples is None
    assert np.array_equal(joined(found), X[X[:, 0] > 0])


def test_a_wide_array_comes_as_columns_too():
    X = np.random.default_rng(0).normal(size=(4, 30))
    found = partitioned(da.from_array(X, chunks=(3, 7)))
    assert np.array_equal(joined(found.columns), X.T)
    assert found.columns.offsets == (0, 7, 14, 21, 28)
    assert partitioned(da.from_array(X, chunks=(3, 7)), wide=False).columns is None
    assert partitioned(da.from_array(X.T, chunks=(3, 7))).columns is None


def test_pieces_are_not_joined_to_blocks_of_any_size():
    x = da.zeros((10**7, 2000), chunks=(10**7, 100))
    found = rows_joined(x)
    assert found.numblocks[1] == 1
    assert max(found.chunks[0]) * 2000 * 8 <= 128 * 2**20


def test_a_table():
    table = pd.DataFrame(
        {"a": [1, 2, 3], "b": pd.array([1, None, 3], dtype="Int64"), "c": [True, False, True]}
    )
    found = partitioned(dd.from_pandas(table, npartitions=2))
    assert found.names == ("a", "b", "c")
    assert np.array_equal(joined(found), [[1, 1, 1], [2, np.nan, 0], [3, 3, 1]], equal_nan=True)
    short = dd.from_pandas(table[["a"]].astype(np.float32), npartitions=1)
    assert partitioned(short).dtype == np.float32


@pytest.mark.parametrize(
    ("X", "error", "words"),
    [
        (lambda: da.zeros(5), ValueError, "has 1 dimension"),
        (lambda: da.zeros((5, 5), dtype=complex), ValueError, "only real numbers"),
        (lambda: da.zeros((5, 5)).astype(str), ValueError, "only real numbers"),
        (lambda: da.zeros((5, 5), chunks=2)[:, da.arange(5, chunks=2) > 1], ValueError, "columns"),
        (lambda: delayed(np.zeros((5, 5))), TypeError, "Dask DelayedLeaf"),
        (
            lambda: dd.from_pandas(pd.DataFrame({"x": [1], "who": ["me"]}), npartitions=1),
            ValueError,
            "'who'",
        ),
        (lambda: dd.from_pandas(pd.DataFrame(index=[1, 2]), npartitions=1), ValueError, "columns"),
    ],
)
def test_what_is_no_matrix_of_numbers(X, error, words):
    with pytest.raises(error, match=words):
        partitioned(X())


def lying(change, n=4):
    """An array of n blocks of 10 × 3, whose third block is not what the array announces."""

    def block(i):
        values = np.full((10, 3), float(i))
        return change(values) if i == 2 else values

    parts = [da.from_delayed(delayed(block)(i), (10, 3), np.float64) for i in range(n)]
    return da.concatenate(parts)


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a: a[:, :2], r"block 2 .* has shape \(10, 2\), but 3 columns were declared"),
        (lambda a: a.astype(np.float32), "block 2 .* is of type float32, but float64 was"),
        (lambda a: a.astype(str), "block 2 .* is of type <U32, but float64"),
        (lambda a: a[:4], "block 2 .* has 4 rows, but 10 were declared"),
        (lambda a: a[0], r"block 2 .* has shape \(3,\)"),
    ],
)
def test_a_chunk_that_is_not_what_was_announced(scheduler, change, words):
    with dask.config.set(scheduler=scheduler), pytest.raises(ValueError, match=words):
        checked(partitioned(lying(change)))


def test_a_partition_that_is_not_what_was_announced():
    def make(columns):
        return pd.DataFrame({name: [0.5] for name in columns})

    meta = make("ab").iloc[:0]
    other = dd.from_delayed(
        [delayed(make)("ab"), delayed(make)("ac")], meta=meta, verify_meta=False
    )
    with pytest.raises(ValueError, match=r"partition 1 .*'b', 'c'"):
        checked(partitioned(other))
    texts = dd.from_delayed([delayed(make)("ab").astype(object)], meta=meta, verify_meta=False)
    with pytest.raises(ValueError, match=r"partition 0 .* type object in column 'a'"):
        checked(partitioned(texts))


@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes"])
def test_map_and_reduce_on_every_scheduler(scheduler):
    X = np.random.default_rng(0).normal(size=(100, 3))
    found = partitioned(da.from_array(X, chunks=(9, 2)))
    with dask.config.set(scheduler=scheduler):
        parts = mapped(found, total, np.array([1.0, 2.0, 3.0]))
        (answer,) = computed(reduced(parts, add, fan_in=3))
        with pytest.raises(ValueError, match="block 2"):
            checked(partitioned(lying(lambda a: a[:, :2])))
    assert answer == pytest.approx(X.sum(axis=0) * [1, 2, 3], rel=1e-12)


def test_the_tree_keeps_the_order_and_bounds_what_a_task_merges():
    found = partitioned(da.from_array(np.arange(50.0)[:, None], chunks=(1, 1)))
    merged = reduced(mapped(found, np.ravel), lambda a, b: np.concatenate([a, b]))
    assert np.array_equal(computed(merged)[0], np.arange(50.0))
    tasks = [task for key, task in dict(merged.dask).items() if "lambda" in str(key)]
    assert max(len(task) - 1 for task in tasks) <= 8
    assert len(tasks) == 7 + 1


def test_a_shared_value_is_one_node_of_the_graph():
    found = partitioned(da.zeros((1000, 3), chunks=(10, 3)))
    value = np.ones((500, 500))
    parts = mapped(found, lambda block, value: block, value)
    graph = dict(parts[0].dask)
    holders = [key for key, task in graph.items() if "ndarray" in str(key)]
    assert len(holders) == 1


def test_values_of_their_own_for_each_block():
    found = partitioned(da.zeros((30, 2), chunks=(10, 2)))
    parts = mapped(found, lambda block, i, by: i * by, 10, each=[range(3)])
    assert computed(*parts) == (0, 10, 20)


def test_a_lazy_array_of_rows():
    X = np.random.default_rng(0).normal(size=(30, 4))
    found = partitioned(da.from_array(X, chunks=((7, 23), (1, 3))))
    lazy = array_of_rows(found, np.square, like=np.zeros((1, 4)))
    assert lazy.chunks == ((7, 23), (4,))
    assert np.array_equal(lazy.compute(), X**2)
    assert np.array_equal(lazy[5:9, 1].compute(), X[5:9, 1] ** 2)


def test_where_the_first_hole_is():
    block = np.ones((3, 4))
    check_complete(block, 0, None, None)
    check_complete(np.full((3, 4), 1e300), 0, None, None)
    block[1, 2] = np.nan
    with pytest.raises(IncompleteData, match="row 1 of block 5, column 'c'") as caught:
        check_complete(block, 5, ["a", "b", "c", "d"], None)
    assert (caught.value.block, caught.value.column) == (5, 2)
    with pytest.raises(IncompleteData, match="row 2 of block 0, column 11"):
        check_complete(block, 0, None, 10)
    block[1, 2] = np.inf
    with pytest.raises(ValueError, match="infinity in row 1 of block 0, column 2"):
        check_complete(block, 0, None, None)


def test_what_is_of_dask():
    assert is_dask(da.zeros(3))
    assert not is_dask(np.zeros(3))
    assert not is_dask(pd.DataFrame())
    table = dd.from_pandas(pd.DataFrame({"x": [1]}), npartitions=1)
    assert is_dask_table(table)
    assert not is_dask_table(da.zeros(3))


def test_dask_is_not_imported_for_others():
    code = (
        "import sys, numpy as np; from bayespca import BayesianPCA; "
        "BayesianPCA().fit(np.random.default_rng(0).normal(size=(30, 4))); "
        "sys.exit('dask' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- files -------------------------------------------------------------------------------------


def write_parts(folder, n_parts=3, *, ending="csv"):
    rng = np.random.default_rng(0)
    tables = []
    for i in range(n_parts):
        table = pd.DataFrame(rng.normal(size=(40 + i, 3)).round(4), columns=list("abc"))
        table.insert(0, "id", [f"r{i}-{k}" for k in range(len(table))])
        table["text"] = "x"
        if ending == "csv":
            table.to_csv(folder / f"part-{i}.csv", index=False)
        else:
            table.to_parquet(folder / f"part-{i}.parquet", index=False, row_group_size=9)
        tables.append(table)
    return pd.concat(tables)[list("abc")].to_numpy()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("piece_bytes", [300, 2**25])
def test_files_in_pieces(tmp_path, monkeypatch, ending, piece_bytes):
    X = write_parts(tmp_path, ending=ending)
    monkeypatch.setattr(
        "bayespca.io.pieces.cut_up.__kwdefaults__", {"dtype": None, "piece_bytes": piece_bytes}
    )
    file, found = of_files(tmp_path / f"part-*.{ending}")
    assert found.names == ("a", "b", "c")
    assert file.layout.names[file.layout.id_column] == "id"
    assert np.array_equal(joined(found), X)
    assert (len(found.chunks) > 3) == (piece_bytes == 300)
    assert found.n_samples == (123 if ending == "parquet" else None)


def test_files_with_other_columns(tmp_path):
    write_parts(tmp_path)
    (tmp_path / "part-9.csv").write_text("id,a,b,d\nx,1,2,3\n")
    with pytest.raises(ValueError, match=r"part-9.csv and .*part-0.csv have different columns"):
        of_files(tmp_path / "part-*.csv")
    with pytest.raises(FileNotFoundError, match="no such file"):
        of_files(tmp_path / "other-*.csv")


def test_a_mistake_in_a_piece_is_named(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n" + "1,2\n" * 1000 + "3,oops\n")
    _, found = of_files(tmp_path / "x.csv")
    with pytest.raises(ValueError, match=r"line 1002, column 'b': 'oops' is not a number"):
        checked(found)


def test_compressed_and_quoted_files_are_one_piece(tmp_path):
    (tmp_path / "q.csv").write_text('a,"b"\n' + '1,"2"\n' * 50)
    _, found = of_files(tmp_path / "q.csv")
    assert len(found.chunks) == 1
    assert joined(found).shape == (50, 2)
    pd.DataFrame({"a": [1.5, 2.5], "b": [2.0, 1.0]}).to_csv(tmp_path / "z.csv.gz", index=False)
    assert np.array_equal(joined(of_files(tmp_path / "z.csv.gz")[1]), [[1.5, 2], [2.5, 1]])


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Exception("Tried sending message after closing.  Status: closed"), ClusterError),
        (TimeoutError("no answer"), ClusterError),
        (Exception("of a task"), Exception),
        (ValueError("Tried sending message after dinner"), ValueError),
    ],
)
def test_errors_of_the_cluster_and_of_tasks(error, expected):
    """Errors of a lost scheduler have different names in different versions."""

    def fails():
        raise error

    with dask.config.set(scheduler="synchronous"), pytest.raises(expected) as raised:
        computed(delayed(fails)())
    assert type(raised.value) is expected
    if expected is ClusterError:
        assert "connection to the Dask scheduler was lost" in str(raised.value)
