"""Bishop's variational principal components (icann1999) for a matrix with holes.

The model and Q(X)Q(W)Q(α)Q(μ)Q(τ) are those of `inference.hierarchy`, with sums over observed cells
in place of all (Eq. 16–20): each sample has a covariance of its own, and each row of W. Data are
taken less their column means, so that the prior of μ is about minus these.

W and μ are found together, which their means allow though Q keeps them apart. After each sweep the
latent space is shifted, turned and stretched to where the bound is highest: the likelihood depends
on the shift through the covariances of W alone.

Columns that are switched off are all alike, and one stands for the rest (`off`): a sweep costs what
the columns cost that are on. Which are on is tried: a sweep without a weak column, or with one more
that would grow, is taken where it leads higher.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from bayespca.arrays.packing import inverses
from bayespca.arrays.types import FloatArray
from bayespca.inference.loop import Info
from bayespca.inference.rounding import is_rounding
from bayespca.lowrank import variational as hierarchy
from bayespca.lowrank.filling import all_kept, fill
from bayespca.lowrank.holes import Holes
from bayespca.lowrank.rows import Columns, RowSums, sums_over_rows
from bayespca.lowrank.rows import latent as latent_of
from bayespca.lowrank.variational import Counts, Hyper
from bayespca.spectrum.solving import solve
from bayespca.spectrum.tolerances import LEAST_NOISE_AT_START, ROUNDING, START_NOISE

from .off import (
    Off,
    OffLatent,
    bound_of_one,
    latent_variance,
    update_off_latent,
    update_off_weights,
)

# Relative rise of the bound below which it is seen whether one more column would grow.
NEARLY = 1e-6
# Squared mean over variance of a column below which it is worth to try a sweep without it.
WEAK = 10.0
# Sweeps over the columns that are off alone, before the first over all.
SWEEPS_OVER_OFF = 5


@dataclass(frozen=True, eq=False)
class State:
    """Q(W): mean and covariance of each row, of the columns that are not in `off`; mean and
    variance of each entry of μ; Q(α) and Q(τ) by their second parameters. X follows from it.
    `height` is the bound, where it is known.
    """

    W: FloatArray
    W_cov: FloatArray
    mu: FloatArray
    mu_variance: FloatArray
    b_alpha: FloatArray
    b_tau: float
    off: Off
    height: float = -np.inf


@dataclass(frozen=True, eq=False)
class Latent:
    """What the rest of a sweep needs to know of Q(X)."""

    on: RowSums
    off: OffLatent


def counts_of(data: Holes) -> Counts:
    N, d = data.shape
    return Counts(N, d, int(data.column_counts.sum()))


def prior_mean(data: Holes) -> FloatArray:
    """Of μ, which is 0 in the coordinates of the user, in those of `data`."""
    return np.asarray(-data.location / data.unit)


def _squares(data: Holes) -> float:
    """Σt² over observed cells, about the prior mean of μ: what cancels in the residual."""
    return float(data.squares.sum() + data.column_counts @ prior_mean(data) ** 2)


# --- starts ------------------------------------------------------------------------------------


def start(data: Holes, hyper: Hyper, q: int) -> State:
    """From the closed form of the matrix, its holes filled by itself a few times.

    Some columns more than that shows are on; they are switched off if they do not pay.
    """
    filled = fill(data, most=q)
    right, spread, noise = filled.right, filled.spread, filled.noise_variance
    if hyper.alpha is not None:
        # A fixed α keeps more columns than a learned one.
        plan = partial(solve, method="vb", prior_variance=1 / hyper.alpha)
        right, spread, noise = all_kept(filled, data, plan, most=q)
        noise = max(noise, LEAST_NOISE_AT_START)
    size = np.sqrt(np.maximum(spread, 1e-6))
    return _started((right * size[:, None]).T, noise, data, hyper, q)


def random_start(data: Holes, hyper: Hyper, q: int, rng: np.random.Generator) -> State:
    """All columns of W from normal draws of the size of the data, as for complete data."""
    variance = float(data.squares.sum() / data.column_counts.sum()) or 1.0
    d = data.shape[1]
    W = np.sqrt(variance / q) * rng.normal(size=(d, q)) if q else np.zeros((d, 0))
    return _started(W, START_NOISE * variance, data, hyper, q)


def _started(W: FloatArray, noise: float, data: Holes, hyper: Hyper, q: int) -> State:
    """W without covariances, μ at the means of the data, and the other columns off."""
    d, H = W.shape
    counts = counts_of(data)
    tau = 1 / noise
    variance = 1 / (hyper.beta + tau * data.column_counts) if hyper.has_mean else np.zeros(d)
    off = Off(q - H, np.full(d, noise / data.shape[0]), hyper.b_alpha + 0.5 * noise)
    for _ in range(SWEEPS_OVER_OFF if off.count else 0):
        off = update_off_weights(off, update_off_latent(off, tau, data), tau, counts, hyper)
    return State(
        W=W,
        W_cov=np.zeros((d, H, H)),
        mu=np.zeros(d),
        mu_variance=variance,
        b_alpha=hyper.b_alpha + 0.5 * (W**2).sum(axis=0),
        b_tau=noise * hierarchy.shape_tau(counts, hyper),
        off=off,
    )


# --- one sweep ---------------------------------------------------------------------------------


def step(state: State, data: Holes, hyper: Hyper) -> tuple[State, Info]:
    """A sweep, from here or with other columns on, whichever leads higher.

    Without columns that are switched off, or the weakest; or, when all have nearly settled, with
    one more that would grow.
    """
    new = sweep(state, data, hyper)
    others = [_with_less(state, hyper)]
    if new.height - state.height <= NEARLY * abs(new.height):
        others.append(_with_more(state, data, hyper))
    for other in others:
        if other is not None:
            new = max(sweep(other, data, hyper), new, key=lambda found: found.height)
    tau = hierarchy.precision(new.b_tau, counts_of(data), hyper)
    if is_rounding(-state.height, -new.height, _squares(data), tau):
        new = state
    noise = 1 / hierarchy.precision(new.b_tau, counts_of(data), hyper)
    return new, Info(-new.height, int(np.count_nonzero(is_on(new))), noise)


def sweep(state: State, data: Holes, hyper: Hyper) -> State:
    """Q(X), Q(W) and Q(μ), the best coordinates, Q(α), Q(τ)."""
    latent = update_latent(state, data, hyper)
    state = update_weights(state, latent, data, hyper)
    state, on = settled(state, latent.on, data, hyper)
    latent = replace(latent, on=on)
    state = update_gammas(state, latent, data, hyper)
    return replace(state, height=bound(state, latent, data, hyper))


def is_on(state: State) -> NDArray[np.bool_]:
    """Which columns of `state.W` are not switched off."""
    return hierarchy.is_on(state.W, np.einsum("jhh->h", state.W_cov))


def update_latent(state: State, data: Holes, hyper: Hyper) -> Latent:
    """Q(X): Σ_n = (I + ⟨τ⟩Σⱼ⟨wⱼwⱼᵀ⟩)⁻¹, m_n = ⟨τ⟩Σ_nΣⱼ⟨wⱼ⟩(t_nj − ⟨μⱼ⟩) (Eq. 16)."""
    tau = hierarchy.precision(state.b_tau, counts_of(data), hyper)
    on = sums_over_rows(data, columns_of(state, tau), share=1.0)
    return Latent(on, update_off_latent(state.off, tau, data))


def columns_of(state: State, tau: float) -> Columns:
    """What rows need to know of a state."""
    d, H = state.W.shape
    b_cov = np.zeros((d, H + 1, H + 1))
    b_cov[:, :H, :H], b_cov[:, H, H] = state.W_cov, state.mu_variance
    b = np.concatenate([state.W, state.mu[:, None]], axis=1)
    return Columns(b, b_cov, np.ones(H), 1 / tau)


def update_weights(state: State, latent: Latent, data: Holes, hyper: Hyper) -> State:
    """Q(W) and Q(μ) (Eq. 17, 18), their means together.

    Σⱼ = (diag⟨α⟩ + ⟨τ⟩Σ_n⟨xxᵀ⟩)⁻¹ and 1/(β + ⟨τ⟩nⱼ) are the covariances; the means solve
    ⟨wⱼ⟩ = Σⱼ⟨τ⟩Σ_n(t − ⟨μⱼ⟩)⟨x⟩ and (β + ⟨τ⟩nⱼ)⟨μⱼ⟩ = βm + ⟨τ⟩Σ_n(t − ⟨wⱼ⟩ᵀ⟨x⟩), m the prior mean.
    """
    counts = counts_of(data)
    tau, H = hierarchy.precision(state.b_tau, counts, hyper), state.b_alpha.size
    second, cross = tau * latent.on.second, tau * latent.on.cross
    alpha = hierarchy.relevance(state.b_alpha, counts, hyper)
    W_cov, _ = inverses(second[:, :H, :H] + np.diag(alpha))
    alone = np.einsum("jhk,jk->jh", W_cov, cross[:, :H])
    off = update_off_weights(state.off, latent.off, tau, counts, hyper)
    if not hyper.has_mean:
        return replace(state, W=alone, W_cov=W_cov, off=off)
    along = second[:, :H, H]
    pull = np.einsum("jhk,jk->jh", W_cov, along)
    own = hyper.beta + second[:, H, H]
    free = own - np.einsum("jh,jh->j", along, pull)
    wanted = hyper.beta * prior_mean(data) + cross[:, H] - np.einsum("jh,jh->j", along, alone)
    mu = wanted / free
    W = alone - pull * mu[:, None]
    return replace(state, W=W, W_cov=W_cov, mu=mu, mu_variance=1 / own, off=off)


def update_gammas(state: State, latent: Latent, data: Holes, hyper: Hyper) -> State:
    """Q(α) of the columns that are not off, and Q(τ) (Eq. 19, 20)."""
    state = replace(state, b_alpha=hyper.b_alpha + 0.5 * np.diag(_second_weights(state)))
    return replace(state, b_tau=hyper.b_tau + 0.5 * _residual(state, latent, data))


def _second_weights(state: State) -> FloatArray:
    """⟨WᵀW⟩"""
    return np.asarray(state.W.T @ state.W + state.W_cov.sum(axis=0))


def _residual(state: State, latent: Latent, data: Holes) -> float:
    """Σ⟨(t − wᵀx − μ)²⟩ over observed cells."""
    columns = columns_of(state, 1.0)
    fitted = -2 * float(np.einsum("jh,jh->", latent.on.cross, columns.b))
    product = float(np.einsum("jhk,jhk->", columns.second, latent.on.second))
    off = state.off.count * float(latent.off.by_feature @ state.off.variance)
    squares = float(data.squares.sum())
    return max(squares + fitted + product + off, ROUNDING * squares)


# --- which columns are on ----------------------------------------------------------------------


def _with_less(state: State, hyper: Hyper) -> State | None:
    """Without the columns that are switched off, else without the weakest if it is weak.

    A column on its way to be switched off need not go all of it. Where α is fixed it may as well be
    on its way back, and is left alone. None where all are to stay.
    """
    variance = np.einsum("jhh->h", state.W_cov)
    if not variance.size or not variance.all():  # the iteration has just begun
        return None
    gone = ~is_on(state)
    if not gone.any() and hyper.alpha is None:
        strength = np.einsum("jh,jh->h", state.W, state.W) / variance
        gone = (np.arange(gone.size) == strength.argmin()) & (strength < WEAK)
    return switched_off(state, gone) if gone.any() else None


def switched_off(state: State, gone: NDArray[np.bool_]) -> State:
    """The state with some of its columns among those that are off."""
    off, keep = state.off, np.flatnonzero(~gone)
    if not off.count:
        variance = np.einsum("jhh->jh", state.W_cov)[:, gone].mean(axis=1)
        off = Off(0, variance, float(state.b_alpha[gone].mean()))
    return replace(
        state,
        W=state.W[:, keep],
        W_cov=state.W_cov[:, keep[:, None], keep],
        b_alpha=state.b_alpha[keep],
        off=replace(off, count=off.count + int(np.count_nonzero(gone))),
    )


def _with_more(state: State, data: Holes, hyper: Hyper) -> State | None:
    """With one of the columns that are off on, None if it would go off again.

    A small mean w of it leads to means x_n = ⟨τ⟩s_nΣⱼr_njwⱼ, and these to wⱼ = ⟨τ⟩vⱼΣ_n r_nj x_n, r
    the residuals of observed cells: it grows if g = ⟨τ⟩·‖(√s_n r_nj √vⱼ)‖ > 1. It does so until s
    and v have fallen, about by a factor g each way, for which the square of w is (g − 1)/(⟨τ⟩s).
    """
    off = state.off
    if not off.count:
        return None
    tau = hierarchy.precision(state.b_tau, counts_of(data), hyper)
    s = latent_variance(off, tau, data)[data.pattern]
    mean, _ = latent_of(data, columns_of(state, tau))
    residual = np.where(data.mask, data.values - state.mu - mean @ state.W.T, 0.0)
    norm, direction = _leading(np.sqrt(s)[:, None] * residual * np.sqrt(off.variance))
    g = tau * norm
    if g <= 1:
        return None
    w = np.sqrt(off.variance) * direction
    w *= np.sqrt((g - 1) / (tau * s.mean())) / np.linalg.norm(w)
    return _with_column(state, w, hyper)


def _leading(A: FloatArray) -> tuple[float, FloatArray]:
    """The largest singular value of a matrix, and its right vector."""
    tall = A.shape[0] >= A.shape[1]
    gram = A.T @ A if tall else A @ A.T
    last = len(gram) - 1
    values, vectors = scipy.linalg.eigh(gram, subset_by_index=[last, last])
    v = vectors[:, 0] if tall else A.T @ vectors[:, 0]
    return float(np.sqrt(max(values[0], 0.0))), v


def _with_column(state: State, w: FloatArray, hyper: Hyper) -> State:
    """The state with one of the columns that are off on, its mean w."""
    (d, H), off = state.W.shape, state.off
    W_cov = np.zeros((d, H + 1, H + 1))
    W_cov[:, :H, :H], W_cov[:, H, H] = state.W_cov, off.variance
    b_alpha = hyper.b_alpha + 0.5 * float(w @ w + off.variance.sum())
    return replace(
        state,
        W=np.concatenate([state.W, w[:, None]], axis=1),
        W_cov=W_cov,
        b_alpha=np.append(state.b_alpha, b_alpha),
        off=replace(off, count=off.count - 1),
    )


# --- coordinates of the latent space -----------------------------------------------------------


def settled(state: State, on: RowSums, data: Holes, hyper: Hyper) -> tuple[State, RowSums]:
    """The latent space shifted, turned and stretched to where the bound is highest."""
    if not state.b_alpha.size:
        return state, on
    if hyper.has_mean:
        state, on = _shifted(state, on, data, hyper)
    return _turned(state, on, counts_of(data), hyper)


def _shifted(state: State, on: RowSums, data: Holes, hyper: Hyper) -> tuple[State, RowSums]:
    """x − c, and μ + ⟨W⟩c, for the c with the highest bound.

    It solves (N + β⟨W⟩ᵀ⟨W⟩ + ⟨τ⟩ΣⱼnⱼCⱼ)c = Σ_n⟨x⟩ − β⟨W⟩ᵀ(⟨μ⟩ − m) + ⟨τ⟩ΣⱼCⱼΣ_n⟨x⟩, with Cⱼ the
    covariance of a row of W and the last sum over the samples that are observed there.
    """
    counts, H, W = counts_of(data), state.b_alpha.size, state.W
    tau = hierarchy.precision(state.b_tau, counts, hyper)
    means, n = on.second[:, :H, H], on.second[:, H, H]
    matrix = counts.N * np.eye(H) + hyper.beta * W.T @ W
    matrix += tau * np.einsum("j,jhk->hk", n, state.W_cov)
    wanted = on.everything[:H, H] - hyper.beta * W.T @ (state.mu - prior_mean(data))
    wanted += tau * np.einsum("jhk,jk->h", state.W_cov, means)
    c = np.linalg.solve(matrix, wanted)
    change = np.eye(H + 1)
    change[:H, H] = -c
    return replace(state, mu=state.mu + W @ c), _changed(on, change)


def _turned(state: State, on: RowSums, counts: Counts, hyper: Hyper) -> tuple[State, RowSums]:
    """W·R, and R⁻¹x."""
    H = state.b_alpha.size
    R = hierarchy.best_turn(on.everything[:H, :H], _second_weights(state), counts, hyper)
    if R is None:
        return state, on
    change = np.eye(H + 1)
    change[:H, :H] = np.linalg.inv(R)
    log_det = on.log_det - 2 * counts.N * float(np.linalg.slogdet(R)[1])
    state = replace(state, W=state.W @ R, W_cov=R.T @ state.W_cov @ R)
    return state, replace(_changed(on, change), log_det=log_det)


def _changed(on: RowSums, change: FloatArray) -> RowSums:
    """The sums for `change`·(x, 1) in place of (x, 1)."""
    return replace(
        on,
        second=change @ on.second @ change.T,
        cross=on.cross @ change.T,
        everything=change @ on.everything @ change.T,
    )


# --- the bound ---------------------------------------------------------------------------------


def bound(state: State, latent: Latent, data: Holes, hyper: Hyper) -> float:
    """L(Q) = ⟨ln P(D, X, W, α, μ, τ)⟩ − ⟨ln Q⟩ (Eq. 10), term by term."""
    counts, H = counts_of(data), state.b_alpha.size
    residual = _residual(state, latent, data)
    total = hierarchy.bound_of_data(residual, state.b_tau, counts, hyper)
    trace = float(np.trace(latent.on.everything[:H, :H]))
    total += hierarchy.bound_of_latent(trace, latent.on.log_det, counts.N * H)
    sizes, log_det = np.diag(_second_weights(state)), float(np.linalg.slogdet(state.W_cov)[1].sum())
    total += hierarchy.bound_of_weights(sizes, log_det, state.b_alpha, counts, hyper)
    if hyper.has_mean:
        off = state.mu - prior_mean(data)
        square = float(off @ off + state.mu_variance.sum())
        log_det = float(np.log(state.mu_variance).sum())
        total += hierarchy.bound_of_mean(square, log_det, counts, hyper)
    if state.off.count:
        total += state.off.count * bound_of_one(state.off, latent.off, counts, hyper)
    return total
