"""Computing with Dask's active scheduler: computations can be watched, and failures are explained.

Dask is imported only where one of its collections was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

from bayespca.arrays.parallel import one_blas_thread
from bayespca.io.packages import need

from .records import Delayed

# Graphs up to this size need no warning: they carry the values that every block is given.
LARGE_GRAPH = {"distributed.admin.large-graph-warning-threshold": "1GB"}
_WATCH: ContextVar[Callable[[Any], None] | None] = ContextVar("watch", default=None)


class ClusterError(ConnectionError):
    """A Dask cluster was lost, or could not finish its work; the message says what to do."""


def computed(*delayed: Delayed) -> tuple[Any, ...]:
    """The values, computed by the active scheduler; raises `ClusterError` if it is lost.

    BLAS keeps to one thread where tasks run on threads of this process: they share its cores.
    """
    watch = _WATCH.get()
    owner = getattr(dask_module("base").get_scheduler(), "__self__", None)
    client = owner if hasattr(owner, "scatter") else None
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
    """Start the tasks; their results stay where they are until nobody holds them."""
    persist = dask_module("base").persist
    with _explained(), one_blas_thread(), dask_module("config").set(LARGE_GRAPH):
        return list(persist(*delayed))


@contextmanager
def _explained() -> Iterator[None]:
    """Turn errors of the cluster into `ClusterError`; raise errors of tasks as they were."""
    try:
        yield
    except Exception as error:
        _explain(error)


def _explain(error: Exception) -> NoReturn:
    kinds = {base.__name__ for base in type(error).__mro__}
    module = type(error).__module__.partition(".")[0]
    if "KilledWorker" in kinds:
        raise ClusterError(
            "the same task was lost with several Dask workers, most likely because they ran out of "
            "memory: make chunks smaller, or give the workers more memory."
        ) from error
    lost = {
        *("FutureCancelledError", "CancelledError", "CommClosedError", "TimeoutError"),
        "ClosedClientError",
    }
    # Older versions raise a plain Exception in place of ClosedClientError.
    unnamed = type(error) is Exception and str(error).startswith("Tried sending message after")
    at_fault = module == "distributed" and isinstance(error, OSError | RuntimeError)
    if kinds & lost or unnamed or at_fault:
        raise ClusterError(
            "the connection to the Dask scheduler was lost, and nothing was fitted: check that the "
            "cluster is running, connect a new Client, and fit again."
        ) from error
    if "BrokenProcessPool" in kinds:
        raise ClusterError(
            "a process of Dask's scheduler 'processes' ended, most likely because it ran out of "
            "memory: make chunks smaller, or use fewer processes."
        ) from error
    # The multiprocessing scheduler adds the traceback of the process to the message.
    inner = getattr(error, "exception", None)
    raise inner if isinstance(inner, Exception) else error


def dask_module(module: str) -> Any:
    return need(f"dask.{module}", "computing with Dask")
