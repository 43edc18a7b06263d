"""Markov chains: their length, the states that are kept, and draws along a line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

S = TypeVar("S")

# Most steps that a slice sampler takes outward. It is exact with any number.
MOST_STEPS = 40


@dataclass(frozen=True)
class Schedule:
    """Numbers of chains, sweeps before the first draw, draws, and sweeps per draw."""

    n_chains: int = 4
    n_warmup: int = 500
    n_draws: int = 1000
    thin: int = 1

    @property
    def n_sweeps(self) -> int:
        """Sweeps of all chains together."""
        return self.n_chains * (self.n_warmup + self.n_draws * self.thin)


def kept_states(state: S, sweep: Callable[[S], S], schedule: Schedule) -> Iterator[S]:
    """Yield the states of one chain that are kept as draws."""
    for _ in range(schedule.n_warmup):
        state = sweep(state)
    for _ in range(schedule.n_draws):
        for _ in range(schedule.thin):
            state = sweep(state)
        yield state


def slice_sampled(
    log_density: Callable[[float], float], rng: np.random.Generator, *, step: float
) -> float:
    """Draw the next point of a chain that is at 0, by slice sampling.

    Neal, "Slice sampling", Annals of Statistics 31, 2003, Fig. 3, 5. As there, the number of steps
    outward is limited, and split between both sides at random.
    """
    level = log_density(0.0) - rng.exponential()
    if not np.isfinite(level):
        raise FloatingPointError(f"the log density of a state of the chain is {level}")
    low = -step * rng.random()
    high = low + step
    left = int(rng.integers(MOST_STEPS))
    right = MOST_STEPS - 1 - left
    while left > 0 and log_density(low) > level:
        low, left = low - step, left - 1
    while right > 0 and log_density(high) > level:
        high, right = high + step, right - 1
    while True:
        y = low + (high - low) * rng.random()
        if log_density(y) >= level:
            return float(y)
        low, high = (y, high) if y < 0 else (low, y)
