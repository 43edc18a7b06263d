"""State of the sweeps of Bishop's model with holes, and its coordinates."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.packing import turned
from bayespca.arrays.types import FloatArray, Vector
from bayespca.inference.accelerating import StatePoint
from bayespca.lowrank.aligning import FURTHEST, Loadings, change_of_root, logarithm
from bayespca.lowrank.holes import Holes
from bayespca.lowrank.rows import Columns
from bayespca.lowrank.variational import Hyper, is_on, precision

from .data import counts_of


@dataclass(frozen=True, eq=False)
class IdleColumns:
    """The number of idle columns, their v (d,), and the second parameter of their Q(α)."""

    count: int
    variance: FloatArray
    b_alpha: float


@dataclass(frozen=True, eq=False)
class VariationalHolesState:
    """Q(W), Q(μ), Q(α) and Q(τ); Q(X) follows from these.

    Q(W) has a mean and a covariance for each row, over the columns that are not `idle`; Q(μ) has a
    mean and a variance for each entry; Q(α) and Q(τ) are given by their second parameters. `height`
    is the bound, if known.
    """

    W: FloatArray
    W_cov: FloatArray
    mu: FloatArray
    mu_variance: FloatArray
    b_alpha: FloatArray
    b_tau: float
    idle: IdleColumns
    height: float = -np.inf

    @property
    def is_on(self) -> NDArray[np.bool_]:
        """Which columns of W are not switched off."""
        return is_on(self.W, np.einsum("jhh->h", self.W_cov))

    @property
    def second_weights(self) -> FloatArray:
        """⟨WᵀW⟩"""
        return np.asarray(self.W.T @ self.W + self.W_cov.sum(axis=0))

    def columns(self, tau: float) -> Columns:
        """The moments of (W, μ) and the noise that the update of rows needs."""
        d, H = self.W.shape
        b_cov = np.zeros((d, H + 1, H + 1))
        b_cov[:, :H, :H], b_cov[:, H, H] = self.W_cov, self.mu_variance
        b = np.concatenate([self.W, self.mu[:, None]], axis=1)
        return Columns(b, b_cov, np.ones(H), 1 / tau)


@dataclass(frozen=True, eq=False)
class VariationalHolesChart:
    """Coordinates of a state: W, the logarithm of the summed covariance of its rows, μ, log b_τ.

    W is for a latent space of unit variance, and turned to be like another one. Idle columns stay
    as they are; Q(α) is rescaled with W. The bound stays that of the step before, because its rise
    decides when one more column may be tried.
    """

    data: Holes
    hyper: Hyper

    def point(self, state: VariationalHolesState, like: Vector | None) -> StatePoint | None:
        if not np.einsum("jhh->h", state.W_cov).all():  # the iteration has just begun
            return None
        return StatePoint(_loadings(state).aligned(like).vector, self._errors(state))

    def at(self, state: VariationalHolesState, vector: Vector) -> VariationalHolesState:
        here = _loadings(state)
        goal = here.at(vector).turned_to(here.W)
        mean, log_b = goal.rest[:-1], float(here.rest[-1])
        log_b = float(np.clip(goal.rest[-1], log_b - FURTHEST, log_b + FURTHEST))
        new = replace(
            state,
            W=goal.W,
            W_cov=turned(state.W_cov, change_of_root(here.spread, goal.spread)),
            mu=mean if self.hyper.has_mean else state.mu,
            b_tau=float(np.exp(log_b)),
        )
        before, after = (np.diag(one.second_weights) for one in (state, new))
        return replace(new, b_alpha=state.b_alpha * after / before)

    def _errors(self, state: VariationalHolesState) -> FloatArray:
        counts = counts_of(self.data)
        d, H = state.W.shape
        error = 1 / np.sqrt(counts.N * precision(state.b_tau, counts, self.hyper))
        spread = np.full(H * H, np.sqrt(2 / d))
        noise = np.sqrt(2 / max(counts.cells, 1))
        return np.concatenate([np.full(d * H, error), spread, np.full(d, error), [noise]])


def _loadings(state: VariationalHolesState) -> Loadings:
    rest = np.append(state.mu, np.log(state.b_tau))
    return Loadings(state.W, logarithm(state.W_cov.sum(axis=0)), rest)
