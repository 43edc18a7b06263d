"""Columns of a table from the natural parameters of their cells: means, probabilities, quantiles.

A `ColumnView` describes a column of the table: its description, z of its cells, and the parameters
of their likelihood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from bayespca.arrays.types import FloatArray, Matrix

from .columns import CATEGORICAL, LIKELIHOODS, TableColumn, from_sticks, level_probabilities, places
from .data import TableCells
from .likelihoods.counts import NODES, WEIGHTS
from .likelihoods.likelihood import Likelihood
from .likelihoods.ordinal import rank_probabilities


class ColumnView(NamedTuple):
    """Cells of one column of the table, for z ~ N(m, v): arrays are (n, width)."""

    column: TableColumn
    m: FloatArray
    v: FloatArray
    parameters: Matrix

    @property
    def likelihood(self) -> Likelihood:
        return LIKELIHOODS[self.column.of_cells]

    def at(self, rows: np.ndarray) -> ColumnView:
        return self._replace(m=self.m[rows], v=self.v[rows])


def views(
    columns: Sequence[TableColumn], cells: TableCells, m: FloatArray, v: FloatArray
) -> Iterator[ColumnView]:
    """A view of each column of the table, with the offsets of rows added to m."""
    for column, (group, inside, matrix) in zip(columns, places(columns), strict=True):
        of = cells.groups[group]
        yield ColumnView(column, m[:, matrix] + of.added, v[:, matrix], of.parameters[inside])


def expected(view: ColumnView) -> FloatArray:
    """Expected values of the cells: means of numbers, rates of counts, the probability of the
    second of two levels, or the probabilities of all levels: (n, outputs).
    """
    column = view.column
    if column.likelihood in (CATEGORICAL, "ordinal"):
        return probabilities(view)
    return view.likelihood.mean(view.m, view.v, view.parameters) * column.scale + _center(column)


def expected_names(column: TableColumn) -> list[str]:
    """Names of the columns of `expected`."""
    if column.likelihood in (CATEGORICAL, "ordinal"):
        return [f"{column.name}={level}" for level in column.levels]
    if column.likelihood == "bernoulli":
        return [f"{column.name}={column.levels[1]}"]
    return [column.name]


def cell_names(columns: Sequence[TableColumn]) -> list[str]:
    """Names of the columns of the matrix: those of the table, with the level for categories."""
    pairs = [
        (place.matrix.start + k, f"{column.name}={column.levels[k]}")
        if column.likelihood == CATEGORICAL
        else (place.matrix.start, column.name)
        for column, place in zip(columns, places(columns), strict=True)
        for k in range(column.width)
    ]
    return [name for _, name in sorted(pairs)]


def probabilities(view: ColumnView) -> FloatArray:
    """Probabilities of the levels of a column with levels: (n, K)."""
    if view.column.likelihood == "ordinal":
        every = rank_probabilities(view.m, view.v, view.parameters)[:, 0]
        return every[:, : len(view.column.levels)]
    found = view.likelihood.mean(view.m, view.v, view.parameters)
    if view.column.likelihood == CATEGORICAL:
        return level_probabilities(found)
    return np.concatenate([1 - found, found], axis=1)


def deviations(view: ColumnView, *, noise: bool) -> FloatArray:
    """Standard deviations of the cells, in the columns of `expected`, where levels are zeros and
    ones.

    Without `noise`, they are those of the mean given z: of the probability of a level, or of the
    rate of a count.
    """
    if not view.column.levels:
        return _deviations_of_values(view, noise=noise)
    if noise:
        p = expected(view)
        return np.sqrt(np.maximum(p * (1 - p), 0.0))
    if view.column.likelihood == CATEGORICAL:
        # The sticks are independent.
        first = _averaged(view, _mean_at)
        second = _averaged(view, lambda z, one: _mean_at(z, one) ** 2)
        ones = np.ones((len(first), 1))
        left = np.cumprod(np.concatenate([ones, 1 - 2 * first + second], axis=1), axis=1)
        squares = left * np.concatenate([second, ones], axis=1)
        means = level_probabilities(first)
    else:
        means = _averaged(view, _expected_at)
        squares = _averaged(view, lambda z, one: _expected_at(z, one) ** 2)
    return np.asarray(np.sqrt(np.maximum(squares - means**2, 0.0)))


def deviations_of_codes(view: ColumnView, *, noise: bool) -> FloatArray:
    """Standard deviations of numbers, counts and codes; NaN for categories: (n,)."""
    if view.column.likelihood == CATEGORICAL:
        return np.full(len(view.m), np.nan)
    return _deviations_of_values(view, noise=noise)[:, 0]


def _deviations_of_values(view: ColumnView, *, noise: bool) -> FloatArray:
    first, second = _averaged(view, _mean_at), _averaged(view, lambda z, one: _mean_at(z, one) ** 2)
    variance = second - first**2
    if noise:
        of_cells = _averaged(view, lambda z, one: one.likelihood.variance(z, one.parameters))
        variance = variance + of_cells
    return np.asarray(np.sqrt(np.maximum(variance, 0.0)) * view.column.scale)


def _mean_at(z: FloatArray, view: ColumnView) -> FloatArray:
    return view.likelihood.mean(z, np.zeros_like(z), view.parameters)


def _averaged(
    view: ColumnView, function: Callable[[FloatArray, ColumnView], FloatArray]
) -> FloatArray:
    """⟨f(z)⟩ over z ~ N(m, v) of each cell, by quadrature."""
    root = np.sqrt(view.v)
    pairs = zip(NODES, WEIGHTS, strict=True)
    return np.asarray(sum(w * function(view.m + root * t, view) for t, w in pairs))


def _expected_at(z: FloatArray, view: ColumnView) -> FloatArray:
    return expected(view._replace(m=z, v=np.zeros_like(z)))


class CellGuess(NamedTuple):
    """Codes, numbers or counts for cells: the best value; bounds of an interval, NaN for levels
    without an order; and the probability of the best value, NaN for numbers and counts.
    """

    value: FloatArray
    low: FloatArray
    high: FloatArray
    probability: FloatArray


def guessed(view: ColumnView, interval: float) -> CellGuess:
    """Guesses for cells: the mean of numbers, the median of counts, the most probable level."""
    column, tail = view.column, 0.5 * (1 - interval)
    none = np.full(len(view.m), np.nan)
    if not column.levels:
        middle, low, high = (_quantile(view, level) for level in (0.5, tail, 1 - tail))
        return CellGuess(middle, low, high, none)
    every = probabilities(view)
    best = every.argmax(axis=1).astype(np.float64)
    low, high = none, none
    if column.likelihood == "ordinal":
        low, high = _quantile(view, tail), _quantile(view, 1 - tail)
    return CellGuess(best, low, high, every.max(axis=1))


def drawn(view: ColumnView, rng: np.random.Generator) -> FloatArray:
    """Codes, numbers or counts drawn for cells whose z is m: (n,)."""
    found = view.likelihood.drawn(view.m, view.parameters, rng)
    if view.column.likelihood == CATEGORICAL:
        return from_sticks(found)
    return _in_units(found[:, 0], view.column)


def _quantile(view: ColumnView, level: float) -> FloatArray:
    found = view.likelihood.quantile(level, view.m, view.v, view.parameters)[:, 0]
    return _in_units(found, view.column)


def _in_units(values: FloatArray, column: TableColumn) -> FloatArray:
    return values * column.scale + _center(column)


def _center(column: TableColumn) -> float:
    """The origin of numbers; the center of counts is not subtracted from them."""
    return column.center if column.likelihood == "normal" else 0.0
