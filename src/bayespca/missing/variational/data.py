"""A matrix with holes as Bishop's model needs it: without columns that do not vary."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray
from bayespca.lowrank.holes import Holes
from bayespca.lowrank.observing import observed
from bayespca.lowrank.variational import Counts
from bayespca.sources.constant import extremes, is_constant
from bayespca.sources.seen import seen
from bayespca.spectrum.records import Status


@dataclass(frozen=True, eq=False)
class VariationalTable:
    """A matrix as it was given.

    Attributes
    ----------
    X
        The matrix, NaN in its holes; (n, p).
    rows
        The rows and columns that take part.
    seen, constant
        Which columns have values, and which have several values that are all the same; (p,).
    status
        Advice on rows and columns with few values or none.
    """

    X: FloatArray
    rows: Holes
    seen: NDArray[np.bool_]
    constant: NDArray[np.bool_]
    status: Status

    @property
    def live(self) -> NDArray[np.bool_]:
        """Which columns take part."""
        return _live(self.seen, self.constant)

    @property
    def unit(self) -> float:
        """The number by which the data were divided."""
        return float(self.rows.unit[0])

    @property
    def counts(self) -> Counts:
        """Numbers of rows, columns and cells that take part."""
        return counts_of(self.rows)


def variational_table(X: FloatArray, *, center: bool) -> VariationalTable:
    """Table of X with the rows and columns that take part.

    Rows and columns without any value do not take part, and keep the prior. Columns that do not
    vary do not take part either, as for complete data.
    """
    X = np.asarray(X, dtype=np.float64)
    known = seen(X)
    # Columns of at least two values that are all the same, or all 0 if the data are not centred.
    # Counted as features, they would suggest that there is no noise; one value suggests nothing.
    several = (~np.isnan(X)).sum(axis=0) > 1
    constant = known.columns & is_constant(*extremes(X), center=center) & several
    inside = X[:, _live(known.columns, constant)]
    rows = observed(inside[~np.isnan(inside).all(axis=1)], center=center, scale=False)
    return VariationalTable(X, rows, known.columns, constant, known.status)


def _live(has_values: NDArray[np.bool_], constant: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Columns that vary; if none does, all that have values."""
    varies = has_values & ~constant
    return varies if varies.any() else has_values


# --- quantities that sweeps need ---------------------------------------------------------------


def counts_of(data: Holes) -> Counts:
    N, d = data.shape
    return Counts(N, d, int(data.column_counts.sum()))


def prior_mean(data: Holes) -> FloatArray:
    """Prior mean of μ in the coordinates of `data`; it is 0 in those of the user."""
    return np.asarray(-data.location / data.unit)


def squares_about_prior(data: Holes) -> float:
    """Σt² over observed cells about the prior mean of μ: the size of what cancels in residuals."""
    return float(data.squares.sum() + data.column_counts @ prior_mean(data) ** 2)
