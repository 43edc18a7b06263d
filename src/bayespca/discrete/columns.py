"""Columns of a table, and the columns of the matrix of cells that stand for them.

A column of a table is one column of the matrix, but for categories: K of them are K − 1 columns of
zeros and ones. Levels stand in an order, the most frequent first; the k-th column says whether a
cell is of the k-th level, given that it is of none before (stick-breaking: Linderman, Johnson and
Adams, "Dependent multinomial models made easy", NIPS 2015). What comes after its level is a hole.
So the likelihood of categories is a product of Bernoulli's, with nothing counted twice and nothing
bounded: their averages, the rank and the intervals are those of zeros and ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bayespca.arrays.namespaces import is_sparse
from bayespca.arrays.types import FloatArray, Matrix
from bayespca.spectrum.tolerances import TINY

from .data import ColumnGroup, TableCells
from .likelihoods.bernoulli import BERNOULLI
from .likelihoods.known import LIKELIHOODS
from .likelihoods.likelihood import BoolArray, no_parameters

CATEGORICAL = "categorical"
COUNTS = ("poisson", "negative-binomial")
WITH_LEVELS = ("bernoulli", CATEGORICAL, "ordinal")
NAMES = (*LIKELIHOODS, CATEGORICAL)


@dataclass(frozen=True)
class TableColumn:
    """What a column of a table is.

    Attributes
    ----------
    name
        Of the column.
    likelihood
        One of `NAMES`.
    levels
        What its codes 0, 1, … stand for; empty for numbers and counts. Those of categories are in
        the order in which they are told apart.
    center, scale
        What is subtracted from numbers, and what they are divided by; 0 and 1 for all else, but
        the mean of counts is their center.
    """

    name: str
    likelihood: str
    levels: tuple[str | float | bool, ...] = ()
    center: float = 0.0
    scale: float = 1.0

    @property
    def width(self) -> int:
        """How many columns of the matrix it is."""
        return len(self.levels) - 1 if self.likelihood == CATEGORICAL else 1

    @property
    def of_cells(self) -> str:
        """The likelihood of these."""
        return BERNOULLI.name if self.likelihood == CATEGORICAL else self.likelihood

    def check(self) -> None:
        """Raise ValueError unless it can be one."""
        if self.likelihood not in NAMES:
            raise ValueError(f"{self.likelihood!r} is no likelihood")
        if (self.likelihood in WITH_LEVELS) != (len(self.levels) > 1):
            raise ValueError(f"column {self.name!r} has {len(self.levels)} levels")
        if not (np.isfinite(self.center) and 0 < self.scale < np.inf):
            raise ValueError(f"column {self.name!r} has no unit")


class Place(NamedTuple):
    """Where a column of the table is: the number of its group, its columns in the group, and those
    in the matrix.
    """

    group: int
    inside: slice
    matrix: slice


def group_names(columns: Sequence[TableColumn]) -> list[str]:
    """Likelihoods of the groups of a table's cells, in their order."""
    there = {column.of_cells for column in columns}
    return [name for name in LIKELIHOODS if name in there]


def places(columns: Sequence[TableColumn]) -> list[Place]:
    """Where each column of the table is in the matrix."""
    found: dict[int, Place] = {}
    first = 0
    for number, name in enumerate(group_names(columns)):
        start = first
        for j, column in enumerate(columns):
            if column.of_cells == name:
                end = first + column.width
                inside = slice(first - start, end - start)
                found[j] = Place(number, inside, slice(first, end))
                first = end
    return [found[j] for j in range(len(columns))]


def cell_units(columns: Sequence[TableColumn]) -> tuple[FloatArray, FloatArray]:
    """What z of each column of the matrix is measured from, and in: 0 and 1 but for numbers."""
    center, scale = np.zeros((2, sum(column.width for column in columns)))
    for column, place in zip(columns, places(columns), strict=True):
        is_normal = column.likelihood == "normal"
        center[place.matrix] = column.center if is_normal else 0.0
        scale[place.matrix] = column.scale
    return center, scale


def as_cells(
    codes: Any,
    columns: Sequence[TableColumn],
    parameters: tuple[Matrix, ...] | None = None,
    *,
    sized: bool = False,
) -> TableCells:
    """The cells of a table of numbers, counts and codes of levels, NaN in holes, or of a sparse
    matrix of counts and of zeros and ones: (n, p).

    Without parameters likelihoods have those that they start with. With `sized` rows have sizes.
    """
    groups = []
    sizes = log_sizes(codes, columns) if sized else None
    for number, name in enumerate(group_names(columns)):
        mine = [j for j, column in enumerate(columns) if column.of_cells == name]
        filled, holes = _filled(codes, columns, mine)
        known = no_parameters(filled.shape[1]) if parameters is None else parameters[number]
        offset = sizes if name in COUNTS else None
        groups.append(ColumnGroup(LIKELIHOODS[name], filled, holes, known, offset))
    return TableCells(tuple(groups))


def _filled(
    codes: Any, columns: Sequence[TableColumn], mine: list[int]
) -> tuple[Any, BoolArray | None]:
    """Columns of the matrix with 0 in holes, and where there are none."""
    if is_sparse(codes):
        return codes if len(mine) == codes.shape[1] else codes[:, mine], None
    values = np.concatenate([coded(codes[:, j], columns[j]) for j in mine], axis=1)
    seen = ~np.isnan(values)
    return np.where(seen, values, 0.0), None if seen.all() else seen


def log_sizes(codes: Any, columns: Sequence[TableColumn]) -> FloatArray:
    """log of the sum of each row's counts over what rows have on average in the same columns.

    A row of zeros has half a count, and one without any cell is of usual size.
    """
    mine = [j for j, column in enumerate(columns) if column.likelihood in COUNTS]
    counts, centers = codes[:, mine], np.array([columns[j].center for j in mine])
    if is_sparse(codes):
        expected, sums = np.full(codes.shape[0], centers.sum()), np.asarray(counts.sum(axis=1))
    else:
        expected, sums = (~np.isnan(counts)) @ centers, np.nansum(counts, axis=1)
    totals = np.maximum(sums.ravel(), 0.5)
    return np.where(expected > 0, np.log(totals / np.maximum(expected, TINY)), 0.0)


def log_units(codes: Any, columns: Sequence[TableColumn]) -> FloatArray:
    """Σ log(scale) of each row over the cells that are there: what densities are divided by."""
    if is_sparse(codes):
        return np.zeros(codes.shape[0])
    scales = np.array([column.scale for column in columns])
    return np.asarray((~np.isnan(codes)) @ np.log(scales))


def coded(codes: FloatArray, column: TableColumn) -> FloatArray:
    """The columns of the matrix that stand for a column of the table: (n, width)."""
    if column.likelihood == CATEGORICAL:
        sticks = np.arange(column.width)
        bits = np.where(sticks == codes[:, None], 1.0, 0.0)
        return np.where((sticks > codes[:, None]) | np.isnan(codes)[:, None], np.nan, bits)
    if column.likelihood == "normal":
        return ((codes - column.center) / column.scale)[:, None]
    return codes[:, None]


def from_sticks(bits: FloatArray) -> FloatArray:
    """Codes of categories from all their sticks, zeros and ones: (n, K − 1) to (n,)."""
    any_one = bits.any(axis=1)
    return np.where(any_one, bits.argmax(axis=1), bits.shape[1]).astype(np.float64)


def level_probabilities(sticks: FloatArray) -> FloatArray:
    """Probabilities of levels from those of their sticks: pₖ times all 1 − pₗ before."""
    n = len(sticks)
    left = np.concatenate([np.ones((n, 1)), np.cumprod(1 - sticks, axis=1)], axis=1)
    return left * np.concatenate([sticks, np.ones((n, 1))], axis=1)
