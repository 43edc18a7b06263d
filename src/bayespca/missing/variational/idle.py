"""Idle columns of W in Bishop's model with holes: those that are switched off.

They have mean zero, in W and in X, and no covariance with other columns. So all of them are alike,
with one variance s_n for each sample and one vⱼ for each row of W,

    1/s_n = 1 + ⟨τ⟩Σⱼvⱼ,  1/vⱼ = ⟨α⟩ + ⟨τ⟩Σ_n s_n

over observed cells, whatever the number of idle columns. They raise the noise by what they fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.optimize

from bayespca.arrays.types import FloatArray
from bayespca.lowrank.holes import Holes
from bayespca.lowrank.variational import Counts, Hyper, bound_of_latent, bound_of_weights


@dataclass(frozen=True, eq=False)
class IdleColumns:
    """The number of idle columns, their v (d,), and the second parameter of their Q(α)."""

    count: int
    variance: FloatArray
    b_alpha: float


@dataclass(frozen=True, eq=False)
class IdleLatent:
    """Σs over the observed rows of each feature (d,), Σs over all rows, and Σ log s."""

    by_feature: FloatArray
    total: float
    log_det: float


def latent_variance(idle: IdleColumns, tau: float, data: Holes) -> FloatArray:
    """s for each pattern of holes: (m,)."""
    return np.asarray(1 / (1 + tau * data.over_columns(idle.variance)))


def update_idle_latent(idle: IdleColumns, tau: float, data: Holes) -> IdleLatent:
    """Update s, and return its sums."""
    if not idle.count:
        return IdleLatent(np.zeros(data.shape[1]), 0.0, 0.0)
    counts, s = np.diff(data.starts), latent_variance(idle, tau, data)
    return IdleLatent(data.over_patterns(counts * s), float(counts @ s), float(counts @ np.log(s)))


def update_idle_weights(
    idle: IdleColumns, latent: IdleLatent, tau: float, counts: Counts, hyper: Hyper
) -> IdleColumns:
    """Update v together with ⟨α⟩ = (a_α + d/2)/(b_α + ½Σvⱼ).

    Updated one after the other, they would take hundreds of sweeps.
    """
    S = tau * latent.by_feature
    alpha = _relevance(S, counts, hyper) if hyper.alpha is None else hyper.alpha
    variance = 1 / (alpha + S)
    return replace(idle, variance=variance, b_alpha=hyper.b_alpha + 0.5 * float(variance.sum()))


def _relevance(S: FloatArray, counts: Counts, hyper: Hyper) -> float:
    """⟨α⟩ for vⱼ = 1/(⟨α⟩ + Sⱼ).

    The root of b_α⟨α⟩ − a_α = ½ΣSⱼ/(⟨α⟩ + Sⱼ), whose left side rises and whose right side falls.
    """
    a, b = hyper.a_alpha, hyper.b_alpha

    def excess(log_alpha: float) -> float:
        alpha = np.exp(log_alpha)
        return float(b * alpha - a - 0.5 * (S / (alpha + S)).sum())

    least, most = np.log(a / b), np.log((a + 0.5 * counts.d) / b)
    # Rounding may leave no change of sign if S is negligible beside ⟨α⟩, or dominates it.
    if excess(least) >= 0 or excess(most) <= 0:
        return float(np.exp(least if excess(least) >= 0 else most))
    return float(np.exp(scipy.optimize.brentq(excess, least, most, xtol=1e-14)))


def bound_of_one(idle: IdleColumns, latent: IdleLatent, counts: Counts, hyper: Hyper) -> float:
    """Contribution of one idle column to the bound, apart from its part in the residual."""
    size, log_det = np.array([idle.variance.sum()]), float(np.log(idle.variance).sum())
    of_x = bound_of_latent(latent.total, latent.log_det, counts.N)
    b_alpha = np.array([idle.b_alpha])
    return of_x + bound_of_weights(size, log_det, b_alpha, counts, hyper)
