"""One sweep of Tucker factorization, for every family and prior, with and without holes."""

from __future__ import annotations

import math
from dataclasses import replace

from bayespca.inference.loop import Info
from bayespca.spectrum.tolerances import CALM, LEAST_NOISE_OF_TENSORS

from . import complete, holes
from .coordinates import balanced, settled
from .data import TuckerCells
from .energy import energy_of, free_energy, residual_of
from .filling import refilled
from .pruning import without_gone, without_useless
from .state import Equations, TuckerProblem, TuckerState
from .updates import with_core


def step(state: TuckerState, data: TuckerCells, problem: TuckerProblem) -> tuple[TuckerState, Info]:
    """Update all factors, then the core, the priors and the noise."""
    state, here = holes.moved(state, data)
    equations: Equations
    if data.is_whole:
        here = filled(here, state)
        state, equations = complete.swept(state, here, problem)
        if here.seen is not None and problem.family.integrates_b:
            equations, here = refilled(state, equations, here, problem)
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
