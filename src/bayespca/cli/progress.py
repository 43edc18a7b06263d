"""Progress of anything over a second, on a terminal only."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from bayespca.inference.loop import Callback, Info

PATIENCE = 1.0

Advance = Callable[[float], None]


@contextmanager
def progress(what: str, total: float | None = None) -> Iterator[Advance]:
    """Show a bar, or a spinner where the end is not known, once a second has passed.

    Yields a function that adds to what has been done. Nothing is shown unless standard error is a
    terminal.
    """
    with _shown(what, total, has_bar=total is not None) as shown:
        yield _nothing if shown is None else partial(shown.bar.advance, shown.task)


@contextmanager
def sweeps(what: str, tol: float) -> Iterator[Callback]:
    """Show which sweep a fit is at and how much its free energy still has to gain, once a second
    has passed; a fit without sweeps has a bar that does not say how long it takes.

    Yields the callback of the fit, which ends where `tol` of the free energy is left.
    """
    with _shown(what, None, has_bar=True) as shown:
        yield _nothing if shown is None else _Sweeps(shown, what, tol)


def _nothing(*seen: object) -> None:
    """Where nobody looks."""


class _Shown(NamedTuple):
    bar: Progress
    task: TaskID


class _Sweeps:
    """A bar that is filled as the logarithm of what is left falls to that of the end."""

    def __init__(self, shown: _Shown, what: str, tol: float) -> None:
        self._shown, self._what, self._tol = shown, what, tol
        self._most = 0.0

    def __call__(self, number: int, info: Info) -> None:
        end = self._tol * (abs(info.free_energy) + 1.0)
        if number == 1:
            self._most = 0.0
        if math.isfinite(info.to_gain):
            self._most = max(self._most, info.to_gain)
        self._shown.bar.update(
            self._shown.task,
            total=1.0,
            completed=share_done(self._most, info.to_gain, end),
            description=f"{self._what}: {words_for(number, info, end)}",
        )


def share_done(most: float, left: float, end: float) -> float:
    """How far what is left has come from its largest value to the end, on a scale of logarithms."""
    if not math.isfinite(left) or most <= end:
        return 0.0
    return 1.0 if left <= end else math.log(most / left) / math.log(most / end)


def words_for(number: int, info: Info, end: float) -> str:
    """Sweep 12, 8 components, 3.1 nats to gain (until 0.002)"""
    found = f"sweep {number}, {info.rank} component{'s' * (info.rank != 1)}"
    if not math.isfinite(info.to_gain):
        return found
    return f"{found}, {info.to_gain:.2g} nats to gain (until {end:.2g})"


@contextmanager
def _shown(what: str, total: float | None, *, has_bar: bool) -> Iterator[_Shown | None]:
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield None
        return
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        *([BarColumn()] if has_bar else []),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    task = bar.add_task(what, total=total)
    timer = threading.Timer(PATIENCE, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield _Shown(bar, task)
    finally:
        timer.cancel()
        timer.join()
        bar.stop()
