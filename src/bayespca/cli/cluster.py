"""`--dask` and `--workers`: files that are read by the workers of a Dask cluster."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

from bayespca.io.packages import need
from bayespca.io.records import How
from bayespca.sources.cluster import watched
from bayespca.sources.files import of_files
from bayespca.sources.records import Partitions

from .inputs import Input, open_input
from .progress import progress

T = TypeVar("T")

# Seconds to wait for an answer of the scheduler.
PATIENCE = 10


@dataclass(frozen=True)
class DaskCluster:
    """Place of computation: a scheduler's address, local processes, or this process if neither."""

    address: str | None = None
    workers: int | None = None

    @contextmanager
    def opened(self, path: Path, how: How, *, stream: bool | None) -> Iterator[Input]:
        """A context with the input of a command."""
        if not self.is_given:
            yield open_input(path, how, stream=stream)
            return
        self.check()
        if stream is not None:
            raise ValueError(
                "--stream and --in-memory say how this process reads files, but the workers of a "
                "Dask cluster read them: leave them out."
            )
        need("dask.array", "computing with Dask")
        file, partitions = of_files(path, how)
        with self.connected():
            yield ClusterInput(file, None, partitions)

    @property
    def is_given(self) -> bool:
        return self.address is not None or self.workers is not None

    def check(self) -> None:
        if self.address is not None and self.workers is not None:
            raise ValueError(
                "--dask is for a cluster that runs already, --workers starts one here: give only "
                "one of them."
            )

    @contextmanager
    def connected(self) -> Iterator[None]:
        """A context in which Dask computes on the cluster."""
        distributed = need("distributed", "computing with Dask")
        if self.workers is not None:
            with (
                distributed.LocalCluster(
                    n_workers=self.workers,
                    threads_per_worker=1,
                    dashboard_address="127.0.0.1:0",
                    silence_logs=logging.CRITICAL,
                ) as local,
                distributed.Client(local),
            ):
                yield
            return
        with _client(distributed, str(self.address)):
            yield


def _client(distributed: Any, address: str) -> Any:
    try:
        # An invalid address would leave behind a client that never connects but that Dask uses as
        # the default one.
        distributed.comm.resolve_address(address)
        return distributed.Client(address, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"no Dask scheduler answers at {address} within {PATIENCE} seconds: see that "
            "`dask scheduler` runs there and that the address is the one it prints."
        ) from error


@dataclass(frozen=True)
class ClusterInput(Input):
    """Files that the workers of a cluster read."""

    partitions: Partitions

    @property
    def how_read(self) -> str:
        n = len(self.partitions.chunks)
        return f"The data were read by Dask, in {n} block{'s' * (n != 1)}."

    def apply(self, what: str, work: Callable[[Any], T]) -> T:
        """The result of a function of the partitions; a terminal shows Dask's progress bar."""
        if not Console(file=sys.stderr).is_terminal:
            with progress(what):
                return work(self.partitions)
        # Dask prints the bar to standard output, which is for results.
        with redirect_stdout(sys.stderr), watched(_progress):
            return work(self.partitions)


def _progress(futures: Any) -> None:
    need("distributed", "computing with Dask").progress(futures, notebook=False)
    print()
