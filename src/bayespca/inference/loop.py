"""The one loop for everything iterative: it owns stopping, restarts, the trace and the checks."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import Counts, Vector
from bayespca.spectrum.tolerances import ROUNDING, SLACK_OF_FREE_ENERGY

from .accelerating import PAUSE, Chart, Memory, remembered

# Numbers of steps over which falls are compared: single steps of an accelerated run say little.
WINDOWS = (1, 2, 4)
# Number of free energies that are used.
LAST = 3 * WINDOWS[-1] + 1
# Number of free energies too small to give the ratio of a geometric sequence, and its least ratio.
FEW = 3
LEAST_RATIO = 0.1

# Most steps like the last ones that are counted on: the tail of falls that hardly become smaller
# promises more than a hundred steps would bring.
HORIZON = 100


@dataclass(frozen=True)
class Info:
    """Diagnostics of a step, besides the state it leads to.

    Callbacks also see `to_gain`, the loop's estimate of how far the free energy will still fall,
    and `n_steps`, the length of the run where it is fixed, as for a sampler.
    """

    free_energy: float
    rank: int
    noise_variance: float
    to_gain: float = np.inf
    n_steps: int | None = None


S = TypeVar("S")
Step = Callable[[S], tuple[S, Info]]
# Called after each step with its number, counting from 1, and its diagnostics; True ends the run.
Callback = Callable[[int, Info], object]


class FreeEnergyWarning(RuntimeWarning):
    """A step raised the free energy: an error in the code of the step, never of the data."""


@dataclass(frozen=True, eq=False)
class Trace:
    """Diagnostics of a run, one entry per step; `seconds` is the time that the step took."""

    free_energy: Vector
    rank: Counts
    noise_variance: Vector
    seconds: Vector

    @classmethod
    def empty(cls) -> Trace:
        return cls(np.empty(0), np.empty(0, np.int64), np.empty(0), np.empty(0))

    def __len__(self) -> int:
        return int(self.free_energy.size)

    def in_units(self, unit: float, *, free_energy: float) -> Trace:
        """The trace for data `unit` times as large, whose free energy at the end is given.

        A change of units adds the same constant to the free energy of every step.
        """
        shift = free_energy - self.free_energy[-1] if len(self) else 0.0
        return replace(
            self,
            free_energy=self.free_energy + (shift if np.isfinite(shift) else 0.0),
            noise_variance=self.noise_variance * unit**2,
        )

    def followed_by(self, other: Trace, which: NDArray[np.bool_]) -> Trace:
        """The trace with some of the steps of another at the end."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Trace(*(np.concatenate([mine, theirs[which]]) for mine, theirs in pairs))

    @property
    def last_change(self) -> float:
        """Relative fall of the free energy in the last step; infinite before there are two."""
        if len(self) < 2:
            return float("inf")
        before, after = self.free_energy[-2:].tolist()
        return float((before - after) / (abs(after) + 1.0))

    def check(self) -> None:
        """Raise ValueError unless there is one entry per step everywhere."""
        if len({array.size for array in vars(self).values()}) != 1:
            raise ValueError("the arrays of a Trace are of different lengths")


@dataclass(frozen=True)
class Run(Generic[S]):
    """A run: its last state, its trace, and why it ended.

    `reason` is "settled", "max_iter", "stopped" (by the callback) or "rose" (the free energy did),
    and "" for one that goes on. `memory` holds its last steps.
    """

    state: S
    trace: Trace
    reason: str = ""
    memory: Memory = field(default_factory=Memory.empty)

    @property
    def converged(self) -> bool:
        return self.reason == "settled"

    @property
    def n_iter(self) -> int:
        return len(self.trace)

    @property
    def free_energy(self) -> float:
        return float(self.trace.free_energy[-1]) if self.n_iter else float("inf")


class Storage(Protocol[S]):
    """Storage for a run in progress, from which it resumes after an interruption."""

    def find(self) -> Run[S] | None: ...
    def keep(self, run: Run[S]) -> None: ...


def run(
    step: Step[S],
    state: S,
    *,
    max_iter: int,
    tol: float,
    slack: float = SLACK_OF_FREE_ENERGY,
    callback: Callback | None = None,
    storage: Storage[S] | None = None,
    chart: Chart[S] | None = None,
) -> Run[S]:
    """Step until the free energy has no more than `tol` of itself to gain, or `max_iter` times.

    The free energy must never rise by more than rounding, `slack` of itself. If it does, the run
    warns and ends with the state before. With a `chart`, steps start from where the last ones were
    heading, as long as that leads lower. A run that `storage` holds is resumed where it was; steps
    are pure functions, so it ends as if it had not been interrupted.
    """
    found = storage.find() if storage is not None else None
    now = found if found is not None else Run(state, Trace.empty())
    log = _Log(now.trace)
    while not now.reason:
        start = time.perf_counter()
        state, info, memory = _advanced(step, now, chart, log.last_energy)
        change = log.add(info, time.perf_counter() - start)
        if change < -slack:
            log.drop_last()
            warnings.warn(
                f"step {len(log) + 1} raised the free energy from {log.last_energy!r} to "
                f"{info.free_energy!r}: please report this. The result is that of the step before.",
                FreeEnergyWarning,
                stacklevel=2,
            )
            return replace(now, trace=log.trace(), reason="rose")
        left = log.to_gain if chart is not None else abs(change) * (abs(info.free_energy) + 1.0)
        settled = left <= tol * (abs(info.free_energy) + 1.0)
        reason = "settled" if settled else "max_iter" if len(log) >= max_iter else ""
        if callback is not None:
            shown = Info(info.free_energy, info.rank, info.noise_variance, to_gain=left)
            if callback(len(log), shown) is True:
                reason = reason or "stopped"
        now = Run(state, now.trace, reason, memory)
        if storage is not None:
            storage.keep(replace(now, trace=log.trace()))
    return replace(now, trace=log.trace(), memory=Memory.empty())


def _advanced(
    step: Step[S], now: Run[S], chart: Chart[S] | None, energy: float
) -> tuple[S, Info, Memory]:
    """A step from where the last ones were heading, if it leads lower; else from where they led."""
    memory, goal = now.memory, now.memory.goal
    if chart is not None and goal is not None:
        found = None
        # The goal may be so far away that matrices have no inverse.
        with np.errstate(all="ignore"), suppress(np.linalg.LinAlgError):
            ahead = chart.at(now.state, goal)
            found = step(ahead)
        if found is not None and found[1].free_energy < energy:
            return *found, remembered(memory, ahead, found[0], chart)
        memory = Memory.empty(PAUSE)
    state, info = step(now.state)
    return state, info, remembered(memory, now.state, state, chart)


def best_of(runs: list[Run[S]]) -> Run[S]:
    """The run that ended with the lowest free energy."""
    return min(runs, key=lambda finished: finished.free_energy)


class _Log:
    """A trace that grows."""

    def __init__(self, trace: Trace) -> None:
        self._energies: list[float] = trace.free_energy.tolist()
        self._ranks: list[int] = trace.rank.tolist()
        self._noises: list[float] = trace.noise_variance.tolist()
        self._seconds: list[float] = trace.seconds.tolist()

    def __len__(self) -> int:
        return len(self._energies)

    @property
    def last_energy(self) -> float:
        return self._energies[-1] if self._energies else np.inf

    @property
    def to_gain(self) -> float:
        return to_gain(self._energies[-LAST:])

    def add(self, info: Info, seconds: float) -> float:
        """Add a step; return its relative fall of the free energy, infinite for the first."""
        before = self._energies[-1] if self._energies else np.inf
        self._energies.append(float(info.free_energy))
        self._ranks.append(int(info.rank))
        self._noises.append(float(info.noise_variance))
        self._seconds.append(seconds)
        return float((before - info.free_energy) / (abs(info.free_energy) + 1.0))

    def drop_last(self) -> None:
        for entries in (self._energies, self._ranks, self._noises, self._seconds):
            entries.pop()

    def trace(self) -> Trace:
        return Trace(
            np.array(self._energies, dtype=np.float64),
            np.array(self._ranks, dtype=np.int64),
            np.array(self._noises, dtype=np.float64),
            np.array(self._seconds, dtype=np.float64),
        )


def is_rounding(before: float, after: float, squares: float, precision: float) -> bool:
    """Whether a free energy rose beyond `SLACK_OF_FREE_ENERGY`, but not by more than rounding.

    The free energy contains Σx² times half the precision of the noise: where that is very high, no
    reliable digits are left.
    """
    rise = after - before
    return SLACK_OF_FREE_ENERGY * (abs(after) + 1) < rise <= ROUNDING * precision * squares


# --- what is left to gain ----------------------------------------------------------------------


def to_gain(energies: Sequence[float]) -> float:
    """Nats by which the free energy would still fall, in at most a hundred steps like the last.

    If it fell by f₀ over w steps and by f over the next w, a geometric sequence with the ratio
    r = f/f₀ has f·r/(1 − r) left. The largest result of several w counts, each with the larger of
    two successive r. No r is below a tenth per step: the first falls of a run are too large to say
    how small the next will be. Before there are three falls, at least as much is left as the last
    one brought. Nothing is left if the last step did not fall; before two falls it is infinite.
    """
    if len(energies) > 1 and not energies[-2] > energies[-1]:
        return 0.0
    if len(energies) < FEW:
        return np.inf
    least = energies[-2] - energies[-1] if len(energies) == FEW else 0.0
    for w in WINDOWS:
        if len(energies) > 2 * w:
            falls = -np.diff(energies[-1::-w][:4][::-1])
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = max(np.max(falls[1:] / falls[:-1]), LEAST_RATIO**w)
            most = HORIZON / w * falls[-1]
            tail = min(falls[-1] * ratio / (1 - ratio), most) if ratio < 1 else most
            least = max(least, float(tail))
    return least
