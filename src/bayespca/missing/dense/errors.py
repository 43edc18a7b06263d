"""Errors of measurement that are known: a standard deviation for each cell.

The noise of a cell has the variance σ²·S², with σ² still to be found unless it is given. What
belongs to a row and to a column, S = s·t, scales these; all else are precisions of cells. They are
relative to the usual error, the geometric mean over all cells that are there, which is part of σ².
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray

# Logarithms of errors that differ by less are those of a product.
EQUAL = 1e-9


@dataclass(frozen=True, eq=False)
class Errors:
    """Known errors, relative to the usual one: variances of rows (n,) and of columns (p,), or
    precisions of cells (n, p), 0 in holes; None where all are 1.
    """

    usual: float = 1.0
    rows: FloatArray | None = None
    columns: FloatArray | None = None
    cells: FloatArray | None = None

    def arranged(
        self, rows: NDArray[np.intp], columns: NDArray[np.bool_], order: NDArray[np.intp]
    ) -> Errors:
        """Those of some rows and columns, the rows in an order."""
        places = rows[order]
        return replace(
            self,
            rows=None if self.rows is None else self.rows[places],
            columns=None if self.columns is None else self.columns[columns],
            cells=None if self.cells is None else self.cells[places][:, columns],
        )


def known_errors(S: FloatArray, seen: NDArray[np.bool_]) -> Errors:
    """From standard deviations (n, p), positive and finite in the cells that are there."""
    logs = np.log(np.where(seen, S, 1.0))
    usual = float(logs.sum() / max(seen.sum(), 1))
    logs = np.where(seen, logs - usual, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        whole = np.log(S) - usual
    if np.isfinite(whole).all():
        of_rows, of_columns = whole.mean(axis=1), whole.mean(axis=0)
        mean = float(whole.mean())
        product = of_rows[:, None] + of_columns - mean
        if np.abs(whole - product).max() < EQUAL:
            rows, columns = (np.exp(2 * (of - mean)) for of in (of_rows, of_columns))
            size = float(np.exp(usual + mean))
            return Errors(size, _unless_equal(rows), _unless_equal(columns))
    return Errors(float(np.exp(usual)), cells=np.exp(-2 * logs) * seen)


def _unless_equal(variances: FloatArray) -> FloatArray | None:
    return None if np.ptp(np.log(variances)) < EQUAL else variances
