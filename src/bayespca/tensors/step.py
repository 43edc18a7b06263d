"""Steps of Tucker factorization: one sweep for every family and prior, with and without holes.

Steps along gradients, for empirical MAP, are those of ARD-Tucker (Mørup and Hansen 2009), as in
aistats2014 Table 2. Between steps, fewer components are tried: one that must go leaves a saddle
slowly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import FloatArray
from bayespca.inference.loop import Info
from bayespca.spectrum.tolerances import CALM, LEAST_NOISE_OF_TENSORS

from . import complete, holes
from .components import without_gone, without_useless
from .data import TuckerCells
from .modes import outer, times, unfolded
from .state import (
    Equations,
    TuckerProblem,
    TuckerState,
    balanced,
    energy_of,
    free_energy,
    residual_of,
    settled,
    settled_prior,
    with_core,
)

Step = Callable[[TuckerState], tuple[TuckerState, Info]]

# Steps to wait after a first trial that fails; twice as many each time.
WAIT = 16
# Nats: trials wait until steps gain less than this, and must gain more. A component that is hardly
# missed while others still move may be worth hundreds later; the search over ranks decides then.
EVIDENT = 10.0


def step(state: TuckerState, data: TuckerCells, problem: TuckerProblem) -> tuple[TuckerState, Info]:
    """Update all factors, then the core, the priors and the noise."""
    state, here = holes.moved(state, data)
    equations: Equations
    if data.is_whole:
        here = filled(here, state)
        state, equations = complete.swept(state, here, problem)
        if here.seen is not None and problem.family.integrates_b:
            equations, here = complete.refilled(state, equations, here, problem)
    else:
        state, equations = holes.swept(state, here, problem)
    return finished(state, equations, here, problem)


def finished(
    state: TuckerState, equations: Equations, data: TuckerCells, problem: TuckerProblem
) -> tuple[TuckerState, Info]:
    """Update the core, drop components that vanished or do not pay, then update coordinates, priors
    and noise.
    """
    state = with_core(state, equations, problem)
    state, equations = without_gone(state, equations, data, problem)
    now = energy_of(state, equations, data, problem)
    # Before the others have settled, a component that will be needed may look useless.
    if problem.prunes and not state.young and state.energy - now < CALM * abs(now):
        state, equations = without_useless(state, equations, data, problem)
    residual = residual_of(state, equations, data)
    for n in range(len(state.rows)):
        state = settled(state, n, problem)
    if problem.prior.is_learned:
        state = balanced(state)
    if problem.fixed_noise is None:
        noise = residual / max(data.n_cells, 1.0)
        state = replace(state, noise_variance=max(noise, LEAST_NOISE_OF_TENSORS))
    energy = free_energy(state, residual, data, problem)
    state = replace(state, energy=energy, young=max(state.young - 1, 0))
    return state, Info(state.energy, math.prod(state.ranks), state.noise_variance)


def equations_of(state: TuckerState, data: TuckerCells) -> Equations:
    """Equations of the core, given the factors."""
    if data.is_whole:
        return complete.projected(state, filled(data, state))
    return holes.gathered(state, data)


def filled(data: TuckerCells, state: TuckerState) -> TuckerCells:
    """The tensor with its holes filled by the state's predictions."""
    return data.filled(holes.low_rank(state, data)) if data.seen is not None else data


# --- steps along gradients -----------------------------------------------------------------------


def gradient_step(
    state: TuckerState, data: TuckerCells, problem: TuckerProblem
) -> tuple[TuckerState, Info]:
    """Take one step for each factor and for the core, then update the priors.

    The free energy is quadratic in each factor and in the core, so the best step along its gradient
    is known: ‖g‖²/⟨g, Hg⟩. Priors are updated as in the other sweeps; coordinates are not rotated.
    """
    for n in range(len(state.rows)):
        state = _stepped_rows(state, n, data)
    s2 = state.noise_variance
    found, prior = complete.projected(state, data), outer(state.priors)
    seconds = found.seconds
    mean = _stepped(
        state.core.mean,
        found.cross / s2,
        lambda G: times(G, seconds) / s2 + G / prior,
        outer([np.diag(second) for second in seconds]) / s2 + 1 / prior,
    )
    state = replace(state, core=replace(state.core, mean=mean))
    equations: Equations = found
    state, equations = without_gone(state, equations, data, problem)
    for n in range(len(state.rows)):
        state = settled_prior(state, n, problem)
    state = balanced(state)
    residual = residual_of(state, equations, data)
    state = replace(state, energy=free_energy(state, residual, data, problem))
    return state, Info(state.energy, math.prod(state.ranks), state.noise_variance)


def _stepped_rows(state: TuckerState, n: int, data: TuckerCells) -> TuckerState:
    rows, s2 = state.rows[n], state.noise_variance
    others = times(data.values, [one.mean.T for one in state.rows], skip=n)
    cross = to_numpy(unfolded(others, n)) @ unfolded(state.core.mean, n).T
    H = state.core.second_along(n, state.seconds) / s2 + np.diag(1 / state.priors[n])
    mean = _stepped(rows.mean, cross / s2, lambda A: A @ H, np.diag(H))
    return state.with_rows(n, replace(rows, mean=mean))


def _stepped(
    x: FloatArray,
    b: FloatArray,
    H: Callable[[FloatArray], FloatArray],
    diagonal: FloatArray,
) -> FloatArray:
    """One step down ½⟨x, Hx⟩ − ⟨b, x⟩, along the gradient scaled to a unit diagonal of H."""
    g = H(x) - b
    d = g / diagonal
    curvature = float(np.vdot(d, H(d)))
    return x - (float(np.vdot(g, d)) / curvature) * d if curvature > 0 else x


# --- trials of fewer components ------------------------------------------------------------------


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
