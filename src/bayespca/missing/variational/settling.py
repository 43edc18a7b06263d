"""Change to the coordinates of the latent space in which the bound is highest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.lowrank.holes import Holes
from bayespca.lowrank.rows import RowSums
from bayespca.lowrank.variational import Counts, Hyper, best_turn, precision

from .data import counts_of, prior_mean
from .state import VariationalHolesState


def settled(
    state: VariationalHolesState, on: RowSums, data: Holes, hyper: Hyper
) -> tuple[VariationalHolesState, RowSums]:
    """Shift, turn and stretch the latent space to where the bound is highest."""
    if not state.b_alpha.size:
        return state, on
    if hyper.has_mean:
        state, on = _shifted(state, on, data, hyper)
    return _turned(state, on, counts_of(data), hyper)


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


def _turned(
    state: VariationalHolesState, on: RowSums, counts: Counts, hyper: Hyper
) -> tuple[VariationalHolesState, RowSums]:
    """Replace W by W·R and x by R⁻¹x, for the R with the highest bound."""
    H = state.b_alpha.size
    R = best_turn(on.everything[:H, :H], state.second_weights, counts, hyper)
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
