"""Dask, asked to compute: whatever scheduler is active, watched, its failures explained.

Dask is imported by nobody who was not handed one of its collections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

from bayespca.arrays.threads import one_blas_thread
from bayespca.io.packages import need

from .records import Delayed

# Graphs of this size are nothing to be warned of: they bring what every block is given.
LARGE_GRAPH = {"distributed.admin.large-graph-warning-threshold": "1GB"}
_WATCH: ContextVar[Callable[[Any], None] | None] = ContextVar("watch", default=None)


class ClusterError(ConnectionError):
    """A Dask cluster was lost, or could not do what it was asked; the message says what to do."""


def computed(*delayed: Delayed) -> tuple[Any, ...]:
    """The values, from whatever scheduler is active; one sentence if it is lost.

    BLAS keeps to one thread where tasks run on threads of this process: they share its cores.
    """
    watch, client = _WATCH.get(), _client()
    with _explained(), one_blas_thread(), dask_module("config").set(LARGE_GRAPH):
        if watch is None or client is None:
            return tuple(dask_module("base").compute(*delayed))
        futures = client.compute(list(delayed))
        watch(futures)
        return tuple(client.gather(futures))


@contextmanager
def watched(watch: Callable[[Any], None] | None) -> Iterator[None]:
    """Call `watch` with the futures of each computation on a cluster, as it begins.

    None turns this off, for the many small passes of an iteration.
    """
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)


def kept(delayed: Sequence[Delayed]) -> list[Delayed]:
    """The same tasks, started, with results that stay where they are until nobody holds them."""
    persist = dask_module("base").persist
    with _explained(), one_blas_thread(), dask_module("config").set(LARGE_GRAPH):
        return list(persist(*delayed))


def _client() -> Any:
    """The client of the cluster that would compute now, or None."""
    schedule = dask_module("base").get_scheduler()
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


def dask_module(module: str) -> Any:
    return need(f"dask.{module}", "computing with Dask")
