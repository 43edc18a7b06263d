"""What the residuals of a fit show of its noise, in nats of evidence.

From the squares of what a fit leaves over, in units of its noise, follows about how much
evidence one update of the variances of columns would gain, and then one of rows, of what neighbours
have in common, and of cells, which is less than a fit with them gains. Data whose noise is as
the model has it gain next to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray, Numbers
from bayespca.lowrank.scales import gained

# Gains below are chance.
LEAST_GAIN = 6.0
# Standard errors by which a sum must exceed what equal noise gives: to be looked at more closely,
# and to be a sign.
WORTH_A_LOOK = 2.0
STANDS_OUT = 4.0
# For a glance, log of the mean variance less the mean of their logarithms; and what is left of a
# row at least.
FAR, LEAST_LEFT = 0.05, 0.1
# Neighbours are alike from this correlation on.
LEAST_CORRELATION = 0.03
# Rows that are too few to show anything.
FEWEST = 4
# Features that show an order: of three, one pair are no neighbours, and says nothing of chance.
FEWEST_IN_ORDER = 4
# Share of the squares of a component that one row or column has, if it is all there is to it.
MOST_OF_IT = 0.5
# Components for each column from which on they may have taken what neighbours have in common.
SMOOTH = 0.1
# Features among which correlations are compared.
MOST_FEATURES = 200
# Cells whose tails are looked at.
MOST_CELLS = 40_000


@dataclass(frozen=True)
class Signs:
    """Nats that variances of their own would gain, at least, and what neighbours have in common.

    `cells` are what is gained beyond columns and rows. `absorbed` names what a single component may
    have explained away: a column or a row that it consists of, which leaves no residuals behind.
    """

    columns: float = 0.0
    rows: float = 0.0
    neighbours: float = 0.0
    cells: float = 0.0
    correlation: float = 0.0
    absorbed: frozenset[str] = frozenset()

    @property
    def seen(self) -> frozenset[str]:
        """What differs by more than chance."""
        gains = vars(self)
        names = ("columns", "rows", "neighbours", "cells")
        return self.absorbed | {name for name in names if gains[name] > LEAST_GAIN}

    @property
    def of_cells(self) -> Signs:
        """Those of cells alone."""
        return Signs(cells=self.cells)


def signs(
    residuals: FloatArray, freedom: FloatArray, adjacent: NDArray[np.bool_] | None = None
) -> Signs:
    """From residuals in units of the noise's standard deviation, what share of its noise each cell
    has left in them, and which columns have the next one for their neighbour.
    """
    if residuals.shape[0] < FEWEST or not residuals.shape[1]:
        return Signs()
    squares = residuals * residuals
    of_columns, by_columns = of_variances(squares.sum(axis=0), freedom.sum(axis=0))
    of_rows, by_rows = of_variances(squares @ of_columns, freedom.sum(axis=1))
    if by_rows:
        residuals = residuals * np.sqrt(of_rows)[:, None]
    phi, by_neighbours = _alike(residuals, adjacent)
    squares /= freedom
    return Signs(by_columns, by_rows, by_neighbours, _tails(squares, of_rows, of_columns), phi)


def absorbed(loadings: FloatArray, scores: FloatArray) -> frozenset[str]:
    """Whether a component consists of one column, or of one row."""
    sides = {"columns": loadings.T, "rows": scores}
    return frozenset(name for name, values in sides.items() if _is_single(values))


def taken_in_order(Z: FloatArray, adjacent: NDArray[np.bool_], n_components: int) -> frozenset[str]:
    """Whether components may have explained what neighbours have in common: noise of few columns
    that are alike is smooth, and a few smooth components leave no trace of it in residuals. So the
    data themselves are looked at, Z, centred.
    """
    if n_components <= SMOOTH * Z.shape[1] or Z.shape[0] < FEWEST:
        return frozenset()
    return frozenset({"neighbours"} if _alike(Z, adjacent)[1] > LEAST_GAIN else ())


def _is_single(values: FloatArray) -> bool:
    """Whether one entry has most of the squares of a column, where there are many."""
    if values.shape[0] < FEWEST or not values.shape[1]:
        return False
    squares = values**2
    total = np.maximum(squares.sum(axis=0), np.finfo(np.float64).tiny)
    return bool((squares.max(axis=0) > MOST_OF_IT * total).any())


def of_variances(squares: FloatArray, counts: Numbers) -> tuple[FloatArray, float]:
    """Precisions, relative to their mean, and what they gain.

    Nothing where Bartlett's statistic is what it is for equal variances.
    """
    N = np.maximum(counts.astype(np.float64), 1.0)
    freedom = max(N.size - 1, 1)
    if _statistic(squares, N) < freedom + WORTH_A_LOOK * np.sqrt(2 * freedom):
        return np.ones(N.size), 0.0
    found, gain = gained(squares, N)
    return found.precision * float(squares.sum() / N.sum()), gain


def _statistic(squares: FloatArray, N: FloatArray) -> float:
    """Bartlett's: N log of the mean variance, less that of each."""
    total, logs = float(N.sum()), np.log(np.maximum(squares / N, 1e-300))
    return total * float(np.log(squares.sum() / total)) - float(N @ logs)


def is_far_from_equal(rows: FloatArray) -> bool:
    """Whether the noise of a few rows differs so much between rows or columns that a glance shows
    it: what is left when half of all directions, the strongest, have taken components with them.
    Rows must be fewer than half of the columns.
    """
    Z = rows - rows.mean(axis=0)
    Z = Z[:, Z.any(axis=0)]
    if len(Z) < FEWEST or Z.shape[1] < 2 * len(Z):
        return False
    weak = np.linalg.eigh(Z @ Z.T)[1][:, : len(Z) // 2]
    squares = (weak @ (weak.T @ Z)) ** 2
    left = np.maximum(np.einsum("ij,ij->i", weak, weak), LEAST_LEFT)
    of_columns = _statistic(squares.sum(axis=0), np.full(Z.shape[1], left.sum()))
    of_rows = _statistic(squares.sum(axis=1), Z.shape[1] * left)
    # Equal variances of columns have about 1 for each.
    return max(of_columns, of_rows) > FAR * left.sum() * Z.shape[1] + Z.shape[1]


def _tails(squares: FloatArray, of_rows: FloatArray, of_columns: FloatArray) -> float:
    """What cells of their own would gain beyond rows and columns: nothing where fourth moments are
    those of the normal.
    """
    mean = float(of_rows @ squares @ of_columns) / squares.size
    fourth = float(of_rows**2 @ (squares * squares) @ of_columns**2) / squares.size / mean**2
    if fourth - 3 < STANDS_OUT * np.sqrt(24 / squares.size):
        return 0.0
    step = squares.size // MOST_CELLS + 1
    unit = (squares * of_columns * of_rows[:, None]).ravel()[::step] / mean
    return step * gained(np.maximum(unit, 1e-8), 1.0)[1]


def _alike(E: FloatArray, adjacent: NDArray[np.bool_] | None) -> tuple[float, float]:
    """Correlation of neighbouring columns, and what it gains; 0 where all columns are as much alike
    as neighbours, so that their order says nothing.
    """
    n, p = E.shape
    if p < FEWEST_IN_ORDER or (adjacent is not None and not adjacent.any()):
        return 0.0, 0.0
    size = np.sqrt(np.einsum("ij,ij->j", E, E))
    size[size == 0] = 1.0
    beside = np.einsum("ij,ij->j", E[:, 1:], E[:, :-1]) / (size[1:] * size[:-1])
    beside = beside if adjacent is None else beside[adjacent]
    step = -(-p // MOST_FEATURES)
    some = E[:, ::step] / size[::step]
    others = (some.T @ some)[np.triu_indices(some.shape[1], 2)]
    phi = float(beside.mean())
    if not others.size:
        return phi, 0.0
    error = float(others.std()) / np.sqrt(beside.size)
    stands_out = abs(phi - float(others.mean())) > STANDS_OUT * error
    if not stands_out or abs(phi) < LEAST_CORRELATION:
        return phi, 0.0
    return phi, -0.5 * n * beside.size * float(np.log1p(-min(phi * phi, 0.99)))
