"""Search over ranks: after an iteration has settled, try one component fewer, then one more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bayespca.spectrum.tolerances import SLACK_OF_FREE_ENERGY

from .accelerating import Chart
from .loop import HORIZON, Callback, Info, Run, Step
from .loop import run as run_on

S = TypeVar("S")

# A rank that is worse by so many nats need not be known more precisely.
IMPROBABLE = 30.0
# Precision in nats to which the free energy of a worse rank is known well enough.
PRECISE = 0.01
# A better rank is accepted when what it still has to gain is less than this part of what it gained,
# and less than so many nats.
CLEARLY = 0.1
ROUGHLY = 0.1
# A run is given up if so many steps like the last FEW would still leave it worse.
PATIENCE = 30
FEW = 4


def searched(
    run: Run[S],
    step: Step[S],
    *,
    less: Callable[[S], S | None],
    more: Callable[[S], S | None],
    max_iter: int,
    tol: float,
    chart: Chart[S] | None = None,
    slack: float = SLACK_OF_FREE_ENERGY,
) -> tuple[Run[S], dict[int, float]]:
    """Move to one component fewer, else to one more, as long as that leads lower.

    Returns the best run, and the lowest free energy seen with each rank. `less` and `more` change
    the state that a run ended with, and return None where that is impossible. A run that ended
    before it settled is left alone.
    """
    energies: dict[int, float] = {}
    _note(run, energies)

    def ran(state: S, watched: Callback | None = None) -> Run[S]:
        found = run_on(
            step, state, max_iter=max_iter, tol=tol, slack=slack, callback=watched, chart=chart
        )
        _note(found, energies)
        return found

    def tried(state: S, least: int = 0) -> Run[S]:
        return ran(state, decided(run.free_energy, least))

    begun = run
    while _goes_on(run, begun) and (state := less(run.state)) is not None:
        found = tried(state)
        if found.free_energy >= run.free_energy:
            break
        run = _followed(run, found)
    lower = run is not begun
    while _goes_on(run, begun) and not lower and (state := more(run.state)) is not None:
        found = tried(state, _rank(run) + 1)
        if found.free_energy >= run.free_energy or _rank(found) <= _rank(run):
            break
        run = _followed(run, found)
    if run is not begun and run.reason == "stopped":
        run = _followed(run, ran(run.state))
    return run, energies


def _goes_on(run: Run[S], begun: Run[S]) -> bool:
    """Whether to try the next rank: trials are stopped once it is clear that they lead lower."""
    return begun.converged and run.reason in ("settled", "stopped")


def by_rank(energies: dict[int, float]) -> NDArray[np.float64]:
    """Free energies above the lowest; index = rank. Those of ranks never tried are infinite."""
    out = np.full(max(energies, default=-1) + 1, np.inf)
    for rank, energy in energies.items():
        out[rank] = energy - min(energies.values())
    return out


def _rank(run: Run[S]) -> int:
    return int(run.trace.rank[-1])


def _note(run: Run[S], energies: dict[int, float]) -> None:
    for rank, energy in zip(run.trace.rank.tolist(), run.trace.free_energy.tolist(), strict=True):
        energies[rank] = min(energy, energies.get(rank, np.inf))


def _followed(run: Run[S], better: Run[S]) -> Run[S]:
    """The better run, whose trace continues that of `run` with the steps that led lower."""
    led_lower = better.trace.free_energy < run.free_energy
    return replace(better, trace=run.trace.followed_by(better.trace, led_lower))


def decided(best: float, least: int = 0) -> Callback:
    """A callback that ends a run once it is `given_up` or clearly better than `best`.

    It is clearly better when it has gained much more on `best` than it still has to gain.
    """
    gives_up = given_up(best, least)

    def callback(number: int, info: Info) -> bool:
        gained = best - info.free_energy
        enough = info.to_gain < min(CLEARLY * gained, ROUGHLY)
        return bool(gives_up(number, info)) or (enough and info.rank >= least)

    return callback


def given_up(best: float, least: int = 0) -> Callback:
    """A callback that ends a run once it is clear that it stays worse than the free energy `best`.

    A run ends if `best` is out of reach; if it is worse and its own free energy is known well
    enough; or if its rank falls below `least`.
    """
    ends = out_of_reach(best)

    def callback(number: int, info: Info) -> bool:
        known = info.to_gain < min(PRECISE, (info.free_energy - best) / PATIENCE)
        return ends(number, info) is True or info.rank < least or known

    return callback


def out_of_reach(best: float) -> Callback:
    """A callback that ends a run once it will not come near the free energy `best`, going by its
    last few steps or by a hundred like the last one.
    """
    seen: list[float] = []

    def callback(number: int, info: Info) -> bool:
        seen.append(info.free_energy)
        gap = info.free_energy - best
        if gap > IMPROBABLE and len(seen) > 1 and HORIZON * (seen[-2] - seen[-1]) < gap:
            return True
        if len(seen) <= FEW:
            return False
        fall = (seen[-1 - FEW] - seen[-1]) / FEW
        return bool(gap > IMPROBABLE and PATIENCE * fall < gap)

    return callback
