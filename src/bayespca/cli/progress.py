"""Progress: on a terminal a bar after one second, elsewhere a line every ten seconds."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from bayespca.inference.loop import Callback, Info

PATIENCE = 1.0
# Seconds between lines if there is no terminal.
EVERY = 10.0
# Share of the work that must be done before the time left can be estimated.
TELLING = 0.02

Advance = Callable[[float], None]


@contextmanager
def progress(what: str, total: float | None = None) -> Iterator[Advance]:
    """Show a bar after one second, or a spinner if the total is unknown.

    Yields a function that adds to the work done. If standard error is not a terminal, a line is
    printed every ten seconds.
    """
    with _shown(what, total, has_bar=total is not None) as (bar, task):
        yield partial(bar.advance, task)


@contextmanager
def sweeps(what: str, tol: float) -> Iterator[Callback]:
    """Show after one second the number of the sweep and how far the free energy still has to fall.

    Yields the callback of the fit, which ends when a share `tol` of the free energy is left to
    gain. A fit without sweeps gets a bar without an estimate of its duration.

    The bar fills as the logarithm of the remaining gain falls to its end value, or sweep by sweep
    if their number is fixed.
    """
    with _shown(what, None, has_bar=True) as (bar, task):
        most = 0.0

        def callback(number: int, info: Info) -> None:
            nonlocal most
            end = tol * (abs(info.free_energy) + 1.0)
            if number == 1:
                most = 0.0
            if math.isfinite(info.to_gain):
                most = max(most, info.to_gain)
            share = share_done(most, info.to_gain, end)
            if info.n_steps is not None:
                share = number / info.n_steps
            words = f"{what}: {words_for(number, info, end)}"
            bar.update(task, total=1.0, completed=share, description=words)

        yield callback


class _Lines:
    """A replacement of the bar for files and pipes, which prints a line every few seconds."""

    def __init__(self, what: str, total: float | None) -> None:
        self._what, self._total, self._done = what, total, 0.0
        self._start, self._ended = time.monotonic(), threading.Event()
        self._thread = threading.Thread(target=self._print, daemon=True)
        self._thread.start()

    def advance(self, task: TaskID, done: float = 1) -> None:
        self._done += done

    def update(self, task: TaskID, *, total: float, completed: float, description: str) -> None:
        self._what, self._total, self._done = description, total, completed

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _print(self) -> None:
        while not self._ended.wait(EVERY):
            seconds = time.monotonic() - self._start
            share = self._done / self._total if self._total else None
            print(line_for(self._what, share, seconds), file=sys.stderr, flush=True)


def share_done(most: float, left: float, end: float) -> float:
    """Share of the way of `left` from `most` to `end`, on a logarithmic scale."""
    if not math.isfinite(left) or most <= end:
        return 0.0
    return 1.0 if left <= end else math.log(most / left) / math.log(most / end)


def words_for(number: int, info: Info, end: float) -> str:
    """Description such as "sweep 12, 8 components, 3.1 nats to gain (until 0.002)"."""
    of = "" if info.n_steps is None else f" of {info.n_steps}"
    found = f"sweep {number}{of}, {info.rank} component{'s' * (info.rank != 1)}"
    if not math.isfinite(info.to_gain):
        return found
    return f"{found}, {info.to_gain:.2g} nats to gain (until {end:.2g})"


def line_for(what: str, share: float | None, seconds: float) -> str:
    """Line such as "reading x.csv: 40 %, 20 s, about 30 s left"."""
    if share is None:
        return f"{what}: {_duration(seconds)}"
    left = ""
    if share >= TELLING:
        left = f", about {_duration(seconds * (1 - min(share, 1.0)) / share)} left"
    return f"{what}: {share:.0%}, {_duration(seconds)}{left}".replace("%", " %")


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


@contextmanager
def _shown(what: str, total: float | None, *, has_bar: bool) -> Iterator[tuple[Any, TaskID]]:
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        lines = _Lines(what, total)
        try:
            yield lines, TaskID(0)
        finally:
            lines.stop()
        return
    share = [BarColumn(), TaskProgressColumn(), TimeRemainingColumn()] if has_bar else []
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        *share,
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    task = bar.add_task(what, total=total)
    timer = threading.Timer(PATIENCE, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield bar, task
    finally:
        timer.cancel()
        timer.join()
        bar.stop()
