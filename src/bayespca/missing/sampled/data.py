"""Ratings in memory with features of users and of items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.missing.ratings.data import Ratings


@dataclass(frozen=True, eq=False)
class FeaturedRatings(Ratings):
    """Ratings, and features of rows (n, p) and of columns (m, q); there may be none of either."""

    row_features: FloatArray
    column_features: FloatArray

    def digests(self) -> Sequence[object]:
        return [*super().digests(), self.row_features, self.column_features]


def with_features(
    data: Ratings, of_rows: FloatArray | None = None, of_columns: FloatArray | None = None
) -> FeaturedRatings:
    """Ratings with features in units in which they have mean 0 and variance 1."""
    given = zip((of_rows, of_columns), data.shape, strict=True)
    rows, columns = (
        np.empty((size, 0)) if some is None else _standardized(some) for some, size in given
    )
    return FeaturedRatings(data.by_rows, data.by_columns, data.location, data.unit, rows, columns)


def _standardized(features: FloatArray) -> FloatArray:
    """Columns that do not vary say nothing, and are left out."""
    off = features - features.mean(axis=0)
    spread = np.sqrt(np.mean(off**2, axis=0))
    varies = spread > 1e-12 * (np.abs(features).max(axis=0, initial=0.0) + 1e-300)
    return np.asarray(off[:, varies] / spread[varies])
