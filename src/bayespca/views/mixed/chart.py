"""States of views with likelihoods as vectors, for acceleration."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayespca.arrays.types import FloatArray, Vector
from bayespca.discrete.chart import put, taken
from bayespca.discrete.step import evaluated_all
from bayespca.inference.accelerating import StatePoint
from bayespca.lowrank.aligning import FURTHEST, change_of_root, logarithm

from .data import MixedViews
from .state import MixedState


@dataclass(frozen=True, eq=False)
class MixedChart:
    """Vectors of (B, μ) of each view, the logarithm of its covariance summed over columns, and the
    parameters of likelihoods.

    The model determines the rotation, so vectors are not aligned. `at` keeps the rows of the state
    and evaluates the cells again; the step that follows adapts the rows.
    """

    table: MixedViews

    def point(self, state: MixedState, like: Vector | None) -> StatePoint | None:
        if not state.calm:  # the pattern, and with it the vector, is about to change
            return None
        means = [columns.mean.ravel() for columns in state.columns]
        spreads = [spread.ravel() for spread in self._spreads(state)]
        vector = np.concatenate([*means, *spreads, taken(state.parameters)])
        return StatePoint(vector, self._errors(state))

    def at(self, state: MixedState, vector: Vector) -> MixedState:
        spreads, before = self._spreads(state), taken(state.parameters)
        sizes = [columns.mean.size for columns in state.columns] + [s.size for s in spreads]
        *parts, logs = np.split(vector, np.cumsum(sizes))
        means, goals = parts[: len(spreads)], parts[len(spreads) :]
        columns = tuple(
            replace(
                old.changed(change_of_root(here, goal.reshape(here.shape))),
                mean=mean.reshape(old.mean.shape),
            )
            for old, mean, here, goal in zip(state.columns, means, spreads, goals, strict=True)
        )
        parameters = put(np.clip(logs, before - FURTHEST, before + FURTHEST), state.parameters)
        new = replace(state, columns=columns, parameters=parameters, energy=np.inf)
        new = self._with_priors(new, state)
        cells = self.table.cells.at(parameters)
        return replace(new, found=evaluated_all(new.rows, new.all_columns(self.table), cells))

    def _spreads(self, state: MixedState) -> list[FloatArray]:
        return [logarithm(columns.matrices.sum(axis=0)) for columns in state.columns]

    def _with_priors(self, new: MixedState, state: MixedState) -> MixedState:
        """The state with priors grown in proportion to the mean squares of loadings and means."""
        prior, spread = state.prior.copy(), state.spread.copy()
        for v in self.table.taking_part:
            before, after = (one.columns[v].squares.sum(axis=0) for one in (state, new))
            growth = after / before
            prior[v, state.on(v)] *= growth[:-1]
            spread[v] *= 1.0 if self.table.alike[v] else growth[-1]
        return replace(new, prior=prior, spread=spread)

    def _errors(self, state: MixedState) -> FloatArray:
        """Standard errors: about 1/√Σω for the loadings and means of a column, √(2/q_v) for
        logarithms of covariances, √(2/n) for parameters.
        """
        omega, parts = state.found.omega.sum(axis=0), []
        for v, (js, columns) in enumerate(zip(self.table.columns, state.columns, strict=True)):
            errors = 1 / np.sqrt(omega[js] + 1 / state.spread[v])
            parts.append(np.repeat(errors, columns.mean.shape[1]))
        sizes = np.maximum(self.table.sizes, 1)
        parts += [
            np.full(columns.mean.shape[1] ** 2, np.sqrt(2 / q))
            for columns, q in zip(state.columns, sizes, strict=True)
        ]
        learned = taken(state.parameters).size
        return np.concatenate([*parts, np.full(learned, np.sqrt(2 / len(state.rows.mean)))])
