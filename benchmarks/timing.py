"""Median times of repeated calls, and lines of a table."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def median_time(work: Callable[[], object], repeats: int = 5) -> float:
    """Median wall time in seconds, after one call that warms caches."""
    work()
    return statistics.median(once(work) for _ in range(repeats))


def once(work: Callable[[], object]) -> float:
    """Wall time of a single call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def rested(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Time of a single call, after a rest."""
    time.sleep(0.2)
    start = clock()
    work()
    return clock() - start


def heading(title: str) -> None:
    print(f"\n{title}\n{'-' * len(title)}")


def line(what: str, figure: str, target: str) -> None:
    print(f"{what:64s}{figure:>22s}   target {target}")


def paired(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    repeats: int = 5,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, float]:
    """Median times of two pieces of work done in turns, so that a busy machine slows both.

    A rest before each lets the threads of the previous work go to sleep: they spin for a while, and
    would take a core from work that uses another library's threads.
    """
    ours(), theirs()
    times = [(rested(ours, clock), rested(theirs, clock)) for _ in range(repeats)]
    mine, other = zip(*times, strict=True)
    return statistics.median(mine), statistics.median(other)
