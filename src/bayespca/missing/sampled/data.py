"""Ratings in memory, with features of users and items and times of ratings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.missing.ratings.cells import RatingsSide
from bayespca.missing.ratings.data import Ratings

from .drift import DriftDraw, TimeBins, binned
from .features import Features, Rated, SparseFeatures, standardized


@dataclass(frozen=True, eq=False)
class FeaturedRatings(Ratings):
    """Ratings, and features of rows (n, p) and of columns (m, q); either may have none.

    With `implicit`, the set of columns that a row has rated is a feature of the row, and the set of
    rows that have rated a column is a feature of the column. `bins` says when each cell was
    rated, if known.
    """

    row_features: Features
    column_features: Features
    implicit: bool = False
    bins: TimeBins | None = None

    @cached_property
    def row_rated(self) -> Rated:
        return Rated(self.by_rows, self.by_columns)

    @cached_property
    def column_rated(self) -> Rated:
        return Rated(self.by_columns, self.by_rows)

    def digests(self) -> Sequence[object]:
        both = self.row_features, self.column_features
        features = (one.digests() if isinstance(one, SparseFeatures) else [one] for one in both)
        when = () if self.bins is None else (self.bins.order, *self.bins.keys)
        return [*super().digests(), *chain.from_iterable(features), self.implicit, *when]

    def without_drift(self, drift: DriftDraw) -> tuple[RatingsSide, RatingsSide]:
        """Cells sorted by rows and by columns, minus their drift."""
        if self.bins is None:
            return self.by_rows, self.by_columns
        values = self.by_rows.values - drift.of_cells(self.bins)
        columns = replace(self.by_columns, values=values[self.bins.to_columns])
        return replace(self.by_rows, values=values), columns


def with_features(
    data: Ratings,
    of_rows: Features | None = None,
    of_columns: Features | None = None,
    *,
    implicit: bool = False,
    times: FloatArray | None = None,
) -> FeaturedRatings:
    """Ratings with standardized features, and with times of cells, sorted by rows.

    Sparse features must be standardized already.
    """
    given = zip((of_rows, of_columns), data.shape, strict=True)
    rows, columns = (
        np.empty((size, 0)) if some is None else _in_units(some) for some, size in given
    )
    cells = data.by_rows, data.by_columns, data.location, data.unit
    bins = None if times is None else binned(data.by_rows, times)
    return FeaturedRatings(*cells, rows, columns, implicit, bins)


def _in_units(features: Features) -> Features:
    return features if isinstance(features, SparseFeatures) else standardized(features)
