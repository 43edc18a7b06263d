"""Progress of anything over a second, on a terminal only."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

PATIENCE = 1.0

Advance = Callable[[float], None]


@contextmanager
def progress(what: str, total: float | None = None) -> Iterator[Advance]:
    """Show a bar, or a spinner where the end is not known, once a second has passed.

    Yields a function that adds to what has been done. Nothing is shown unless standard error is a
    terminal.
    """
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield lambda amount: None
        return
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        *([] if total is None else [BarColumn()]),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    task = bar.add_task(what, total=total)
    timer = threading.Timer(PATIENCE, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda amount: bar.advance(task, amount)
    finally:
        timer.cancel()
        timer.join()
        bar.stop()
