"""States of generalized PCA as vectors: loadings, means, logarithms of variances, parameters."""

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
    """W = B·diag(c), for scores of unit variance a priori, turned to be like another one; the
    logarithm of its covariance summed over columns; μ, log v, and parameters of likelihoods.

    Rows are those of the state, in the units of the new loadings, and cells are evaluated anew: the
    step that follows takes rows to where these loadings want them.
    """

    data: TableCells

    def point(self, state: TableState, like: Vector | None) -> StatePoint | None:
        return StatePoint(_parts(state).aligned(like).vector, _errors(state))

    def at(self, state: TableState, vector: Vector) -> TableState:
        here, H = _parts(state), state.rank
        goal = here.at(vector).turned_to(here.W)
        T = change_of_root(here.spread, goal.spread)
        # Both factors have the prior variance c²: the size of W is divided between them.
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
    """That of loadings, summed over columns."""
    return columns.matrices.sum(axis=0)[:H, :H]


def _squares(W: FloatArray, T: FloatArray, state: TableState) -> FloatArray:
    """⟨‖w‖²⟩ of each component, with the covariance of the state's changed by T."""
    c = np.sqrt(state.prior)
    cov = _covariance(state.columns, state.rank) * c * c[:, None]
    return np.asarray((W**2).sum(axis=0) + np.diag(T @ cov @ T.T))


def _errors(state: TableState) -> FloatArray:
    """1/√Σω of each column, for its loadings and its mean; √(2/n) for logarithms of variances."""
    p, H = len(state.columns.mean), state.rank
    errors = 1 / np.sqrt(state.found.omega.sum(axis=0) + 1 / state.spread)
    spread = np.full(H * H + 1, np.sqrt(2 / p))
    learned = np.full(taken(state.parameters).size, np.sqrt(2 / len(state.rows.mean)))
    return np.concatenate([np.repeat(errors, H), spread[:-1], errors, spread[-1:], learned])


def taken(parameters: tuple[FloatArray, ...]) -> FloatArray:
    """The parameters of all likelihoods that are there, one after the other."""
    return np.concatenate([some[~np.isnan(some)] for some in parameters])


def put(values: FloatArray, parameters: tuple[FloatArray, ...]) -> tuple[FloatArray, ...]:
    """Parameters with these in the places where `taken` finds them."""
    found, first = [], 0
    for some in parameters:
        there = ~np.isnan(some)
        new = some.copy()
        new[there] = values[first : first + int(there.sum())]
        first += int(there.sum())
        found.append(new)
    return tuple(found)
