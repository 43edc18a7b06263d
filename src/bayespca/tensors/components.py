"""Components to drop, to keep and to add.

Those that are zero are dropped, and under VB those that do not pay. The closed form of a matrix
says which are missing: projected on orthonormal bases of the other modes, the residual of a tensor
is a matrix for each mode with white noise, and EVB's threshold decides whether it shows another
component of that mode.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.places import at
from bayespca.arrays.types import Array, FloatArray
from bayespca.spectrum.closed_form import evb_threshold, learned_edge
from bayespca.spectrum.families import VB
from bayespca.spectrum.tolerances import GONE, LEAST_NOISE_OF_TENSORS, VANISHED

from .data import TuckerCells
from .modes import size_without, times, unfolded
from .records import Index
from .state import Equations, TuckerProblem, TuckerState, energy_of, replaced, with_core

# Multiple of EVB's threshold above which a component is certainly needed.
SURELY = 4.0


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
        # Those whose learned prior is practically 0, or whose point estimates have vanished.
        is_gone = np.zeros(state.ranks[n], dtype=np.bool_)
        if problem.prior.is_learned:
            is_gone = state.priors[n] <= GONE * state.priors[n].max(initial=0.0)
        if problem.family != VB:
            is_gone = is_gone | (strengths(state, n) <= VANISHED**2 * data.squares)
        gone = np.flatnonzero(is_gone)
        if not gone.size:
            continue
        before = energy_of(state, equations, data, problem)
        state, equations = without(state, equations, n, gone, problem)
        if problem.family != VB:
            left = before - energy_of(state, equations, data, problem)
            state = replace(state, gone=state.gone + left)
    return state, equations


# --- what the closed form of a matrix shows ------------------------------------------------------


class Shown(NamedTuple):
    """Vectors missing from a mode, (M, k), and the number of them that EVB would keep."""

    vectors: FloatArray
    kept: int


def shown(state: TuckerState, left: Array, data: TuckerCells, n: int) -> Shown:
    """Vectors of mode n in the residual `left` with a strength above the edge of noise, strongest
    first. Below the edge there is not even a local minimum with the component.
    """
    bases = [np.linalg.qr(rows.mean)[0] for rows in state.rows]
    along = [at(left, Q.T) for Q in bases]
    X = to_numpy(unfolded(times(left, along, skip=n), n))
    X = X - bases[n] @ (bases[n].T @ X)
    L, M = X.shape[0] - bases[n].shape[1], X.shape[1]
    if not (L and M):
        return Shown(X[:, :0], 0)
    U, gamma, _ = np.linalg.svd(X, full_matrices=False)
    x = strength(gamma[:L] ** 2, state, data)
    above = int(np.count_nonzero(x > learned_edge(L, M, L, M)))
    return Shown(U[:, :above], int(np.count_nonzero(x > evb_threshold(L, M))))


def strength(squares: FloatArray, state: TuckerState, data: TuckerCells) -> FloatArray:
    """Observed strength x of components with these squares in the residual.

    The noise is estimated without each component, which in small tensors makes up much of it.
    """
    of_cells = squares / data.share
    rest = data.n_cells * state.noise_variance - of_cells
    least = LEAST_NOISE_OF_TENSORS * data.n_cells
    return np.asarray(of_cells / np.maximum(rest, least) * data.n_cells)


def is_needed(state: TuckerState, data: TuckerCells, n: int, which: int) -> bool:
    """Whether a component of mode n is so strong that a fit without it need not be tried."""
    x = strengths(state, n)[which] * data.share / state.noise_variance
    others = size_without(state.ranks, n)
    return bool(x > SURELY * evb_threshold(data.sizes[n], others))
