"""Idle columns of W in Bishop's model with holes: those that are switched off.

They have mean zero, in W and in X, and no covariance with other columns. So all of them are alike,
with one variance s_n for each sample and one vⱼ for each row of W,

    1/s_n = 1 + ⟨τ⟩Σⱼvⱼ,  1/vⱼ = ⟨α⟩ + ⟨τ⟩Σ_n s_n

over observed cells, whatever the number of idle columns. They raise the noise by what they fit.
Columns may become idle, and an idle one may grow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
import scipy.optimize
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray
from bayespca.lowrank.holes import Holes
from bayespca.lowrank.rows import latent
from bayespca.lowrank.variational import Counts, Hyper, bound_of_latent, bound_of_weights, precision

from .data import counts_of
from .state import IdleColumns, VariationalHolesState


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


# Squared mean over variance of a column below which a sweep without it is tried.
WEAK = 10.0


def with_less(state: VariationalHolesState, hyper: Hyper) -> VariationalHolesState | None:
    """The state without the columns that are switched off, else without the weakest if it is weak.

    A column that is on its way out need not be followed to the end. If α is fixed, a weak column
    may as well be growing, and stays. None if all columns are to stay.
    """
    variance = np.einsum("jhh->h", state.W_cov)
    if not variance.size or not variance.all():  # the iteration has just begun
        return None
    gone = ~state.is_on
    if not gone.any() and hyper.alpha is None:
        strength = np.einsum("jh,jh->h", state.W, state.W) / variance
        gone = (np.arange(gone.size) == strength.argmin()) & (strength < WEAK)
    return made_idle(state, gone) if gone.any() else None


def made_idle(state: VariationalHolesState, gone: NDArray[np.bool_]) -> VariationalHolesState:
    """The state with the columns `gone` moved to the idle ones."""
    idle, keep = state.idle, np.flatnonzero(~gone)
    if not idle.count:
        variance = np.einsum("jhh->jh", state.W_cov)[:, gone].mean(axis=1)
        idle = IdleColumns(0, variance, float(state.b_alpha[gone].mean()))
    return replace(
        state,
        W=state.W[:, keep],
        W_cov=state.W_cov[:, keep[:, None], keep],
        b_alpha=state.b_alpha[keep],
        idle=replace(idle, count=idle.count + int(np.count_nonzero(gone))),
    )


def with_more(
    state: VariationalHolesState, data: Holes, hyper: Hyper
) -> VariationalHolesState | None:
    """The state with one idle column switched on; None if it would become idle again.

    A small mean w of the column leads to means x_n = ⟨τ⟩s_nΣⱼr_njwⱼ, and these lead back to
    wⱼ = ⟨τ⟩vⱼΣ_n r_nj x_n, with r the residuals of observed cells. So the column grows if
    g = ⟨τ⟩·‖(√s_n r_nj √vⱼ)‖ > 1, until s and v have each fallen by about a factor of g. The square
    of w is then (g − 1)/(⟨τ⟩s).
    """
    idle = state.idle
    if not idle.count:
        return None
    tau = precision(state.b_tau, counts_of(data), hyper)
    s = latent_variance(idle, tau, data)[data.pattern]
    mean, _ = latent(data, state.columns(tau))
    residual = np.where(data.mask, data.values - state.mu - mean @ state.W.T, 0.0)
    norm, direction = _leading(np.sqrt(s)[:, None] * residual * np.sqrt(idle.variance))
    g = tau * norm
    if g <= 1:
        return None
    w = np.sqrt(idle.variance) * direction
    w *= np.sqrt((g - 1) / (tau * s.mean())) / np.linalg.norm(w)
    (d, H), variance = state.W.shape, idle.variance
    W_cov = np.zeros((d, H + 1, H + 1))
    W_cov[:, :H, :H], W_cov[:, H, H] = state.W_cov, variance
    b_alpha = hyper.b_alpha + 0.5 * float(w @ w + variance.sum())
    return replace(
        state,
        W=np.concatenate([state.W, w[:, None]], axis=1),
        W_cov=W_cov,
        b_alpha=np.append(state.b_alpha, b_alpha),
        idle=replace(idle, count=idle.count - 1),
    )


def _leading(A: FloatArray) -> tuple[float, FloatArray]:
    """The largest singular value of a matrix, and a right singular vector, not normalised."""
    tall = A.shape[0] >= A.shape[1]
    gram = A.T @ A if tall else A @ A.T
    last = len(gram) - 1
    values, vectors = scipy.linalg.eigh(gram, subset_by_index=[last, last])
    v = vectors[:, 0] if tall else A.T @ vectors[:, 0]
    return float(np.sqrt(max(values[0], 0.0))), v
