"""Known measurement errors: one for each cell, or factors for rows and columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayespca.arrays.types import FloatArray

# Precision to which errors must be a row's factor times a column's to be stored as such.
SAME = 1e-9


@dataclass(frozen=True, eq=False)
class KnownErrors:
    """Standard deviations, relative to a common noise level that is still to be estimated.

    Attributes
    ----------
    rows, columns
        Factors of each row and each column; None where all are 1.
    cells
        One for each cell, if they are not row times column factors; infinite for holes.
    """

    rows: FloatArray | None = None
    columns: FloatArray | None = None
    cells: FloatArray | None = None

    def of_cells(self, shape: tuple[int, int]) -> FloatArray:
        """Standard deviation of each cell."""
        found = np.ones(shape) if self.cells is None else self.cells
        found = found if self.rows is None else found * self.rows[:, None]
        return found if self.columns is None else found * self.columns


def taken_apart(cells: FloatArray) -> KnownErrors:
    """Errors of cells, split into row and column factors if they are such products.

    Row factors have a mean square of 1, so variances of columns are means over rows.
    """
    if not np.isfinite(cells).all():
        return KnownErrors(cells=cells)
    logs = np.log(cells)
    rows, columns = logs.mean(axis=1), logs.mean(axis=0)
    rest = logs - rows[:, None] - columns + logs.mean()
    if np.abs(rest).max() > SAME:
        return KnownErrors(cells=cells)
    factors = np.exp(rows - logs.mean())
    usual = np.sqrt((factors**2).mean())
    return KnownErrors(factors / usual, np.exp(columns) * usual)


def errors_as(features: FloatArray | None, samples: FloatArray | None) -> KnownErrors:
    """Noise variances of columns and rows as known errors.

    A column without noise gets the mean variance of the others.
    """
    rows = None if samples is None else np.sqrt(samples / samples.mean())
    if features is None:
        return KnownErrors(rows=rows)
    usual = features[features > 0]
    some = np.where(features > 0, features, usual.mean() if usual.size else 1.0)
    return KnownErrors(rows, np.sqrt(some))
