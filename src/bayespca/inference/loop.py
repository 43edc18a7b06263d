"""The one loop for everything iterative: it owns stopping, the trace and the check of descent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray


class Info(Protocol):
    """What a step tells about itself, besides the state it leads to."""

    @property
    def free_energy(self) -> float: ...


S = TypeVar("S")


class FreeEnergyError(ArithmeticError):
    """A step raised the free energy: an error in the code of the step, never of the data."""


@dataclass(frozen=True)
class Run(Generic[S]):
    """A finished run: its last state, the free energy after each step, and why it stopped."""

    state: S
    free_energies: NDArray[np.float64]
    converged: bool

    @property
    def n_iter(self) -> int:
        return int(self.free_energies.size)


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
    energies: list[float] = []
    for _ in range(max_iter):
        state, info = step(state)
        energies.append(info.free_energy)
        if len(energies) < 2:
            continue
        fall, size = energies[-2] - energies[-1], abs(energies[-1]) + 1.0
        if fall < -slack * size:
            raise FreeEnergyError(
                f"step {len(energies)} raised the free energy from {energies[-2]!r} "
                f"to {energies[-1]!r}"
            )
        if fall <= tol * size:
            return Run(state, np.array(energies), converged=True)
    return Run(state, np.array(energies), converged=False)
