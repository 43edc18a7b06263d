"""Switching columns of W: those that may become idle, and an idle one that would grow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray
from bayespca.lowrank.holes import Holes
from bayespca.lowrank.rows import latent
from bayespca.lowrank.variational import Hyper, precision

from .data import counts_of
from .idle import IdleColumns, latent_variance
from .state import VariationalHolesState

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
    return _with_column(state, w, hyper)


def _leading(A: FloatArray) -> tuple[float, FloatArray]:
    """The largest singular value of a matrix, and a right singular vector, not normalised."""
    tall = A.shape[0] >= A.shape[1]
    gram = A.T @ A if tall else A @ A.T
    last = len(gram) - 1
    values, vectors = scipy.linalg.eigh(gram, subset_by_index=[last, last])
    v = vectors[:, 0] if tall else A.T @ vectors[:, 0]
    return float(np.sqrt(max(values[0], 0.0))), v


def _with_column(
    state: VariationalHolesState, w: FloatArray, hyper: Hyper
) -> VariationalHolesState:
    """The state with one idle column switched on, with mean w."""
    (d, H), idle = state.W.shape, state.idle
    W_cov = np.zeros((d, H + 1, H + 1))
    W_cov[:, :H, :H], W_cov[:, H, H] = state.W_cov, idle.variance
    b_alpha = hyper.b_alpha + 0.5 * float(w @ w + idle.variance.sum())
    return replace(
        state,
        W=np.concatenate([state.W, w[:, None]], axis=1),
        W_cov=W_cov,
        b_alpha=np.append(state.b_alpha, b_alpha),
        idle=replace(idle, count=idle.count - 1),
    )
