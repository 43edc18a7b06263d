"""Removal of components: those that are zero, and under VB those that do not pay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray
from bayespca.spectrum.families import VB
from bayespca.spectrum.tolerances import GONE, VANISHED

from .data import TuckerCells
from .energy import energy_of
from .modes import times, unfolded
from .records import Index
from .state import Equations, TuckerProblem, TuckerState, replaced
from .updates import with_core


def strengths(state: TuckerState, n: int) -> FloatArray:
    """Squared norm of each component of mode n in the posterior mean of the tensor."""
    grams = tuple(rows.mean.T @ rows.mean for rows in state.rows)
    G = state.core.mean
    others = np.einsum("hk,hk->h", unfolded(times(G, grams, skip=n), n), unfolded(G, n))
    return np.asarray(others * np.diag(grams[n]))


def without(
    state: TuckerState, equations: Equations, n: int, gone: Index, problem: TuckerProblem
) -> tuple[TuckerState, Equations]:
    """Drop components of mode n and solve for the core; if none is left, empty all modes."""
    modes = range(len(state.rows)) if gone.size == state.ranks[n] else [n]
    for m in modes:
        keep = np.arange(0) if len(modes) > 1 else np.delete(np.arange(state.ranks[n]), gone)
        state = state.with_rows(m, state.rows[m].kept(keep))
        state = replace(state, priors=replaced(state.priors, m, state.priors[m][keep]))
        equations = equations.kept(m, keep)
    return with_core(state, equations, problem), equations


def without_useless(
    state: TuckerState, equations: Equations, data: TuckerCells, problem: TuckerProblem
) -> tuple[TuckerState, Equations]:
    """Drop the weakest components of each mode for as long as that lowers the free energy.

    For VB. The free energy is computed in full, with the core solved again; after each success
    twice as many are tried.
    """
    lowest = energy_of(state, equations, data, problem)
    for n in problem.free_modes:
        count = 1
        while count <= state.ranks[n] - (not all(problem.free)):
            weakest = np.argsort(strengths(state, n), kind="stable")[:count]
            less, fewer = without(state, equations, n, weakest, problem)
            found = energy_of(less, fewer, data, problem)
            if found >= lowest:
                break
            state, equations, lowest, count = less, fewer, found, 2 * count
    return state, equations


def without_gone(
    state: TuckerState, equations: Equations, data: TuckerCells, problem: TuckerProblem
) -> tuple[TuckerState, Equations]:
    """Drop components that are zero up to rounding, even those of a given rank.

    Their contribution to the free energy of point estimates is kept in `gone`.
    """
    for n in range(len(state.rows)):
        gone = np.flatnonzero(_is_gone(state, n, data, problem))
        if not gone.size:
            continue
        before = energy_of(state, equations, data, problem)
        state, equations = without(state, equations, n, gone, problem)
        if problem.family != VB:
            left = before - energy_of(state, equations, data, problem)
            state = replace(state, gone=state.gone + left)
    return state, equations


def _is_gone(
    state: TuckerState, n: int, data: TuckerCells, problem: TuckerProblem
) -> NDArray[np.bool_]:
    """Components whose learned prior is practically 0, or whose point estimates have vanished."""
    gone = np.zeros(state.ranks[n], dtype=np.bool_)
    if problem.prior.is_learned:
        gone = state.priors[n] <= GONE * state.priors[n].max(initial=0.0)
    if problem.family != VB:
        gone = gone | (strengths(state, n) <= VANISHED**2 * data.squares)
    return np.asarray(gone)
