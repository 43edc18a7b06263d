"""Bishop's variational principal components (icann1999) for a matrix with holes.

The model and Q(X)Q(W)Q(α)Q(μ)Q(τ) are those of `lowrank.variational`, with sums over observed cells
in place of all (Eq. 16–20): each sample and each row of W has a covariance of its own. Column means
are subtracted from the data, so the prior of μ is centred at minus these means.

The means of W and μ are solved for together, although Q factorises over them. After each sweep the
latent space is shifted, turned and stretched to where the bound is highest: the likelihood depends
on the shift only through the covariances of W.

Idle columns are all alike, and one stands for the rest (`idle`), so a sweep costs only what the
other columns cost. Trial sweeps decide which columns are idle: a sweep without a weak column, or
with one more that would grow, is kept if it leads higher.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayespca.arrays.packing import inverses
from bayespca.arrays.types import FloatArray
from bayespca.inference.loop import Info, is_rounding
from bayespca.lowrank.holes import Holes
from bayespca.lowrank.rows import RowSums, sums_over_rows
from bayespca.lowrank.variational import (
    Hyper,
    best_turn,
    bound_of_data,
    bound_of_latent,
    bound_of_mean,
    bound_of_weights,
    precision,
    relevance,
)
from bayespca.spectrum.tolerances import ROUNDING

from .data import counts_of, prior_mean, squares_about_prior
from .idle import (
    IdleLatent,
    bound_of_one,
    update_idle_latent,
    update_idle_weights,
    with_less,
    with_more,
)
from .state import VariationalHolesState

# Relative rise of the bound below which one more column is tried.
NEARLY = 1e-6


@dataclass(frozen=True, eq=False)
class HolesLatent:
    """Sums over Q(X) that the rest of a sweep needs, for columns that are on and for idle ones."""

    on: RowSums
    idle: IdleLatent


def step(
    state: VariationalHolesState, data: Holes, hyper: Hyper
) -> tuple[VariationalHolesState, Info]:
    """One sweep, from this state or with other columns on, whichever leads higher.

    Alternatives are a sweep without the columns that are switched off, or without the weakest, and,
    once all have nearly settled, a sweep with one more column that would grow.
    """
    new = sweep(state, data, hyper)
    others = [with_less(state, hyper)]
    if new.height - state.height <= NEARLY * abs(new.height):
        others.append(with_more(state, data, hyper))
    for other in others:
        if other is not None:
            new = max(sweep(other, data, hyper), new, key=lambda found: found.height)
    tau = precision(new.b_tau, counts_of(data), hyper)
    if is_rounding(-state.height, -new.height, squares_about_prior(data), tau):
        new = state
    noise = 1 / precision(new.b_tau, counts_of(data), hyper)
    return new, Info(-new.height, int(np.count_nonzero(new.is_on)), noise)


def sweep(state: VariationalHolesState, data: Holes, hyper: Hyper) -> VariationalHolesState:
    """Update Q(X), Q(W) and Q(μ), the coordinates, Q(α) and Q(τ), in this order."""
    latent = update_latent(state, data, hyper)
    state = update_weights(state, latent, data, hyper)
    state, on = settled(state, latent.on, data, hyper)
    latent = replace(latent, on=on)
    state = update_gammas(state, latent, data, hyper)
    return replace(state, height=bound(state, latent, data, hyper))


def update_latent(state: VariationalHolesState, data: Holes, hyper: Hyper) -> HolesLatent:
    """Q(X): Σ_n = (I + ⟨τ⟩Σⱼ⟨wⱼwⱼᵀ⟩)⁻¹, m_n = ⟨τ⟩Σ_nΣⱼ⟨wⱼ⟩(t_nj − ⟨μⱼ⟩) (Eq. 16)."""
    tau = precision(state.b_tau, counts_of(data), hyper)
    on = sums_over_rows(data, state.columns(tau), share=1.0)
    return HolesLatent(on, update_idle_latent(state.idle, tau, data))


def update_weights(
    state: VariationalHolesState, latent: HolesLatent, data: Holes, hyper: Hyper
) -> VariationalHolesState:
    """Q(W) and Q(μ) (Eq. 17, 18), their means together.

    Σⱼ = (diag⟨α⟩ + ⟨τ⟩Σ_n⟨xxᵀ⟩)⁻¹ and 1/(β + ⟨τ⟩nⱼ) are the covariances; the means solve
    ⟨wⱼ⟩ = Σⱼ⟨τ⟩Σ_n(t − ⟨μⱼ⟩)⟨x⟩ and (β + ⟨τ⟩nⱼ)⟨μⱼ⟩ = βm + ⟨τ⟩Σ_n(t − ⟨wⱼ⟩ᵀ⟨x⟩), m the prior mean.
    """
    counts = counts_of(data)
    tau, H = precision(state.b_tau, counts, hyper), state.b_alpha.size
    second, cross = tau * latent.on.second, tau * latent.on.cross
    alpha = relevance(state.b_alpha, counts, hyper)
    W_cov, _ = inverses(second[:, :H, :H] + np.diag(alpha))
    alone = np.einsum("jhk,jk->jh", W_cov, cross[:, :H])
    idle = update_idle_weights(state.idle, latent.idle, tau, counts, hyper)
    if not hyper.has_mean:
        return replace(state, W=alone, W_cov=W_cov, idle=idle)
    along = second[:, :H, H]
    pull = np.einsum("jhk,jk->jh", W_cov, along)
    own = hyper.beta + second[:, H, H]
    free = own - np.einsum("jh,jh->j", along, pull)
    wanted = hyper.beta * prior_mean(data) + cross[:, H] - np.einsum("jh,jh->j", along, alone)
    mu = wanted / free
    W = alone - pull * mu[:, None]
    return replace(state, W=W, W_cov=W_cov, mu=mu, mu_variance=1 / own, idle=idle)


def update_gammas(
    state: VariationalHolesState, latent: HolesLatent, data: Holes, hyper: Hyper
) -> VariationalHolesState:
    """Q(α) of the columns that are not idle, and Q(τ) (Eq. 19, 20)."""
    state = replace(state, b_alpha=hyper.b_alpha + 0.5 * np.diag(state.second_weights))
    return replace(state, b_tau=hyper.b_tau + 0.5 * _residual(state, latent, data))


def _residual(state: VariationalHolesState, latent: HolesLatent, data: Holes) -> float:
    """Σ⟨(t − wᵀx − μ)²⟩ over observed cells."""
    columns = state.columns(1.0)
    fitted = -2 * float(np.einsum("jh,jh->", latent.on.cross, columns.b))
    product = float(np.einsum("jhk,jhk->", columns.second, latent.on.second))
    of_idle = state.idle.count * float(latent.idle.by_feature @ state.idle.variance)
    squares = float(data.squares.sum())
    return max(squares + fitted + product + of_idle, ROUNDING * squares)


# --- the bound ---------------------------------------------------------------------------------


def bound(state: VariationalHolesState, latent: HolesLatent, data: Holes, hyper: Hyper) -> float:
    """L(Q) = ⟨ln P(D, X, W, α, μ, τ)⟩ − ⟨ln Q⟩ (Eq. 10), term by term."""
    counts, H = counts_of(data), state.b_alpha.size
    residual = _residual(state, latent, data)
    total = bound_of_data(residual, state.b_tau, counts, hyper)
    trace = float(np.trace(latent.on.everything[:H, :H]))
    total += bound_of_latent(trace, latent.on.log_det, counts.N * H)
    sizes, log_det = np.diag(state.second_weights), float(np.linalg.slogdet(state.W_cov)[1].sum())
    total += bound_of_weights(sizes, log_det, state.b_alpha, counts, hyper)
    if hyper.has_mean:
        away = state.mu - prior_mean(data)
        square = float(away @ away + state.mu_variance.sum())
        log_det = float(np.log(state.mu_variance).sum())
        total += bound_of_mean(square, log_det, counts, hyper)
    if state.idle.count:
        total += state.idle.count * bound_of_one(state.idle, latent.idle, counts, hyper)
    return total


def settled(
    state: VariationalHolesState, on: RowSums, data: Holes, hyper: Hyper
) -> tuple[VariationalHolesState, RowSums]:
    """Shift, turn and stretch the latent space to where the bound is highest."""
    if not state.b_alpha.size:
        return state, on
    if hyper.has_mean:
        state, on = _shifted(state, on, data, hyper)
    H, counts = state.b_alpha.size, counts_of(data)
    R = best_turn(on.everything[:H, :H], state.second_weights, counts, hyper)
    if R is None:
        return state, on
    # W·R and R⁻¹x replace W and x.
    change = np.eye(H + 1)
    change[:H, :H] = np.linalg.inv(R)
    log_det = on.log_det - 2 * counts.N * float(np.linalg.slogdet(R)[1])
    state = replace(state, W=state.W @ R, W_cov=R.T @ state.W_cov @ R)
    return state, replace(_changed(on, change), log_det=log_det)


def _shifted(
    state: VariationalHolesState, on: RowSums, data: Holes, hyper: Hyper
) -> tuple[VariationalHolesState, RowSums]:
    """Replace x by x − c and μ by μ + ⟨W⟩c, for the c with the highest bound.

    It solves (N + β⟨W⟩ᵀ⟨W⟩ + ⟨τ⟩ΣⱼnⱼCⱼ)c = Σ_n⟨x⟩ − β⟨W⟩ᵀ(⟨μ⟩ − m) + ⟨τ⟩ΣⱼCⱼΣ_n⟨x⟩, with Cⱼ the
    covariance of row j of W and the last sum over the samples observed in feature j.
    """
    counts, H, W = counts_of(data), state.b_alpha.size, state.W
    tau = precision(state.b_tau, counts, hyper)
    means, n = on.second[:, :H, H], on.second[:, H, H]
    matrix = counts.N * np.eye(H) + hyper.beta * W.T @ W
    matrix += tau * np.einsum("j,jhk->hk", n, state.W_cov)
    wanted = on.everything[:H, H] - hyper.beta * W.T @ (state.mu - prior_mean(data))
    wanted += tau * np.einsum("jhk,jk->h", state.W_cov, means)
    c = np.linalg.solve(matrix, wanted)
    change = np.eye(H + 1)
    change[:H, H] = -c
    return replace(state, mu=state.mu + W @ c), _changed(on, change)


def _changed(on: RowSums, change: FloatArray) -> RowSums:
    """The sums for `change`·(x, 1) in place of (x, 1)."""
    return replace(
        on,
        second=change @ on.second @ change.T,
        cross=on.cross @ change.T,
        everything=change @ on.everything @ change.T,
    )
