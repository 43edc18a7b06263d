"""Map over blocks and reduce in a tree: layers of Dask's graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias, TypeVar
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import Input, Numbers

from .checks import Expected, UnusableData, block_of
from .cluster import computed, dask_module
from .records import DaskArray, Delayed, Partitions

# A function that workers call on a block or on earlier results; one that merges two of its results;
# a task of Dask's graph: such a function and its arguments.
Function: TypeAlias = Callable[..., Any]
Merging: TypeAlias = Callable[[Any, Any], Any]
Task: TypeAlias = tuple[Any, ...]

# Number of results that one task merges: few enough for a worker's memory.
FAN_IN = 8

Total = TypeVar("Total")


def mapped(
    partitions: Partitions,
    function: Function,
    *broadcast: object,
    each: Iterable[Sequence[object]] = (),
) -> list[Delayed]:
    """function(block, *values of `each` for this block, *broadcast) for every block.

    `broadcast` values reach the workers once, whatever the number of blocks. `each` holds sequences
    with one value, or `Delayed`, per block.
    """
    return layer(_name(function), _tasks(partitions, function, broadcast, each))


def mapped_parts(
    function: Function,
    *parts: Sequence[object],
    leading: Sequence[object] = (),
    broadcast: Sequence[object] = (),
) -> list[Delayed]:
    """function(*leading, one of each of `parts`, *broadcast), block by block of earlier results."""
    return layer(_name(function), _tasks_of_parts(function, parts, leading, broadcast))


def reduced(parts: Sequence[Delayed], merge: Merging, *, fan_in: int = FAN_IN) -> Delayed:
    """The parts merged two by two, in a tree of tasks that take `fan_in` of them each."""
    if not parts:
        raise UnusableData("there is nothing to merge: the Dask collection has no blocks.")
    task, level = Merge(merge), list(parts)
    while len(level) > 1:
        groups = [level[i : i + fan_in] for i in range(0, len(level), fan_in)]
        level = layer(_name(merge), [(task, *group) for group in groups])
    return level[0]


def total_over(blocks: tuple[Delayed, ...], sums: Callable[..., Total], *given: object) -> Total:
    """The total over all blocks of what `sums` returns for each."""
    found: Total = computed(reduced(mapped_parts(sums, blocks, broadcast=given), added))[0]
    return found


def added(first: Total, second: Total) -> Total:
    """Add sums over some rows and over the next ones: numbers, arrays, lists, or tuples of them."""
    if isinstance(first, tuple):
        merged = [added(a, b) for a, b in zip(first, second, strict=True)]  # type: ignore[call-overload]
        return type(first)(*merged) if hasattr(first, "_fields") else tuple(merged)  # type: ignore[return-value]
    return first + second  # type: ignore[operator]


class SomeRows(NamedTuple):
    """Rows, their places among all rows, and whether they are all of them."""

    rows: NDArray[Any]
    places: NDArray[np.intp]
    are_all: bool


def every_nth(X: Partitions, step: int) -> SomeRows:
    """Every `step`-th row; counted within each block where heights are not known."""
    starts = first_of_blocks(X.offsets or [0] * len(X.chunks), step)
    found = computed(*mapped(X, _every_nth, step, each=[starts]))
    begins = accumulate((length for length, _ in found), initial=0)
    places = [
        begin + np.arange(start, length, step)
        for begin, start, (length, _) in zip(begins, starts, found, strict=False)
    ]
    rows = np.concatenate([rows for _, rows in found])
    return SomeRows(rows, np.concatenate(places), step == 1)


def first_of_blocks(offsets: Sequence[int], step: int) -> list[int]:
    """Place in each block of the first row whose number is a multiple of the step."""
    return [-offset % step for offset in offsets]


def _every_nth(block: NDArray[Any], start: int, step: int) -> tuple[int, NDArray[Any]]:
    return len(block), block[start::step].copy()


def array_of_rows(
    partitions: Partitions,
    function: Function,
    *broadcast: object,
    like: Numbers,
    each: Iterable[Sequence[object]] = (),
) -> DaskArray:
    """The results of `mapped`, one below the other, as a lazy Dask array.

    `like` is an example of a result: it has the dtype and the number of columns.
    """
    tasks = _tasks(partitions, function, broadcast, each)
    return _array(_name(function), tasks, partitions.lengths, like)


def array_of_parts(
    parts: Sequence[Delayed], function: Function, *broadcast: object, like: Numbers
) -> DaskArray:
    """`array_of_rows` for results of `mapped_parts`, whose numbers of rows are not known."""
    tasks = _tasks_of_parts(function, (parts,), (), broadcast)
    return _array(_name(function), tasks, None, like)


def stacked(arrays: Sequence[DaskArray]) -> DaskArray:
    """Dask arrays of one shape, stacked along a new first axis."""
    # Blocks of unknown length agree, because they come from the same collection.
    return dask_module("array").stack(arrays, allow_unknown_chunksizes=True)


@dataclass(frozen=True)
class Step:
    """A function of a block as one task: read, check, divide, apply.

    One task, not four, so that no copy of the block waits in a worker's memory in between.
    """

    function: Function

    def __call__(
        self,
        chunk: Input,
        expected: Expected,
        i: int,
        length: int | None,
        divisor: Numbers | None,
        *rest: object,
    ) -> Any:
        block = block_of(chunk, expected, i, length)
        return self.function(block if divisor is None else block / divisor, *rest)


@dataclass(frozen=True)
class Merge:
    """A function of two arguments, applied to several in turn."""

    function: Merging

    def __call__(self, *parts: Any) -> Any:
        return reduce(self.function, parts)


def sent(value: object) -> Delayed:
    """A value as one task that others depend on, so that it is not part of each of them.

    It travels with the graph, so it can be restored when a worker is lost. Scattered to all workers
    it would be lost with them, and Dask waits forever when one is lost meanwhile.
    """
    return dask_module("delayed").delayed(value, pure=False, traverse=False)


def _tasks(
    partitions: Partitions,
    function: Function,
    broadcast: Sequence[object],
    each: Iterable[Sequence[object]] = (),
) -> list[Task]:
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


def _tasks_of_parts(
    function: Function,
    parts: Sequence[Sequence[object]],
    leading: Sequence[object],
    broadcast: Sequence[object],
) -> list[Task]:
    shared = [sent(value) for value in broadcast]
    return [(function, *leading, *own, *shared) for own in zip(*parts, strict=True)]


def _array(
    name: str,
    tasks: Sequence[Task],
    lengths: Sequence[int] | None,
    like: Numbers,
) -> DaskArray:
    parts = layer(name, tasks, tail=(0,) * (like.ndim - 1))
    heights = tuple(lengths or [np.nan] * len(parts))
    return dask_module("array").Array(
        parts[0].dask,
        parts[0].key[0],
        chunks=(heights, *((n,) for n in like.shape[1:])),
        meta=np.empty((0,) * like.ndim, like.dtype),
    )


def layer(name: str, tasks: Sequence[Task], *, tail: tuple[int, ...] = ()) -> list[Delayed]:
    """Tasks (function, *arguments) as one layer of Dask's graph, with keys (name, number, *tail).

    `dask.delayed` would make a layer for each of them, which takes minutes for some thousands.
    """
    delayed, graphs = dask_module("delayed"), dask_module("highlevelgraph")
    name = f"{name}-{uuid4().hex}"
    found: dict[int, Delayed] = {}
    layer = {}
    for i, (function, *arguments) in enumerate(tasks):
        keys = []
        for argument in arguments:
            if isinstance(argument, delayed.Delayed):
                # Those of one layer share a graph: one of them brings all. The graph of a bare
                # value is a new object at each access, and identifies nothing.
                graph = argument.dask
                found.setdefault(id(graph if graph is argument.dask else argument), argument)
                keys.append(argument.key)
            else:
                keys.append(argument)
        layer[name, i, *tail] = (function, *keys)
    whole = graphs.HighLevelGraph.from_collections(name, layer, dependencies=list(found.values()))
    return [delayed.Delayed(key, whole, layer=name) for key in layer]


def _name(function: Function) -> str:
    """The name of a task in Dask's displays."""
    return str(getattr(function, "__name__", type(function).__name__)).strip("_")
