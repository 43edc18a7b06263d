"""State of the sweeps of Bishop's model with holes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray
from bayespca.lowrank.rows import Columns
from bayespca.lowrank.variational import is_on

from .idle import IdleColumns


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
