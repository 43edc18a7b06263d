"""Blocks of rows on several threads, with results in the order of the blocks."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from itertools import islice, pairwise
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from .namespaces import on_accelerator
from .types import Array

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


@cache
def _pools() -> Any:
    return ThreadpoolController().select(user_api="blas")


# Number of threads allowed before `one_blas_thread`: loops that share work among their own threads
# may still use as many. Their threads have 1, and do not share their work.
_allowed: ContextVar[int | None] = ContextVar("_allowed", default=None)


def blas_threads() -> int:
    """Number of threads that may be used, as set by the environment or the user."""
    allowed = _allowed.get()
    if allowed is not None:
        return allowed
    return min((pool["num_threads"] for pool in _pools().info()), default=1)


def without_own_threads() -> None:
    """Let the thread that calls this share its work with no others."""
    _allowed.set(1)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let every BLAS call inside run on the thread that makes it.

    After a product on several threads, these keep spinning for a while. On few cores the threads of
    another library have to wait for them, so two threads are slower than one.
    """
    before = _allowed.get()
    _allowed.set(blas_threads())
    try:
        with _pools().limit(limits=1):
            yield
    finally:
        # Not reset by a token: a generator that is dropped may end in another thread.
        _allowed.set(before)


def beside(data: Array) -> AbstractContextManager[Any]:
    """Context for work on the host: one BLAS thread where the data are on an accelerator.

    The host's matrices are then so small that waking up threads takes longer than the work.
    """
    return one_blas_thread() if on_accelerator(data) else nullcontext()
