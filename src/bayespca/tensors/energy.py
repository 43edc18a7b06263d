"""The free energy of a state, and the residual of the cells."""

from __future__ import annotations

import numpy as np

from bayespca.arrays.namespaces import array_namespace
from bayespca.arrays.places import at
from bayespca.lowrank.factors import factor_energy
from bayespca.spectrum.tolerances import CANCELS, LOG_2PI

from .data import TuckerCells
from .modes import outer, times
from .records import spread_in_all, spread_of_cells
from .state import Equations, TuckerProblem, TuckerState


def residual_of(state: TuckerState, equations: Equations, data: TuckerCells) -> float:
    """Σ⟨(y − …)²⟩ over the cells, computed the slow way where the quick way would cancel."""
    quick = equations.residual(state.core, data.squares)
    if quick > CANCELS * data.squares:
        return quick
    # Squared residuals of the posterior mean plus posterior variances: nothing cancels.
    xp = array_namespace(data.values)
    left = data.values - times(at(data.values, state.core.mean), [r.mean for r in state.rows])
    if data.is_whole:
        return float(xp.sum(left * left)) + spread_in_all(state.rows, state.core)
    left = left * data.seen
    spread = at(data.values, spread_of_cells(state.rows, state.core))
    return float(xp.sum(left * left)) + float(xp.sum(spread * data.seen))


def free_energy(
    state: TuckerState, residual: float, data: TuckerCells, problem: TuckerProblem
) -> float:
    """½n log 2πσ² + ⟨‖Y − …‖²⟩/2σ² + KL of integrated parts − log prior of point estimates."""
    s2 = state.noise_variance
    likelihood = 0.5 * (data.n_cells * (LOG_2PI + np.log(s2)) + residual / s2)
    noise = 0.0 if data.noise is None else data.noise.energy
    integrated = problem.family.integrates_b
    log_det = state.core.log_det if integrated else 0.0
    variances = problem.core_variance * outer(state.priors).ravel()
    total = factor_energy(state.core.squares().ravel(), variances, 1, log_det, integrated)
    for n, (rows, prior) in enumerate(zip(state.rows, state.priors, strict=True)):
        log_det = rows.log_det if problem.family.integrates_a else 0.0
        factors = problem.factors(n, state.ranks)
        total += factors.energy_of_a(np.diag(rows.second), prior, log_det)
    return likelihood + total + noise + state.gone


def energy_of(
    state: TuckerState, equations: Equations, data: TuckerCells, problem: TuckerProblem
) -> float:
    return free_energy(state, residual_of(state, equations, data), data, problem)
