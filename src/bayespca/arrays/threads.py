"""Threads of the BLAS libraries. NumPy and SciPy each bring one, with threads of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

from .namespaces import on_accelerator
from .types import Array


@cache
def _pools() -> Any:
    return ThreadpoolController().select(user_api="blas")


# Number of threads allowed before `one_blas_thread`: loops that share work among their own threads
# may still use as many. Their threads have 1, and do not share their work.
_allowed: ContextVar[int | None] = ContextVar("_allowed", default=None)


def blas_threads() -> int:
    """Number of threads that may be used, as set by the environment or the user."""
    allowed = _allowed.get()
    return _set_threads() if allowed is None else allowed


def _set_threads() -> int:
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
