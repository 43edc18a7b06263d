"""Measurement errors that are known: of each cell, or of rows and of columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayespca.arrays.types import FloatArray

# Errors that are a row's times a column's to this precision are taken apart.
SAME = 1e-9


@dataclass(frozen=True, eq=False)
class KnownErrors:
    """Standard deviations, relative to one noise variance of all that is still to be found.

    Attributes
    ----------
    rows, columns
        Factors of each row and each column; None where all are 1.
    cells
        One for each cell, where they are not a row's times a column's; infinite for holes.
    """

    rows: FloatArray | None = None
    columns: FloatArray | None = None
    cells: FloatArray | None = None

    def of_cells(self, shape: tuple[int, int]) -> FloatArray:
        """One for each cell."""
        found = np.ones(shape) if self.cells is None else self.cells
        found = found if self.rows is None else found * self.rows[:, None]
        return found if self.columns is None else found * self.columns


def taken_apart(cells: FloatArray) -> KnownErrors:
    """Errors of cells, as a row's times a column's where they are.

    Variances of columns are means over rows.
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
    """Errors that noise variances of columns and of rows would be; a column without noise of its
    own has that of the others.
    """
    rows = None if samples is None else np.sqrt(samples / samples.mean())
    if features is None:
        return KnownErrors(rows=rows)
    usual = features[features > 0]
    some = np.where(features > 0, features, usual.mean() if usual.size else 1.0)
    return KnownErrors(rows, np.sqrt(some))
