"""Fewer components tried beside steps: one that goes creeps away from a saddle for many of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bayespca.inference.loop import Info
from bayespca.spectrum.tolerances import CALM

from .state import TuckerState

Step = Callable[[TuckerState], tuple[TuckerState, Info]]

# Steps after the first trial that leads no lower; twice as many each time.
WAIT = 16
# Nats: trials wait until steps bring less, and have to bring more. One that is hardly missed while
# others still move may be worth hundreds later; the search over ranks asks when they have settled.
EVIDENT = 10.0


def step_or_less(
    state: TuckerState,
    step: Step,
    less: Callable[[TuckerState, int], TuckerState | None],
    modes: tuple[int, ...],
) -> tuple[TuckerState, Info]:
    """A step; now and then two from where a mode has a component less, if that is much lower.

    Others have to find their new places before the free energy shows that one is not needed.
    """
    new, info = step(state)
    falls = state.energy - new.energy > min(CALM * abs(new.energy), EVIDENT)
    if state.wait or state.young or falls:
        return replace(new, wait=max(state.wait - 1, 0), waited=state.waited), info
    for n in modes:
        found = less(new, n)
        if found is None:
            continue
        found, after = step(step(found)[0])
        if found.energy < new.energy - EVIDENT:
            return replace(found, wait=0, waited=0), after
    wait = max(2 * state.waited, WAIT)
    return replace(new, wait=wait, waited=wait), info
