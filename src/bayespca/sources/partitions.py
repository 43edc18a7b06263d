"""Dask collections as blocks of whole rows: map over blocks, reduce in a tree, compute.

Everything here is lazy but `computed`. A task looks at its block before it uses it, so that a chunk
that is not what the collection announced is named. Dask is imported by nobody who was not handed
one of its collections.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate
from typing import Any, NoReturn
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.threads import one_blas_thread
from bayespca.io.files import files_of, open_files
from bayespca.io.layout import How
from bayespca.io.packages import need
from bayespca.io.pieces import Piece, cut_up
from bayespca.io.records import File, float_type

Block = NDArray[np.floating[Any]]
Delayed = Any

# Results that are merged by one task: few enough for a worker's memory.
FAN_IN = 8
# Blocks of rows that are put together from pieces are not made larger than this.
JOINED_BYTES = 128 * 2**20
# Graphs of this size are nothing to be warned of: they bring what every block is given.
LARGE_GRAPH = {"distributed.admin.large-graph-warning-threshold": "1GB"}


_WATCH: ContextVar[Callable[[Any], None] | None] = ContextVar("watch", default=None)


class ClusterError(ConnectionError):
    """A Dask cluster was lost, or could not do what it was asked; the message says what to do."""


class IncompleteBlock(ValueError):  # noqa: N818 - it is what was found, and a reason to go on
    """A block has NaN, which are holes. `block` and `column` say where the first was seen."""

    def __init__(self, message: str, block: int, column: int) -> None:
        super().__init__(message, block, column)
        self.block, self.column = block, column

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True, eq=False)
class Partitions:
    """A Dask collection as blocks of whole rows.

    Attributes
    ----------
    chunks
        One `Delayed` per block, which becomes what the collection holds there: an array or a
        table. `blocks` are the same as checked NumPy arrays.
    n_features
        Columns of every block.
    dtype
        float32 or float64: that of the blocks once they are read, and so of the results.
    stored
        The dtype that the chunks must have, or None for tables, whose columns have their own.
    names
        Column names, or None where the data have none.
    lengths
        Rows of each block, or None where Dask does not know them.
    divisors
        What the columns of each block are divided by, or None.
    columns
        The same data as blocks of whole columns, each column a row, where that is the better
        way to read them: there are more columns than rows.
    """

    chunks: tuple[Delayed, ...]
    n_features: int
    dtype: np.dtype[Any]
    stored: np.dtype[Any] | None = None
    names: tuple[str, ...] | None = None
    lengths: tuple[int, ...] | None = None
    divisors: tuple[Any, ...] | None = None
    columns: Partitions | None = None

    @property
    def blocks(self) -> tuple[Delayed, ...]:
        """One `Delayed` per block, which becomes a checked rows × columns array."""
        return tuple(mapped(self, _itself))

    @property
    def n_samples(self) -> int | None:
        """Number of rows, or None where Dask does not know it."""
        return None if self.lengths is None else sum(self.lengths)

    @property
    def offsets(self) -> tuple[int, ...] | None:
        """The row at which each block begins, or None."""
        return None if self.lengths is None else tuple(accumulate((0, *self.lengths)))[:-1]


def is_dask(X: Any) -> bool:
    """Whether X is one of Dask's collections, without importing Dask."""
    return any(base.__module__.partition(".")[0] == "dask" for base in type(X).__mro__)


def is_dask_table(X: Any) -> bool:
    """Whether X is a Dask DataFrame."""
    # Of the type: a Delayed claims to have every attribute.
    return is_dask(X) and hasattr(type(X), "map_partitions") and hasattr(type(X), "columns")


def partitioned(X: Any, *, wide: bool = True) -> Partitions:
    """A two-dimensional Dask array or a Dask DataFrame of numbers as blocks of whole rows.

    Arrays with more columns than rows come as blocks of whole columns as well, unless not `wide`.
    """
    if is_dask_table(X):
        return _of_table(X)
    if is_dask(X) and hasattr(type(X), "chunks") and hasattr(type(X), "to_delayed"):
        return _of_array(X, wide=wide)
    raise TypeError(
        f"a Dask {type(X).__name__} is neither an array nor a table: give a two-dimensional Dask "
        "array or a Dask DataFrame."
    )


def of_files(path: str | os.PathLike[str], how: How | None = None) -> tuple[File, Partitions]:
    """Parquet or CSV files that the workers read by themselves, piece by piece.

    `path` may have wildcards. The client reads no more than the heads of the files.
    """
    file, how = open_files(path, how), how or How()
    parts = [cut_up(one, how, dtype=file.dtype) for one in files_of(path)]
    pieces = [piece for part in parts for piece in part.pieces]
    known = [part.lengths for part in parts]
    names = file.layout.feature_names
    return file, Partitions(
        chunks=tuple(_layer("read", [(_read, piece) for piece in pieces])),
        n_features=len(file.layout.features),
        dtype=file.dtype,
        stored=file.dtype,
        names=None if names is None else tuple(names),
        lengths=None if None in known else tuple(n for lengths in known for n in lengths or ()),
    )


def _read(piece: Piece) -> Block:
    return piece.read()


def as_partitions(X: NDArray[Any]) -> Partitions:
    """An array in memory as Dask would cut it up."""
    return partitioned(_dask("array").from_array(X))


def _of_array(X: Any, *, wide: bool) -> Partitions:
    _check_array(X)
    rows = _rows_of(X)
    n, p = X.shape
    is_wide = wide and not np.isnan(n) and n < p
    return replace(rows, columns=_rows_of(X.T)) if is_wide else rows


def _check_array(X: Any) -> None:
    if X.ndim != 2:
        raise ValueError(
            f"the Dask array has {X.ndim} dimension{'s' * (X.ndim != 1)}, but must have two: rows "
            "are samples, columns are features."
        )
    if X.dtype is None or X.dtype.kind not in "fbiu":
        raise ValueError(f"the Dask array is of type {X.dtype}: only real numbers can be analysed.")
    if np.isnan(X.shape[1]):
        raise ValueError(
            "the number of columns of the Dask array is not known: call its compute_chunk_sizes() "
            "first."
        )


def rows_joined(X: Any) -> Any:
    """A Dask array with whole rows in every chunk; pieces are joined to chunks of modest size."""
    if X.numblocks[1] == 1:
        return X
    heights = X.chunks[0]
    if np.isnan(heights).any():
        return X.rechunk({1: -1})
    row_bytes = max(X.shape[1] * X.dtype.itemsize, 1)
    most = max(JOINED_BYTES // row_bytes, 1)
    split = [part for height in heights for part in _split(int(height), most)]
    return X.rechunk({0: tuple(split), 1: -1})


def _split(height: int, most: int) -> list[int]:
    n = max(-(-height // most), 1)
    return [height * (i + 1) // n - height * i // n for i in range(n)]


def _rows_of(X: Any) -> Partitions:
    X = rows_joined(X)
    heights = X.chunks[0]
    return Partitions(
        chunks=tuple(X.to_delayed(optimize_graph=True)[:, 0]),
        n_features=int(X.shape[1]),
        dtype=np.dtype(float_type(X.dtype)),
        stored=X.dtype,
        lengths=None if np.isnan(heights).any() else tuple(int(height) for height in heights),
    )


def _of_table(X: Any) -> Partitions:
    names = [str(name) for name in X.columns]
    for name, dtype in zip(names, X.dtypes, strict=True):
        if not _is_number(dtype):
            raise ValueError(
                f"column {name!r} of the Dask DataFrame is of type {dtype}, which is not a number: "
                "remove the column or turn it into numbers first."
            )
    if not names:
        raise ValueError("the Dask DataFrame has no columns.")
    is_short = all(dtype.kind == "f" and dtype.itemsize <= 4 for dtype in X.dtypes)
    return Partitions(
        chunks=tuple(X.to_delayed(optimize_graph=True)),
        n_features=len(names),
        dtype=np.dtype(np.float32 if is_short else np.float64),
        names=tuple(names),
    )


def _is_number(dtype: Any) -> bool:
    """Whether a column of this type, NumPy's or pandas', holds numbers."""
    return getattr(dtype, "kind", "O") in "fbiu"


# --- what a task sees --------------------------------------------------------------------------


@dataclass(frozen=True)
class Expected:
    """What all blocks were announced to be."""

    n_features: int
    dtype: np.dtype[Any]
    stored: np.dtype[Any] | None
    names: tuple[str, ...] | None


def block_of(chunk: Any, expected: Expected, i: int, length: int | None) -> Block:
    """A chunk as a rows × columns array; raise with its number if it is not what was announced."""
    p = expected.n_features
    if expected.stored is None:
        return _block_of_table(chunk, expected, i)
    values = np.asarray(chunk)
    if values.ndim != 2 or values.shape[1] != p:
        raise ValueError(
            f"block {i} of the Dask array (counting from 0) has shape {values.shape}, but {p} "
            "columns were announced: look at what makes this chunk."
        )
    if values.dtype != expected.stored:
        raise ValueError(
            f"block {i} of the Dask array (counting from 0) is of type {values.dtype}, but "
            f"{expected.stored} was announced: convert the array with astype, or give the right "
            "dtype or meta where it is made."
        )
    if length is not None and len(values) != length:
        raise ValueError(
            f"block {i} of the Dask array (counting from 0) has {len(values)} rows, but "
            f"{length} were announced: look at what makes this chunk."
        )
    return values.astype(expected.dtype, copy=False)


def _block_of_table(chunk: Any, expected: Expected, i: int) -> Block:
    names = [str(name) for name in chunk.columns]
    if names != list(expected.names or ()):
        odd = sorted(set(names) ^ set(expected.names or ()))
        which = f"the columns {odd[:3]} differ" if odd else "their order differs"
        raise ValueError(
            f"partition {i} of the Dask DataFrame (counting from 0) has {len(names)} columns that "
            f"are not those announced ({which}): look at what makes this partition."
        )
    for name, dtype in zip(names, chunk.dtypes, strict=True):
        if not _is_number(dtype):
            raise ValueError(
                f"partition {i} of the Dask DataFrame (counting from 0) has values of type {dtype} "
                f"in column {name!r}, which are not numbers: look at what makes this partition."
            )
    values = chunk.to_numpy(dtype=expected.dtype, na_value=np.nan)
    return np.asarray(values)


def _itself(block: Block) -> Block:
    return block


@dataclass(frozen=True)
class Step:
    """A function of a block as one task: read, check, divide, apply.

    One task, not four, so that no copy of the block waits in a worker's memory in between.
    """

    function: Callable[..., Any]

    def __call__(
        self, chunk: Any, expected: Expected, i: int, length: int | None, divisor: Any, *rest: Any
    ) -> Any:
        block = block_of(chunk, expected, i, length)
        return self.function(block if divisor is None else block / divisor, *rest)


def check_complete(block: Block, i: int, names: Sequence[str] | None, first: int | None) -> None:
    """Raise with the place of the first NaN or infinity; NaN are holes.

    With `first`, rows of the block are columns of the data, and that is the number of its first.
    """
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        flat = block.reshape(-1, order="A") if block.flags.forc else None
        total = block.sum() if flat is None else flat @ flat
    if np.isfinite(total):
        return
    wrong = ~np.isfinite(block)
    if not wrong.any():
        return
    is_nan = np.isnan(block)
    at = np.argwhere(is_nan if is_nan.any() else wrong)[0]
    row, column = (int(k) for k in (at if first is None else at[::-1]))
    column += first or 0
    where = f"row {row} of block {i}, column {repr(names[column]) if names else column}"
    if is_nan.any():
        raise IncompleteBlock(
            f"the Dask collection has NaN in {where} (counting from 0): fill or drop such rows "
            "first.",
            i,
            column,
        )
    raise ValueError(
        f"the Dask collection has infinity in {where} (counting from 0): remove or replace what is "
        "not a finite number."
    )


# --- map, reduce, compute ----------------------------------------------------------------------


def mapped(
    partitions: Partitions,
    function: Callable[..., Any],
    *broadcast: Any,
    each: Iterable[Sequence[Any]] = (),
) -> list[Delayed]:
    """function(block, *what is given for this block, *broadcast) for every block.

    `broadcast` values reach the workers once, whatever the number of blocks. `each` holds sequences
    with one value, or `Delayed`, per block.
    """
    return _layer(_name(function), _tasks(partitions, function, broadcast, each))


def _tasks(
    partitions: Partitions,
    function: Callable[..., Any],
    broadcast: Sequence[Any],
    each: Iterable[Sequence[Any]] = (),
) -> list[tuple[Any, ...]]:
    n = len(partitions.chunks)
    expected = sent(
        Expected(partitions.n_features, partitions.dtype, partitions.stored, partitions.names)
    )
    shared = [sent(value) for value in broadcast]
    own = list(zip(*each, strict=True)) or [()] * n
    divisors = partitions.divisors or (None,) * n
    lengths = partitions.lengths or (None,) * n
    step = Step(function)
    return [
        (step, chunk, expected, i, lengths[i], divisors[i], *own[i], *shared)
        for i, chunk in enumerate(partitions.chunks)
    ]


def mapped_parts(
    function: Callable[..., Any],
    *parts: Sequence[Any],
    leading: Sequence[Any] = (),
    broadcast: Sequence[Any] = (),
) -> list[Delayed]:
    """function(*leading, one of each of `parts`, *broadcast), block by block of earlier results."""
    return _layer(_name(function), _tasks_of_parts(function, parts, leading, broadcast))


def _tasks_of_parts(
    function: Callable[..., Any],
    parts: Sequence[Sequence[Any]],
    leading: Sequence[Any],
    broadcast: Sequence[Any],
) -> list[tuple[Any, ...]]:
    shared = [sent(value) for value in broadcast]
    return [(function, *leading, *own, *shared) for own in zip(*parts, strict=True)]


def reduced(
    parts: Sequence[Delayed], merge: Callable[[Any, Any], Any], *, fan_in: int = FAN_IN
) -> Delayed:
    """The parts merged two by two, in a tree of tasks that take `fan_in` of them each."""
    if not parts:
        raise ValueError("there is nothing to merge: the Dask collection has no blocks.")
    task, level = Merge(merge), list(parts)
    while len(level) > 1:
        groups = [level[i : i + fan_in] for i in range(0, len(level), fan_in)]
        level = _layer(_name(merge), [(task, *group) for group in groups])
    return level[0]


def array_of_rows(
    partitions: Partitions,
    function: Callable[..., Any],
    *broadcast: Any,
    like: NDArray[Any],
    each: Iterable[Sequence[Any]] = (),
) -> Any:
    """What `mapped` makes of the blocks, below each other, as a lazy Dask array.

    `like` is what the function makes of some rows: of its type and number of columns.
    """
    tasks = _tasks(partitions, function, broadcast, each)
    return _array(_name(function), tasks, partitions.lengths, like)


def array_of_parts(
    parts: Sequence[Delayed], function: Callable[..., Any], *broadcast: Any, like: NDArray[Any]
) -> Any:
    """The same for what `mapped_parts` makes of parts, whose numbers of rows are not known."""
    tasks = _tasks_of_parts(function, (parts,), (), broadcast)
    return _array(_name(function), tasks, None, like)


def _array(
    name: str,
    tasks: Sequence[tuple[Any, ...]],
    lengths: Sequence[int] | None,
    like: NDArray[Any],
) -> Any:
    parts = _layer(name, tasks, tail=(0,) * (like.ndim - 1))
    heights = tuple(lengths or [np.nan] * len(parts))
    return _dask("array").Array(
        parts[0].dask,
        parts[0].key[0],
        chunks=(heights, *((n,) for n in like.shape[1:])),
        meta=np.empty((0,) * like.ndim, like.dtype),
    )


def stacked(arrays: Sequence[Any]) -> Any:
    """Dask arrays of one shape behind each other."""
    # Blocks of unknown length are those of the same collection.
    return _dask("array").stack(arrays, allow_unknown_chunksizes=True)


def _layer(
    name: str, tasks: Sequence[tuple[Any, ...]], *, tail: tuple[int, ...] = ()
) -> list[Delayed]:
    """Tasks (function, *arguments) as one layer of Dask's graph, with keys (name, number, *tail).

    `dask.delayed` would make a layer for each of them, which takes minutes for some thousands.
    """
    delayed, graphs = _dask("delayed"), _dask("highlevelgraph")
    name = f"{name}-{uuid4().hex}"
    found: dict[int, Any] = {}
    layer = {}
    for i, (function, *arguments) in enumerate(tasks):
        keys = []
        for argument in arguments:
            if isinstance(argument, delayed.Delayed):
                # Those of one layer share a graph: one of them brings all. The graph of a bare
                # value is made anew whenever it is asked for, and says nothing.
                graph = argument.dask
                found.setdefault(id(graph if graph is argument.dask else argument), argument)
                keys.append(argument.key)
            else:
                keys.append(argument)
        layer[name, i, *tail] = (function, *keys)
    whole = graphs.HighLevelGraph.from_collections(name, layer, dependencies=list(found.values()))
    return [delayed.Delayed(key, whole, layer=name) for key in layer]


def _name(function: Callable[..., Any]) -> str:
    """What Dask's displays call a task."""
    return str(getattr(function, "__name__", type(function).__name__)).strip("_")


@dataclass(frozen=True)
class Merge:
    """A function of two as one of several."""

    function: Callable[[Any, Any], Any]

    def __call__(self, *parts: Any) -> Any:
        return reduce(self.function, parts)


def sent(value: Any) -> Delayed:
    """A value as one task that others depend on, so that it is not part of each of them.

    It goes with the graph, so that it can be had again when a worker is lost. Scattered to all
    workers it would be gone with them, and Dask waits for ever when one is lost meanwhile.
    """
    return _dask("delayed").delayed(value, pure=False, traverse=False)


def computed(*delayed: Delayed) -> tuple[Any, ...]:
    """The values, from whatever scheduler is active; one sentence if it is lost.

    BLAS keeps to one thread where tasks run on threads of this process: they share its cores.
    """
    watch, client = _WATCH.get(), _client()
    with _explained(), one_blas_thread(), _dask("config").set(LARGE_GRAPH):
        if watch is None or client is None:
            return tuple(_dask("base").compute(*delayed))
        futures = client.compute(list(delayed))
        watch(futures)
        return tuple(client.gather(futures))


@contextmanager
def watched(watch: Callable[[Any], None] | None) -> Iterator[None]:
    """Have `watch` called with the futures of what is computed on a cluster, as it begins.

    With None nobody is told: for the many small passes of an iteration.
    """
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)


def kept(delayed: Sequence[Delayed]) -> list[Delayed]:
    """The same tasks, started, with results that stay where they are until nobody holds them."""
    persist = _dask("base").persist
    with _explained(), one_blas_thread(), _dask("config").set(LARGE_GRAPH):
        return list(persist(*delayed))


def _client() -> Any:
    """The client of the cluster that would compute now, or None."""
    schedule = _dask("base").get_scheduler()
    owner = getattr(schedule, "__self__", None)
    return owner if hasattr(owner, "scatter") else None


@contextmanager
def _explained() -> Iterator[None]:
    """Errors of the cluster as sentences; errors of the tasks as they were raised there."""
    try:
        yield
    except Exception as error:
        _explain(error)


def _explain(error: Exception) -> NoReturn:
    kinds = {base.__name__ for base in type(error).__mro__}
    module = type(error).__module__.partition(".")[0]
    if "KilledWorker" in kinds:
        raise ClusterError(
            "the same task was lost with several Dask workers, most likely for want of memory: "
            "make chunks smaller, or give the workers more memory."
        ) from error
    lost = {
        *("FutureCancelledError", "CancelledError", "CommClosedError", "TimeoutError"),
        "ClosedClientError",
    }
    # What is a ClosedClientError now had no name of its own before.
    unnamed = type(error) is Exception and str(error).startswith("Tried sending message after")
    at_fault = module == "distributed" and isinstance(error, OSError | RuntimeError)
    if kinds & lost or unnamed or at_fault:
        raise ClusterError(
            "the connection to the Dask scheduler was lost, and nothing was fitted: see that the "
            "cluster runs, connect a new Client, and fit again."
        ) from error
    if "BrokenProcessPool" in kinds:
        raise ClusterError(
            "a process of Dask's scheduler 'processes' ended, most likely for want of memory: make "
            "chunks smaller, or use fewer processes."
        ) from error
    # The multiprocessing scheduler adds the traceback of the process to the message.
    inner = getattr(error, "exception", None)
    raise inner if isinstance(inner, Exception) else error


def _dask(module: str) -> Any:
    return need(f"dask.{module}", "computing with Dask")
