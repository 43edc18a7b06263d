"""Columns of a table, and the columns of the matrix of cells that represent them.

A column of a table is one column of the matrix, except for categories: K levels become K − 1
columns of zeros and ones. The levels are ordered, the most frequent first; the k-th column says
whether a cell has the k-th level, given that it has none of those before (stick-breaking:
Linderman, Johnson and Adams, "Dependent multinomial models made easy", NIPS 2015). The columns
after a cell's own level are holes. So the likelihood of categories is exactly a product of
Bernoulli likelihoods, without a bound: averages, rank and intervals are those of zeros and ones.
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
    """Description of a column of a table.

    Attributes
    ----------
    name
        Name of the column.
    likelihood
        One of `NAMES`.
    levels
        The values that its codes 0, 1, … stand for; empty for numbers and counts. Those of
        categories are in the order of their sticks.
    center, scale
        Numbers have `center` subtracted and are divided by `scale`. For all else they are 0 and 1,
        except that the center of counts is their mean.
    """

    name: str
    likelihood: str
    levels: tuple[str | float | bool, ...] = ()
    center: float = 0.0
    scale: float = 1.0

    @property
    def width(self) -> int:
        """Number of columns of the matrix that represent it."""
        return len(self.levels) - 1 if self.likelihood == CATEGORICAL else 1

    @property
    def of_cells(self) -> str:
        """The likelihood of its columns of the matrix."""
        return BERNOULLI.name if self.likelihood == CATEGORICAL else self.likelihood

    def check(self) -> None:
        """Raise ValueError unless the parts fit together."""
        if self.likelihood not in NAMES:
            raise ValueError(f"unknown likelihood {self.likelihood!r}")
        if (self.likelihood in WITH_LEVELS) != (len(self.levels) > 1):
            raise ValueError(
                f"column {self.name!r} has {len(self.levels)} levels, which its likelihood "
                f"{self.likelihood!r} does not allow"
            )
        if not (np.isfinite(self.center) and 0 < self.scale < np.inf):
            raise ValueError(
                f"the center of column {self.name!r} is not finite, or its scale is not a finite, "
                "positive number"
            )


class Place(NamedTuple):
    """Position of a column of the table: the number of its group, its columns in the group, and its
    columns in the matrix.
    """

    group: int
    inside: slice
    matrix: slice


def group_names(columns: Sequence[TableColumn]) -> list[str]:
    """Likelihoods of the groups of a table's cells, in their order."""
    there = {column.of_cells for column in columns}
    return [name for name in LIKELIHOODS if name in there]


def places(columns: Sequence[TableColumn]) -> list[Place]:
    """Position of each column of the table in the matrix."""
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
    """Origin and unit of z in each column of the matrix: 0 and 1 except for numbers."""
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
    """The cells of a table (n, p) of numbers, counts and codes of levels, with NaN in holes, or of
    a sparse matrix of counts or of zeros and ones.

    `parameters` are those of the likelihoods, empty if not given. With `sized` the rates of counts
    are relative to the sizes of rows.
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
    """Columns of the matrix with 0 in holes, and which cells are observed; None if all are."""
    if is_sparse(codes):
        return codes if len(mine) == codes.shape[1] else codes[:, mine], None
    values = np.concatenate([coded(codes[:, j], columns[j]) for j in mine], axis=1)
    seen = ~np.isnan(values)
    return np.where(seen, values, 0.0), None if seen.all() else seen


def log_sizes(codes: Any, columns: Sequence[TableColumn]) -> FloatArray:
    """log of each row's sum of counts over the average sum in the same columns.

    A row of zeros has half a count, and a row without any cell has the average size.
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
    """Σ log(scale) of each row over its observed cells: log of what densities are divided by."""
    if is_sparse(codes):
        return np.zeros(codes.shape[0])
    scales = np.array([column.scale for column in columns])
    return np.asarray((~np.isnan(codes)) @ np.log(scales))


def coded(codes: FloatArray, column: TableColumn) -> FloatArray:
    """The columns of the matrix that represent a column of the table: (n, width)."""
    if column.likelihood == CATEGORICAL:
        sticks = np.arange(column.width)
        bits = np.where(sticks == codes[:, None], 1.0, 0.0)
        return np.where((sticks > codes[:, None]) | np.isnan(codes)[:, None], np.nan, bits)
    if column.likelihood == "normal":
        return ((codes - column.center) / column.scale)[:, None]
    return codes[:, None]


def from_sticks(bits: FloatArray) -> FloatArray:
    """Codes of categories from zeros and ones of all their sticks: (n, K − 1) to (n,)."""
    any_one = bits.any(axis=1)
    return np.where(any_one, bits.argmax(axis=1), bits.shape[1]).astype(np.float64)


def level_probabilities(sticks: FloatArray) -> FloatArray:
    """Probabilities of levels from those of their sticks: pₖ·Π_{l<k} (1 − pₗ)."""
    n = len(sticks)
    left = np.concatenate([np.ones((n, 1)), np.cumprod(1 - sticks, axis=1)], axis=1)
    return left * np.concatenate([sticks, np.ones((n, 1))], axis=1)
