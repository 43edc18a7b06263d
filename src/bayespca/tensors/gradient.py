"""Empirical MAP by gradient descent: ARD-Tucker (Mørup and Hansen 2009), as in aistats2014 Table 2.

The free energy is quadratic in each factor and in the core, so the best step along its gradient is
known: ‖g‖²/⟨g, Hg⟩. Priors are updated as in the other sweeps; coordinates are not rotated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import FloatArray
from bayespca.inference.loop import Info

from .complete import projected
from .coordinates import balanced, settled_prior
from .data import TuckerCells
from .energy import free_energy, residual_of
from .modes import outer, times, unfolded
from .pruning import without_gone
from .state import Equations, TuckerProblem, TuckerState


def step(state: TuckerState, data: TuckerCells, problem: TuckerProblem) -> tuple[TuckerState, Info]:
    """Take one step for each factor and for the core, then update the priors."""
    for n in range(len(state.rows)):
        state = _stepped_rows(state, n, data)
    found = projected(state, data)
    state = _stepped_core(state, found.cross, found.seconds)
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
    second = state.core.second_along(n, tuple(rows.second for rows in state.rows))
    others = times(data.values, [rows.mean.T for rows in state.rows], skip=n)
    cross = to_numpy(unfolded(others, n)) @ unfolded(state.core.mean, n).T
    H = second / s2 + np.diag(1 / state.priors[n])
    mean = _stepped(rows.mean, cross / s2, lambda A: A @ H, np.diag(H))
    return state.with_rows(n, replace(rows, mean=mean))


def _stepped_core(
    state: TuckerState, cross: FloatArray, seconds: tuple[FloatArray, ...]
) -> TuckerState:
    s2, prior = state.noise_variance, outer(state.priors)
    diagonal = outer([np.diag(second) for second in seconds]) / s2 + 1 / prior
    mean = _stepped(
        state.core.mean, cross / s2, lambda G: times(G, seconds) / s2 + G / prior, diagonal
    )
    return replace(state, core=replace(state.core, mean=mean))


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
