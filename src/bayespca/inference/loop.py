"""The one loop for everything iterative: it owns stopping, the trace and the check of descent."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray


class Info(Protocol):
    """What a step tells about itself, besides the state it leads to."""

    @property
    def free_energy(self) -> float: ...
    @property
    def rank(self) -> int: ...
    @property
    def noise_variance(self) -> float: ...


S = TypeVar("S")


class FreeEnergyError(ArithmeticError):
    """A step raised the free energy: an error in the code of the step, never of the data."""


@dataclass(frozen=True, eq=False)
class Trace:
    """What each step led to, one entry per step; `seconds` is the time that the step took."""

    free_energy: NDArray[np.float64]
    rank: NDArray[np.int64]
    noise_variance: NDArray[np.float64]
    seconds: NDArray[np.float64]

    @classmethod
    def of(cls, infos: list[Info], seconds: list[float]) -> Trace:
        return cls(
            np.array([info.free_energy for info in infos], dtype=np.float64),
            np.array([info.rank for info in infos], dtype=np.int64),
            np.array([info.noise_variance for info in infos], dtype=np.float64),
            np.array(seconds, dtype=np.float64),
        )

    def __len__(self) -> int:
        return int(self.free_energy.size)


@dataclass(frozen=True)
class Run(Generic[S]):
    """A finished run: its last state, what each step led to, and whether it settled."""

    state: S
    trace: Trace
    converged: bool

    @property
    def n_iter(self) -> int:
        return len(self.trace)


def run(
    step: Callable[[S], tuple[S, Info]],
    state: S,
    *,
    max_iter: int,
    tol: float,
    slack: float = 1e-9,
) -> Run[S]:
    """Step until the free energy falls by less than `tol` of itself, or `max_iter` times.

    The free energy must never rise by more than rounding, `slack` of itself.
    """
    infos: list[Info] = []
    seconds: list[float] = []
    for _ in range(max_iter):
        start = time.perf_counter()
        state, info = step(state)
        seconds.append(time.perf_counter() - start)
        infos.append(info)
        if len(infos) < 2:
            continue
        before, after = infos[-2].free_energy, info.free_energy
        fall, size = before - after, abs(after) + 1.0
        if fall < -slack * size:
            raise FreeEnergyError(
                f"step {len(infos)} raised the free energy from {before!r} to {after!r}"
            )
        if fall <= tol * size:
            return Run(state, Trace.of(infos, seconds), converged=True)
    return Run(state, Trace.of(infos, seconds), converged=False)
