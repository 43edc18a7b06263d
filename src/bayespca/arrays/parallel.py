"""Blocks of rows on several threads, with results in the order of the blocks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, pairwise
from typing import TypeVar

import numpy as np

from .threads import blas_threads, one_blas_thread

Item = TypeVar("Item")
Result = TypeVar("Result")

# With fewer cells than this, starting threads takes longer than the work.
FEW_CELLS = 1 << 15


def in_turn(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Yield work(item) for each item in order, on as many threads as BLAS may use.

    Each thread computes its products by itself: neither BLAS nor compiled loops then wait for the
    threads of the other, and sums over the results do not depend on the number of threads. With too
    few items for that, products are left to the threads of BLAS.
    """
    threads = blas_threads()
    if threads == 1 or len(items) < 2 * threads:
        yield from map(work, items)
        return
    coming = iter(items)
    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        waiting = deque(pool.submit(work, item) for item in islice(coming, threads + 1))
        while waiting:
            result = waiting.popleft().result()
            waiting.extend(pool.submit(work, item) for item in islice(coming, 1))
            yield result


def by_shares(
    work: Callable[[slice], Result], n_rows: int, *, cells_per_row: int = FEW_CELLS
) -> list[Result]:
    """work(rows) for a share of the rows on each of as many threads as BLAS may use.

    Rows with few cells in all stay on this thread.
    """
    threads = 1 if n_rows * cells_per_row < FEW_CELLS else blas_threads()
    edges = np.linspace(0, n_rows, threads + 1).astype(int)
    shares = [slice(i, j) for i, j in pairwise(edges.tolist()) if j > i]
    if len(shares) < 2:
        return [work(slice(0, n_rows))]
    with one_blas_thread(), ThreadPoolExecutor(len(shares)) as pool:
        return list(pool.map(work, shares))
