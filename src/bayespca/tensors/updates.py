"""Updates of a factor and of the core, each given the other: Σ = σ²(⟨xxᵀ⟩ + σ²C⁻¹)⁻¹."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayespca.arrays.packing import inverses
from bayespca.arrays.types import FloatArray
from bayespca.spectrum.tolerances import JITTER

from .records import TuckerRows
from .state import Equations, TuckerProblem, TuckerState


def with_updated_rows(
    state: TuckerState, n: int, cross: FloatArray, second: FloatArray, problem: TuckerProblem
) -> TuckerState:
    """Σᵢ = σ²(⟨xxᵀ⟩ᵢ + σ²Cₙ⁻¹)⁻¹ and âᵢ = Σᵢ⟨xy⟩ᵢ/σ² for the rows of Aₙ.

    `second` is (1 or M, H, H): one for all rows, or one for each; `cross` is (M, H).
    """
    s2 = state.noise_variance
    inverse, _ = graded_inverses(second + np.diag(s2 / state.priors[n]))
    mean = (cross[:, None, :] @ inverse)[:, 0, :] if len(inverse) > 1 else cross @ inverse[0]
    rows = TuckerRows(mean, s2 * inverse * problem.family.integrates_a, float(problem.sizes[n]))
    return state.with_rows(n, rows)


def with_core(state: TuckerState, equations: Equations, problem: TuckerProblem) -> TuckerState:
    core = equations.solved(
        state.priors,
        problem.core_variance,
        state.noise_variance,
        integrated=problem.family.integrates_b,
    )
    return replace(state, core=core)


def graded_inverses(precision: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Inverses and log|·| of positive definite matrices (…, H, H) with entries of any size.

    They are scaled to unit diagonals first. If rounding makes one singular, because neither cells
    nor prior constrain a direction, a small ridge is added.
    """
    root = np.sqrt(np.diagonal(precision, axis1=-2, axis2=-1))
    scale = root[..., :, None] * root[..., None, :]
    try:
        inverse, log_dets = inverses(precision / scale)
    except np.linalg.LinAlgError:
        inverse, log_dets = inverses(precision / scale + JITTER * np.eye(precision.shape[-1]))
    return inverse / scale, log_dets - 2 * np.log(root).sum(axis=-1)
