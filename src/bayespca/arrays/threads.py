"""Threads of the BLAS libraries. NumPy and SciPy each bring one, with threads of its own."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

from .namespaces import on_accelerator
from .types import Array


@cache
def _pools() -> Any:
    return ThreadpoolController().select(user_api="blas")


def blas_threads() -> int:
    """How many threads a product may use, as the environment or the user has set it."""
    return min((pool["num_threads"] for pool in _pools().info()), default=1)


def one_blas_thread() -> AbstractContextManager[Any]:
    """Let every BLAS call inside run on the thread that makes it.

    After a product on several threads these go on spinning for a while. On few cores the threads
    of another library have to wait for them, so that two threads are slower than one.
    """
    limited: AbstractContextManager[Any] = _pools().limit(limits=1)
    return limited


def beside(data: Array) -> AbstractContextManager[Any]:
    """What suits a host beside the data: one thread where they are on an accelerator.

    Its matrices are small then, and waking up threads for them takes longer than they do.
    """
    return one_blas_thread() if on_accelerator(data) else nullcontext()
