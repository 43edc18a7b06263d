"""Ratings in memory with what else is known of users and items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.missing.ratings.data import Ratings

from .rated import Rated


@dataclass(frozen=True, eq=False)
class FeaturedRatings(Ratings):
    """Ratings, and features of rows (n, p) and of columns (m, q); there may be none of either.

    `implicit`: what a row has rated at all is a feature of it, and who has rated a column of that.
    """

    row_features: FloatArray
    column_features: FloatArray
    implicit: bool = False

    @cached_property
    def row_rated(self) -> Rated:
        return Rated(self.by_rows, self.by_columns)

    @cached_property
    def column_rated(self) -> Rated:
        return Rated(self.by_columns, self.by_rows)

    def digests(self) -> Sequence[object]:
        features = self.row_features, self.column_features
        return [*super().digests(), *features, self.implicit]


def with_features(
    data: Ratings,
    of_rows: FloatArray | None = None,
    of_columns: FloatArray | None = None,
    *,
    implicit: bool = False,
) -> FeaturedRatings:
    """Ratings with features in units in which they have mean 0 and variance 1."""
    given = zip((of_rows, of_columns), data.shape, strict=True)
    rows, columns = (
        np.empty((size, 0)) if some is None else _standardized(some) for some, size in given
    )
    cells = data.by_rows, data.by_columns, data.location, data.unit
    return FeaturedRatings(*cells, rows, columns, implicit)


def _standardized(features: FloatArray) -> FloatArray:
    """Columns that do not vary say nothing, and are left out."""
    off = features - features.mean(axis=0)
    spread = np.sqrt(np.mean(off**2, axis=0))
    varies = spread > 1e-12 * (np.abs(features).max(axis=0, initial=0.0) + 1e-300)
    return np.asarray(off[:, varies] / spread[varies])
