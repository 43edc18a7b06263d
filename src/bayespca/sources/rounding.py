"""To which step numbers were rounded when they were written down: whole counts, two decimals.

Numbers on a grid of step δ are known to ±δ/2, which is a variance of δ²/12 that no model can
explain. Without it a column that is nearly always the same number would have a density without
bound.
"""

from __future__ import annotations

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import Array, FloatArray

# Rows that are looked at, and how far off the grid a number may be, in steps.
ROWS = 1000
OFF_GRID = 1e-6
# A grid has several numbers on each of its points.
CROWDED = 2.0
# Share of the variance of a column that its rounding has, at most, if numbers may be called exact.
COARSE = 1e-3
# Share of the rows that have the same number, at most, likewise.
OFTEN = 0.15


def rounding_variances(X: Array) -> FloatArray:
    """δ²/12 of each column; 0 where numbers are on no grid."""
    rows = np.asarray(to_numpy(X[:: max(1, X.shape[0] // ROWS), :]), dtype=np.float64)
    ordered = np.sort(_filled(rows), axis=0)
    gaps = np.diff(ordered, axis=0)
    positive = np.where(gaps > 0, gaps, np.inf)
    step = positive.min(axis=0, initial=np.inf)
    distinct = 1 + (gaps > 0).sum(axis=0)
    likely = np.isfinite(step) & (CROWDED * distinct <= len(rows))
    step = np.where(likely, step, 1.0)
    steps = (ordered - ordered[0]) / step
    on_grid = np.abs(steps - np.rint(steps)).max(axis=0, initial=0.0) < OFF_GRID * (1 + steps[-1])
    return np.where(likely & on_grid, step**2 / 12, 0.0)


def is_coarse(X: Array) -> bool:
    """Whether a column has numbers that come again and again, so that none could be called exact.

    Where each cell has noise of its own, such columns would have a density without bound.
    """
    rows = np.asarray(to_numpy(X[:: max(1, X.shape[0] // ROWS), :]), dtype=np.float64)
    for column in rows.T:
        known = column[~np.isnan(column)]
        if known.size and np.unique(known, return_counts=True)[1].max() > OFTEN * known.size:
            return True
    rounding = rounding_variances(X)
    return bool((rounding > COARSE * _filled(rows).var(axis=0)).any())


def _filled(rows: FloatArray) -> FloatArray:
    """Rows with a number that is there in the holes of each column."""
    holes = np.isnan(rows)
    if not holes.any():
        return rows
    first = np.argmin(holes, axis=0)
    known = np.nan_to_num(rows[first, np.arange(rows.shape[1])])
    return np.where(holes, known, rows)
