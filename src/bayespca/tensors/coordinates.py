"""The coordinates and the prior of each mode at which the free energy is lowest.

Modes can exchange a scale: Aₙ·tₙ and Cₙ·tₙ² with ∏tₙ = 1 leave the core, its prior and the tensor
unchanged. Under VB the free energy does not change either. With point-estimated factors it changes
by ΣMₙHₙ·log tₙ, falls without bound, and has not even a local minimum: the iteration would drift
along it until everything is zero. Requiring priors of the same geometric mean in all modes fixes
the scale. On that surface, the free energy equals the one in which MₙHₙ of every factor is replaced
by its mean over modes.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from bayespca.arrays.types import FloatArray

from .state import TuckerProblem, TuckerState, replaced


def settled(state: TuckerState, n: int, problem: TuckerProblem) -> TuckerState:
    """Aₙ·R and G ×ₙ R⁻¹ for the R with the lowest free energy, then the best prior of mode n."""
    factors, of_core = (
        problem.factors(n, state.ranks),
        state.core.second_along(n, _whitening(state)),
    )
    found = factors.best_turn(state.rows[n].second, of_core)
    if found is not None:
        state = replace(state, core=state.core.turned(n, found[1]))
        state = state.with_rows(n, state.rows[n].turned(found[0]))
    return settled_prior(state, n, problem)


def settled_prior(state: TuckerState, n: int, problem: TuckerProblem) -> TuckerState:
    """A learned prior: c² = (⟨‖a‖²⟩ + ⟨‖g‖²⟩/∏cₘ²)/(Mₙ + ∏Hₘ), products over the other modes."""
    if not problem.prior.is_learned:
        return state
    of_core = np.diag(state.core.second_along(n, _whitening(state)))
    prior, _ = problem.factors(n, state.ranks).priors(np.diag(state.rows[n].second), of_core)
    return replace(state, priors=replaced(state.priors, n, prior))


def balanced(state: TuckerState) -> TuckerState:
    """Give all modes the same largest prior.

    Modes can exchange a scale tₙ, ∏tₙ = 1, without changing the free energy. Left alone, some
    would overflow while others shrink to what counts as zero.
    """
    if not math.prod(state.ranks):
        return state
    logs = np.log([prior.max() for prior in state.priors])
    scales = np.exp(0.5 * (logs.mean() - logs))
    rows = tuple(
        replace(rows, mean=rows.mean * t, cov=rows.cov * t**2)
        for rows, t in zip(state.rows, scales, strict=True)
    )
    priors = tuple(prior * t**2 for prior, t in zip(state.priors, scales, strict=True))
    return replace(state, rows=rows, priors=priors)


def _whitening(state: TuckerState) -> tuple[FloatArray, ...]:
    """Matrices that divide the core by the priors of all modes."""
    return tuple(np.diag(1 / prior) for prior in state.priors)
