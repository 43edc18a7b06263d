"""Blocks of rows on several threads, with results in the order of the blocks."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import islice, pairwise
from typing import TypeVar

import numpy as np

from .threads import blas_threads, one_blas_thread, without_own_threads

Item = TypeVar("Item")
Result = TypeVar("Result")

# One thread reads so many cells in three milliseconds; with fewer, more threads gain nothing.
FEW_CELLS = 1 << 20


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Threads that stay: to start them would take longer than many a piece of work."""
    return ThreadPoolExecutor(threads, "bayespca", without_own_threads)


if hasattr(os, "register_at_fork"):
    # A child process has none of the threads.
    os.register_at_fork(after_in_child=_pool.cache_clear)


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
    coming, pool = iter(items), _pool(threads)
    with one_blas_thread():
        waiting = deque(pool.submit(work, item) for item in islice(coming, threads + 1))
        try:
            while waiting:
                result = waiting.popleft().result()
                waiting.extend(pool.submit(work, item) for item in islice(coming, 1))
                yield result
        finally:
            wait([task for task in waiting if not task.cancel()])


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
    with one_blas_thread():
        tasks = [_pool(threads).submit(work, share) for share in shares[1:]]
        try:
            return [work(shares[0]), *(task.result() for task in tasks)]
        finally:
            wait(tasks)
