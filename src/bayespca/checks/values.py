"""Values that are not normally distributed: zeros and ones, and counts."""

from __future__ import annotations

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.spectrum.records import Advice

COUNTS = "counts"
# Least share, and least number, of columns with positive mean and variance, as counts have.
MOST, FEWEST = 0.9, 4
# Mean above which counts are close enough to normal.
LARGE = 30.0
# Slope of log variance against log mean over columns: 0 for measurements, 1 for Poisson, up to 2.
SLOPES = (0.6, 2.4)


def of_values(rows: FloatArray) -> Advice | None:
    """Advice if all values are 0 or 1, or look like counts; None otherwise. Holes are NaN."""
    first = rows[0]
    if not _are_whole(first[~np.isnan(first)]):
        return None
    known = rows[~np.isnan(rows)]
    if known.size < 2 or not _are_whole(known) or known.min() < 0:
        return None
    if known.max() <= 1:
        return Advice(
            "zero-one",
            "All values are 0 or 1, and a normal model does not suit such data: use BinaryPCA.",
        )
    # Columns of counts vary more where their means are larger.
    rows = rows[:, ~np.isnan(rows).all(axis=0)]
    mean, variance = np.nanmean(rows, axis=0), np.nanvar(rows, axis=0)
    use = (mean > 0) & (variance > 0)
    if np.count_nonzero(use) < max(FEWEST, MOST * mean.size) or mean[use].mean() > LARGE:
        return None
    x, y = np.log(mean[use]), np.log(variance[use])
    if np.ptp(x) < 1.0:
        return None
    slope = float(np.polyfit(x, y, 1)[0])
    if not (SLOPES[0] < slope < SLOPES[1] and float(np.corrcoef(x, y)[0, 1]) > 0.7):
        return None
    return Advice(
        COUNTS,
        "The values look like counts: non-negative integers that vary more where they are "
        "larger. Take square roots or logarithms (of 1 + x) first, or set noise='both'.",
    )


def _are_whole(values: FloatArray) -> bool:
    return bool((values == np.round(values)).all())
