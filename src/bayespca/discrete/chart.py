"""States of generalized PCA as vectors, for acceleration."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayespca.arrays.types import FloatArray, Vector
from bayespca.inference.accelerating import StatePoint
from bayespca.lowrank.aligning import FURTHEST, Loadings, change_of_root, logarithm

from .data import TableCells
from .normals import Normals
from .step import TableState, evaluated_all


@dataclass(frozen=True, eq=False)
class TableChart:
    """Vectors of W = B·diag(c), for scores of unit prior variance, rotated towards a reference; the
    logarithm of its covariance summed over columns; μ, log v, and the parameters of likelihoods.

    `at` keeps the rows of the state, in the units of the new loadings, and evaluates the cells
    again; the step that follows adapts the rows.
    """

    data: TableCells

    def point(self, state: TableState, like: Vector | None) -> StatePoint | None:
        return StatePoint(_parts(state).aligned(like).vector, _errors(state))

    def at(self, state: TableState, vector: Vector) -> TableState:
        here, H = _parts(state), state.rank
        goal = here.at(vector).turned_to(here.W)
        T = change_of_root(here.spread, goal.spread)
        # Both factors have the prior variance c², so they share the growth of W.
        growth = (_squares(goal.W, T, state) / _squares(here.W, np.eye(H), state)) ** 0.25
        c, new = np.sqrt(state.prior), np.sqrt(state.prior) * growth
        change = np.eye(H + 1)
        change[:H, :H] = T * c / new[:, None]
        p = len(goal.W)
        mean = np.column_stack([goal.W / new, goal.rest[:p]])
        columns = replace(state.columns.changed(change), mean=mean)
        rows = state.rows.changed(np.diag(growth))
        logs = np.clip(goal.rest[p:], here.rest[p:] - FURTHEST, here.rest[p:] + FURTHEST)
        parameters = put(logs[1:], state.parameters)
        return replace(
            state,
            rows=rows,
            columns=columns,
            prior=new**2,
            spread=float(np.exp(logs[0])),
            parameters=parameters,
            found=evaluated_all(rows, columns, self.data.at(parameters)),
        )


def _parts(state: TableState) -> Loadings:
    H, c = state.rank, np.sqrt(state.prior)
    learned = taken(state.parameters)
    rest = np.concatenate([state.columns.mean[:, H], [np.log(state.spread)], learned])
    spread = logarithm(_covariance(state.columns, H) * c * c[:, None])
    return Loadings(state.columns.mean[:, :H] * c, spread, rest)


def _covariance(columns: Normals, H: int) -> FloatArray:
    """Covariance of the loadings, summed over columns: (H, H)."""
    return columns.matrices.sum(axis=0)[:H, :H]


def _squares(W: FloatArray, T: FloatArray, state: TableState) -> FloatArray:
    """⟨‖w‖²⟩ of each component, with the state's covariance C changed to T·C·Tᵀ."""
    c = np.sqrt(state.prior)
    cov = _covariance(state.columns, state.rank) * c * c[:, None]
    return np.asarray((W**2).sum(axis=0) + np.diag(T @ cov @ T.T))


def _errors(state: TableState) -> FloatArray:
    """Standard errors: about 1/√Σω for the loadings and the mean of a column, √(2/p) for logarithms
    of variances, √(2/n) for parameters.
    """
    p, H = len(state.columns.mean), state.rank
    errors = 1 / np.sqrt(state.found.omega.sum(axis=0) + 1 / state.spread)
    spread = np.full(H * H + 1, np.sqrt(2 / p))
    learned = np.full(taken(state.parameters).size, np.sqrt(2 / len(state.rows.mean)))
    return np.concatenate([np.repeat(errors, H), spread[:-1], errors, spread[-1:], learned])


def taken(parameters: tuple[FloatArray, ...]) -> FloatArray:
    """The parameters of all likelihoods that are not NaN, as one vector."""
    return np.concatenate([some[~np.isnan(some)] for some in parameters])


def put(values: FloatArray, parameters: tuple[FloatArray, ...]) -> tuple[FloatArray, ...]:
    """The inverse of `taken`: parameters with these values where they are not NaN."""
    found, first = [], 0
    for some in parameters:
        there = ~np.isnan(some)
        new = some.copy()
        new[there] = values[first : first + int(there.sum())]
        first += int(there.sum())
        found.append(new)
    return tuple(found)
