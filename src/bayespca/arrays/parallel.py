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


def by_shares(work: Callable[[slice], Result], n_rows: int) -> list[Result]:
    """work(rows) for a share of the rows on each of as many threads as BLAS may use."""
    edges = np.linspace(0, n_rows, blas_threads() + 1).astype(int)
    shares = [slice(i, j) for i, j in pairwise(edges.tolist()) if j > i]
    with one_blas_thread(), ThreadPoolExecutor(len(shares)) as pool:
        return list(pool.map(work, shares))
