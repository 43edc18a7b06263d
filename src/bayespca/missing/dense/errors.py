"""Known measurement errors: a standard deviation for each cell.

The noise of a cell has the variance σ²·S², with σ² estimated unless it is given. If S is a product
s·t of row and column factors, these scale rows and columns; otherwise S becomes precisions of
cells. Errors are relative to the usual error, their geometric mean over all cells (over observed
cells if S is no product), which is part of σ².
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray

# Logarithms of errors that differ by less are equal.
EQUAL = 1e-9


@dataclass(frozen=True, eq=False)
class Errors:
    """Known errors relative to the `usual` one.

    They are variances of rows (n,) and columns (p,), or precisions of cells (n, p) that are 0 in
    holes; None stands for ones.
    """

    usual: float = 1.0
    rows: FloatArray | None = None
    columns: FloatArray | None = None
    cells: FloatArray | None = None

    def arranged(
        self, rows: NDArray[np.intp], columns: NDArray[np.bool_], order: NDArray[np.intp]
    ) -> Errors:
        """The errors of some rows and columns, with the rows in the given order."""
        places = rows[order]
        return replace(
            self,
            rows=None if self.rows is None else self.rows[places],
            columns=None if self.columns is None else self.columns[columns],
            cells=None if self.cells is None else self.cells[places][:, columns],
        )


def known_errors(S: FloatArray, seen: NDArray[np.bool_]) -> Errors:
    """Errors from standard deviations (n, p), which are positive and finite in observed cells."""
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
