"""States of Bishop's model as vectors: weights, and logarithms of their covariance and noise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayespca.arrays.types import FloatArray, Vector
from bayespca.inference.accelerating import StatePoint
from bayespca.lowrank.aligning import FURTHEST, Loadings, change_of_root, logarithm
from bayespca.lowrank.variational import Hyper

from .data import Scatter
from .step import VariationalState, precision


@dataclass(frozen=True, eq=False)
class VariationalChart:
    """W for a latent space of unit variance, turned towards another W; logarithms of the covariance
    of its rows, and of b_τ. The next step sets μ and Q(α).
    """

    data: Scatter
    hyper: Hyper

    def point(self, state: VariationalState, like: Vector | None) -> StatePoint:
        return StatePoint(_loadings(state).aligned(like).vector, self._errors(state))

    def at(self, state: VariationalState, vector: Vector) -> VariationalState:
        here = _loadings(state)
        goal = here.at(vector).turned_to(here.W)
        T = change_of_root(here.spread, goal.spread)
        log_b = np.clip(goal.rest, here.rest - FURTHEST, here.rest + FURTHEST)
        new = replace(
            state,
            W=goal.W,
            W_cov=T @ state.W_cov @ T.T,
            b_tau=float(np.exp(log_b[0])),
            height=-np.inf,
        )
        before, after = _squares(state, self.data), _squares(new, self.data)
        return replace(new, b_alpha=state.b_alpha * after / before)

    def _errors(self, state: VariationalState) -> FloatArray:
        d, N = self.data.d, self.data.N
        error = 1 / np.sqrt(N * precision(state, self.data, self.hyper))
        return np.concatenate(
            [
                np.full(state.W.size, error),
                np.full(state.W_cov.size, np.sqrt(2 / d)),
                [np.sqrt(2 / (N * d))],
            ]
        )


def _loadings(state: VariationalState) -> Loadings:
    return Loadings(state.W, logarithm(state.W_cov), np.log([state.b_tau]))


def _squares(state: VariationalState, data: Scatter) -> FloatArray:
    """⟨‖w‖²⟩ of each column."""
    return np.asarray((state.W**2).sum(axis=0) + data.d * np.diag(state.W_cov))
