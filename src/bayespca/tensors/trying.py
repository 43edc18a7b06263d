"""Trials of fewer components between steps: a component that must go leaves a saddle slowly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bayespca.inference.loop import Info
from bayespca.spectrum.tolerances import CALM

from .state import TuckerState

Step = Callable[[TuckerState], tuple[TuckerState, Info]]

# Steps to wait after a first trial that fails; twice as many each time.
WAIT = 16
# Nats: trials wait until steps gain less than this, and must gain more. A component that is hardly
# missed while others still move may be worth hundreds later; the search over ranks decides then.
EVIDENT = 10.0


def step_or_less(
    state: TuckerState,
    step: Step,
    less: Callable[[TuckerState, int], TuckerState | None],
    modes: tuple[int, ...],
) -> tuple[TuckerState, Info]:
    """Take a step, or now and then two without a component of some mode, if that is much lower.

    The others have to adapt before the free energy shows that one is not needed.
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
