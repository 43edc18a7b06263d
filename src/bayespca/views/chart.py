"""States of several views as vectors, for acceleration."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayespca.arrays.packing import turned
from bayespca.arrays.types import FloatArray, Index, Vector
from bayespca.inference.accelerating import StatePoint
from bayespca.lowrank.aligning import FURTHEST, change_of_root, logarithm
from bayespca.spectrum.tolerances import LEAST_NOISE_WITH_HOLES

from .data import Mask, ViewsTable
from .state import ViewsState


@dataclass(frozen=True, eq=False)
class ViewsChart:
    """Vectors of (B, μ) for the factors in each view, the logarithm of each view's covariance of
    loadings summed over columns, and log σ².

    The model determines the rotation, so vectors are not aligned. The covariances of all columns of
    a view are changed alike; a step restores the rest.
    """

    table: ViewsTable

    def point(self, state: ViewsState, like: Vector | None) -> StatePoint | None:
        if not state.calm:  # the pattern, and with it the vector, is about to change
            return None
        spreads = self._spreads(state)
        vector = np.concatenate(
            [state.b[self._there(state)], *map(np.ravel, spreads), np.log(state.noise)]
        )
        return StatePoint(vector, self._errors(state, spreads))

    def at(self, state: ViewsState, vector: Vector) -> ViewsState:
        there, spreads = self._there(state), self._spreads(state)
        sizes = [int(there.sum()), *(spread.size for spread in spreads)]
        b, *goals, logs = np.split(vector, np.cumsum(sizes))
        means, b_cov, before = state.b.copy(), state.b_cov.copy(), np.log(state.noise)
        means[there] = b
        for js, on, spread, goal in zip(
            self.table.columns, self._on(state), spreads, goals, strict=True
        ):
            change = np.eye(state.rank + 1)
            change[np.ix_(on, on)] = change_of_root(spread, goal.reshape(spread.shape))
            b_cov[js] = turned(b_cov[js], change)
        noise = np.exp(np.clip(logs, before - FURTHEST, before + FURTHEST))
        new = replace(
            state,
            b=means,
            b_cov=b_cov,
            noise=np.maximum(noise, LEAST_NOISE_WITH_HOLES),
            energy=np.inf,
        )
        return replace(new, prior=self._priors(state, new))

    def _there(self, state: ViewsState) -> Mask:
        """Mask of the entries of (B, μ) that may differ from 0."""
        there = np.ones(state.b.shape, dtype=np.bool_)
        there[:, :-1] = state.active[self.table.view]
        return there

    def _spreads(self, state: ViewsState) -> list[FloatArray]:
        return [
            logarithm(state.b_cov[js].sum(axis=0)[np.ix_(on, on)])
            for js, on in zip(self.table.columns, self._on(state), strict=True)
        ]

    def _on(self, state: ViewsState) -> list[Index]:
        return [np.flatnonzero(active) for active in state.active]

    def _priors(self, state: ViewsState, new: ViewsState) -> FloatArray:
        """Prior variances, grown in proportion to the mean squares of the loadings."""
        before, after = (self._squares(one) for one in (state, new))
        growth = np.divide(after, before, out=np.ones_like(before), where=before > 0)
        return np.asarray(state.prior * growth)

    def _squares(self, state: ViewsState) -> FloatArray:
        """⟨‖b_vh‖²⟩: (V, H)."""
        squares = state.b**2 + np.einsum("jhh->jh", state.b_cov)
        return np.stack([squares[js, :-1].sum(axis=0) for js in self.table.columns])

    def _errors(self, state: ViewsState, spreads: list[FloatArray]) -> FloatArray:
        table, there = self.table, self._there(state)
        error = state.roots(table) / np.sqrt(table.rows.shape[0])
        parts = [np.broadcast_to(error[:, None], there.shape)[there]]
        sizes = np.maximum(table.sizes, 1)
        parts += [np.full(s.size, np.sqrt(2 / p)) for s, p in zip(spreads, sizes, strict=True)]
        return np.concatenate([*parts, np.sqrt(2 / np.maximum(table.cells, 1))])
