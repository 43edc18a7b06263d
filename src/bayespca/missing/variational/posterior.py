"""Results of Bishop's model with holes, for all columns and in the units of the data."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray
from bayespca.lowrank.holes_posterior import HolesPosterior
from bayespca.lowrank.variational import Hyper, posterior_of_weights, precision, relevance

from .data import VariationalTable, counts_of
from .state import VariationalHolesState


def posterior(
    state: VariationalHolesState, table: VariationalTable, hyper: Hyper, dtype: str
) -> HolesPosterior:
    """Posterior of the columns that are on, largest first; `hyper` is in the units of the data."""
    k, p = int(np.count_nonzero(state.is_on)), table.live.size
    kept = strongest(state)[:k]
    # A column without values keeps the prior; the loadings of one that does not vary are 0.
    cov = np.zeros((p, k, k))
    cov[table.live] = state.W_cov[:, kept[:, None], kept] * table.unit**2
    cov[~table.seen] = np.diag(1 / alphas(state, table, hyper)[:k])
    noise = noise_variance(state, table, hyper)
    mean, variance = np.zeros(p), np.zeros(p)
    if hyper.has_mean:
        # Columns that take no part have Q(μ) from their values alone.
        X, live = table.X, table.live
        counts = np.count_nonzero(~np.isnan(X), axis=0)
        mean = np.where(table.constant, np.where(np.isnan(X), -np.inf, X).max(axis=0), 0.0)
        variance = 1 / (hyper.beta + counts / noise)
        mean[live] = table.rows.location + state.mu * table.unit
        variance[live] = state.mu_variance * table.unit**2
    return posterior_of_weights(
        weights(state, table)[:, :k],
        cov,
        mean=mean,
        mean_variance=variance,
        noise_variance=noise,
        dtype=dtype,
    )


def strongest(state: VariationalHolesState) -> NDArray[np.intp]:
    """The order of the columns that are not idle: those that are on first, by size."""
    return np.lexsort((-np.linalg.norm(state.W, axis=0), ~state.is_on))


def weights(state: VariationalHolesState, table: VariationalTable) -> FloatArray:
    """⟨W⟩ in the order of `strongest`, followed by the idle columns: (p, q)."""
    q = state.b_alpha.size + state.idle.count
    found = np.zeros((table.live.size, q))
    found[table.live, : state.b_alpha.size] = state.W[:, strongest(state)] * table.unit
    return found


def alphas(state: VariationalHolesState, table: VariationalTable, hyper: Hyper) -> FloatArray:
    """⟨α⟩ of the columns of `weights`."""
    idle, inner = state.idle, hyper.in_units(table.unit)
    b_alpha = np.append(state.b_alpha[strongest(state)], np.full(idle.count, idle.b_alpha))
    return relevance(b_alpha, counts_of(table.rows), inner) / table.unit**2


def noise_variance(state: VariationalHolesState, table: VariationalTable, hyper: Hyper) -> float:
    """1/⟨τ⟩"""
    inner = hyper.in_units(table.unit)
    return table.unit**2 / precision(state.b_tau, counts_of(table.rows), inner)
