"""Columns of a table, and the columns of the matrix of cells that represent them.

A column of a table is one column of the matrix, except for categories: K levels become K − 1
columns of zeros and ones. The levels are ordered, the most frequent first; the k-th column says
whether a cell has the k-th level, given that it has none of those before (stick-breaking:
Linderman, Johnson and Adams, "Dependent multinomial models made easy", NIPS 2015). The columns
after a cell's own level are holes. So the likelihood of categories is exactly a product of
Bernoulli likelihoods, without a bound: averages, rank and intervals are those of zeros and ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize
from scipy.special import gammaln

from bayespca.arrays.namespaces import is_sparse
from bayespca.arrays.types import FloatArray, Matrix
from bayespca.spectrum.tolerances import LOG_2PI, TINY

from .data import ColumnGroup, TableCells
from .likelihoods.bernoulli import BERNOULLI
from .likelihoods.counts import NEGATIVE_BINOMIAL, POISSON
from .likelihoods.likelihood import Likelihood, no_parameters
from .likelihoods.normal import NORMAL
from .likelihoods.ordinal import ORDINAL

CATEGORICAL = "categorical"
COUNTS = ("poisson", "negative-binomial")
WITH_LEVELS = ("bernoulli", CATEGORICAL, "ordinal")
# The likelihoods of single columns of the matrix, by name.
LIKELIHOODS: Mapping[str, Likelihood] = {
    one.name: one for one in (NORMAL, BERNOULLI, POISSON, NEGATIVE_BINOMIAL, ORDINAL)
}
NAMES = (*LIKELIHOODS, CATEGORICAL)
# A column with more different values is not of ranks, and one with larger numbers not of counts:
# they are identifiers, or amounts of money.
MOST_RANKS = 12
LARGEST_COUNT = 1e9


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
        filled, seen = codes if len(mine) == codes.shape[1] else codes[:, mine], None
        if not is_sparse(codes):
            filled = np.concatenate([coded(codes[:, j], columns[j]) for j in mine], axis=1)
            seen = ~np.isnan(filled)
            filled, seen = np.where(seen, filled, 0.0), None if seen.all() else seen
        known = no_parameters(filled.shape[1]) if parameters is None else parameters[number]
        offset = sizes if name in COUNTS else None
        groups.append(ColumnGroup(LIKELIHOODS[name], filled, seen, known, offset))
    return TableCells(tuple(groups))


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


# --- the likelihood of whole numbers -------------------------------------------------------------


class Histogram(NamedTuple):
    """Distinct whole numbers of at least 0, and how often each occurs."""

    values: FloatArray
    counts: FloatArray

    @property
    def size(self) -> float:
        return float(self.counts.sum())

    @property
    def mean(self) -> float:
        return float(self.values @ self.counts) / self.size

    @property
    def variance(self) -> float:
        return float((self.values - self.mean) ** 2 @ self.counts) / self.size


def likelihood_of_whole(x: FloatArray) -> str:
    """The name of the likelihood of whole numbers of at least 0.

    Each description of a column's histogram has a log-likelihood and d parameters; the least
    −2 log p + d log n wins (Schwarz 1978). Ranks have a probability for each value, counts are
    Poisson or negative binomial, and numbers are normal with bins of width 1.
    """
    if x.max() > LARGEST_COUNT:
        return "normal"
    values, counts = np.unique(x, return_counts=True)
    found = Histogram(values, counts.astype(np.float64))
    # The numbers are rounded: no distribution is narrower than a bin, of variance 1/12.
    variance = max(found.variance, 1 / 12)
    normal = -0.5 * found.size * (LOG_2PI + float(np.log(variance)) + 1)
    costs = _costs_of_counts(found) | {"normal": _schwarz(normal, 2, found.size)}
    if values.size <= MOST_RANKS and np.ptp(values) < MOST_RANKS:
        own = float((counts * np.log(counts / x.size)).sum())
        costs["ordinal"] = _schwarz(own, values.size - 1, found.size)
    return min(costs, key=lambda name: costs[name])


def likelihood_of_counts(found: Histogram) -> str:
    """The name of the likelihood of counts."""
    costs = _costs_of_counts(found)
    return min(costs, key=lambda name: costs[name])


def _costs_of_counts(found: Histogram) -> dict[str, float]:
    x, mean = found.values, max(found.mean, 1e-9)
    poisson = float((x * np.log(mean) - mean - gammaln(x + 1)) @ found.counts)

    def negative_binomial(log_r: float) -> float:
        r = np.exp(log_r)
        chance = gammaln(x + r) - gammaln(r) - gammaln(x + 1)
        each = chance + x * np.log(mean / (r + mean)) + r * np.log(r / (r + mean))
        return -float(each @ found.counts)

    best = optimize.minimize_scalar(negative_binomial, bounds=(-5, 10), method="bounded")
    return {
        "poisson": _schwarz(poisson, 1, found.size),
        "negative-binomial": _schwarz(-float(best.fun), 2, found.size),
    }


def _schwarz(log_likelihood: float, parameters: int, n: float) -> float:
    return -2 * log_likelihood + parameters * float(np.log(n))
