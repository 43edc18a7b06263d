"""Data in the form that Gaussian processes use: centred columns, grouped by their holes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.namespaces import array_namespace
from bayespca.arrays.types import Array, FloatArray, Index, Matrix, Vector

from .pairs import HOST, Pairs


@dataclass(frozen=True, eq=False)
class GPRows:
    """The arrays that sums over rows need.

    Attributes
    ----------
    values
        Centred values, 0 in holes: (N, D).
    seen
        Which rows each group of columns has: (N, G); None if all have all rows.
    pairs
        The device on which sums over pairs are computed, and values and holes are stored.
    """

    values: Array
    seen: Array | None = None
    pairs: Pairs = HOST

    def sums_of(self, values: Array) -> Array:
        """Sums over the rows of each group: (G, M)."""
        if self.seen is None:
            return array_namespace(values).sum(values, axis=0)[None, :]
        return self.seen.T @ values

    def of_groups(self, values: Array) -> Array:
        """For each row, the sum of `values` (G, M) over the groups that have it: (N or 1, M)."""
        return values if self.seen is None else self.seen @ values


@dataclass(frozen=True, eq=False)
class GPData:
    """A table divided by one unit.

    Attributes
    ----------
    centred
        Values less the means of their columns, 0 in holes: (N, D).
    mean
        The means: (D,).
    unit
        The number that the data were divided by.
    seen
        Which rows each group of columns has: (N, G); None if all have all rows.
    group_of
        The group of each column: (D,).
    center
        Whether means are integrated out.
    per_feature
        Whether each column has its own noise variance.
    filled
        The data with holes filled, from which the iteration starts: (N, D).
    pairs
        The device on which sums over pairs of inducing points are computed.
    """

    centred: Matrix
    mean: Vector
    unit: float
    seen: Matrix | None
    group_of: Index
    center: bool
    per_feature: bool
    filled: Matrix
    pairs: Pairs = HOST

    @property
    def shape(self) -> tuple[int, int]:
        return self.centred.shape[0], self.centred.shape[1]

    @property
    def n_units(self) -> int:
        """Number of noise variances."""
        return self.shape[1] if self.per_feature else 1

    @property
    def unit_of(self) -> Index:
        """Index of the noise variance of each column."""
        D = self.shape[1]
        return np.arange(D) if self.per_feature else np.zeros(D, np.intp)

    @property
    def seen_in_group(self) -> FloatArray:
        """Number of rows of each group: (G,)."""
        return np.array([float(self.shape[0])]) if self.seen is None else self.seen.sum(axis=0)

    @property
    def empty_rows(self) -> NDArray[np.bool_]:
        """Mask of the rows without any cell: (N,)."""
        if self.seen is None:
            return np.zeros(self.shape[0], np.bool_)
        return np.asarray(~self.seen.any(axis=1))

    @property
    def count(self) -> FloatArray:
        """Number of cells of each column, less the one lost to its mean: (D,)."""
        return self.seen_in_group[self.group_of] - float(self.center)

    @cached_property
    def rows(self) -> GPRows:
        """The arrays that sums over rows need, on their device."""
        move = self.pairs.moved
        seen = None if self.seen is None else move(self.seen)
        return GPRows(move(self.centred), seen, self.pairs)

    @cached_property
    def squares(self) -> FloatArray:
        """Sums of squares of the columns: (D,)."""
        return (self.centred**2).sum(axis=0)

    @property
    def all_noise(self) -> float:
        """The free energy of pure noise, which the descent subtracts.

        Relative falls then refer to what has been gained, whatever the units and the number of
        cells.
        """
        return 0.5 * float(self.count.sum()) * float(np.log(2 * np.pi) + 1)


def prepared(
    values: FloatArray,
    filled: FloatArray,
    *,
    center: bool,
    per_feature: bool,
    pairs: Pairs = HOST,
) -> GPData:
    """The `GPData` of a table with NaN for holes, and of the same table with holes filled."""
    there = ~np.isnan(values)
    counts = there.sum(axis=0)
    mean = np.where(there, values, 0.0).sum(axis=0) / counts if center else np.zeros(len(counts))
    centred = np.where(there, values - mean, 0.0)
    unit = float(np.sqrt((centred**2).sum() / there.sum())) or 1.0
    seen, group_of = _groups(there)
    return GPData(
        centred / unit,
        mean,
        unit,
        seen,
        group_of,
        center,
        per_feature,
        (filled - mean) / unit,
        pairs,
    )


def _groups(there: NDArray[np.bool_]) -> tuple[FloatArray | None, Index]:
    """Distinct patterns of holes of columns, and the pattern of each column."""
    if there.all():
        return None, np.zeros(there.shape[1], np.intp)
    patterns, group_of = np.unique(there, axis=1, return_inverse=True)
    return patterns.astype(float), np.ravel(group_of)
