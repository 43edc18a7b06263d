"""Precision of numbers that repeat: whole counts, two decimals, many zeros.

Numbers on a grid of step δ are known to ±δ/2, which is a variance of δ²/12 that no model can
explain. Numbers that take few values carry little information, H = −Σ qᵥ log qᵥ nats with qᵥ the
shares of the values: predicting them exactly gains H over knowing the shares, and no more. A normal
density gains ½ log(variance/noise) by prediction, so the noise must be at least variance·exp(−2H);
for equally likely numbers on a grid that is δ²/12 again. Without this bound, a column that is
nearly always the same number would have an unbounded density.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.namespaces import is_sparse, to_namespace, to_numpy
from bayespca.arrays.types import Array, FloatArray

# Rows that are examined, those drawn from them to find repeats, and how far off the grid a number
# may be, in steps.
ROWS = 1000
DRAWN = 200
# Share of equal numbers from which a column is examined in more rows, and how many.
MOSTLY, ROWS_OF_RARE = 0.9, 50_000
OFF_GRID = 1e-6
# Numbers repeat where each value occurs at least so many times on average.
CROWDED = 2.0
# Largest share of a column's variance that is rounding, if its numbers may be called exact.
COARSE = 1e-3
# Largest share of rows with the same number, likewise.
OFTEN = 0.15


def rounding_variances(X: Array) -> FloatArray:
    """Rounding variance of each column: the smaller of δ²/12, on a grid, and variance·exp(−2H).

    Where nearly all numbers are the same, δ is not their error. Where few numbers repeat, they may
    be exact: 0.
    """
    rows = _some_rows(X)
    tied = _tied(rows)
    found = np.zeros(rows.shape[1])
    found[tied] = _of_ties(rows[:, tied])
    if len(rows) < X.shape[0]:
        # Rare numbers make all the difference, and few of them are in these rows.
        same = np.flatnonzero((rows == np.median(rows, axis=0)).mean(axis=0) > MOSTLY)
        if same.size:
            found[same] = _of_ties(_some_rows(X, ROWS_OF_RARE)[:, same])
    return found


def grid_steps(X: Array) -> FloatArray:
    """Step of the grid on which the numbers of each column lie; 0 if few of them repeat."""
    rows = _some_rows(X)
    tied = _tied(rows)
    found, steps = np.zeros(rows.shape[1]), np.sqrt(12 * _of_grid(rows[:, tied]))
    found[tied] = np.where(_repeats(rows[:, tied]).are_crowded & np.isfinite(steps), steps, 0.0)
    return found


def with_known_numbers(filled: Array, X: Array) -> Array:
    """A filled matrix whose cells that are holes of X hold numbers that occur in their column.

    Only where numbers repeat: there each hole gets the nearest of them.
    """
    rows = _some_rows(X)
    tied = _tied(rows)
    columns = tied[_repeats(rows[:, tied]).are_crowded]
    values, known = np.array(to_numpy(filled)), np.asarray(to_numpy(X))
    for j in columns:
        holes = np.isnan(known[:, j])
        numbers = np.unique(known[~holes, j])
        between = 0.5 * (numbers[1:] + numbers[:-1])
        values[holes, j] = numbers[np.searchsorted(between, values[holes, j])]
    return to_namespace(values, filled) if columns.size else filled


def _of_ties(rows: FloatArray) -> FloatArray:
    found = _repeats(rows)
    count = np.maximum(found.known, 1)
    entropy = np.log(count) - found.logs / count
    least = np.minimum(np.exp(-2 * entropy) * _variances(rows), _of_grid(rows))
    return np.where(found.are_crowded, least, 0.0)


def _of_grid(rows: FloatArray) -> FloatArray:
    """δ²/12 of each column, δ its least gap; infinite where its numbers are on no grid."""
    holes = np.isnan(rows)
    if holes.any():
        # Each column's first known number adds nothing.
        first = np.nan_to_num(rows[np.argmin(holes, axis=0), np.arange(rows.shape[1])])
        rows = np.where(holes, first, rows)
    ordered = np.sort(rows, axis=0)
    gaps = np.diff(ordered, axis=0)
    step = np.where(gaps > 0, gaps, np.inf).min(axis=0, initial=np.inf)
    step = np.where(np.isfinite(step), step, 1.0)
    steps = (ordered - ordered[0]) / step
    on_grid = np.abs(steps - np.rint(steps)).max(axis=0, initial=0.0) < OFF_GRID * (1 + steps[-1])
    return np.where(on_grid, step**2 / 12, np.inf)


def is_coarse(X: Array) -> bool:
    """Whether the numbers of any column repeat so much that none could be called exact.

    Such data say nothing of the tails of single cells, and get no noise of their own for them.
    """
    rows = _some_rows(X)
    rows = rows[:, _tied(rows)]
    found = _repeats(rows)
    often = found.most > OFTEN * found.known
    return bool((often | (_of_ties(rows) > COARSE * _variances(rows))).any())


def _tied(rows: FloatArray) -> NDArray[np.intp]:
    """Indices of the columns in which numbers may repeat: one does so in a sample of the rows.

    Where half of a thousand numbers repeat, twenty do so in a sample of a fifth of them.
    """
    few = len(rows) <= DRAWN
    drawn = rows if few else np.random.default_rng(0).choice(rows, DRAWN, replace=False)
    ordered = np.sort(drawn.T, axis=1)
    return np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))


class _Repeats(NamedTuple):
    """For each column: the count of known numbers, of distinct ones, of the most frequent one, and
    Σ m log m over the counts m of the distinct ones.
    """

    known: NDArray[np.intp]
    distinct: NDArray[np.intp]
    most: NDArray[np.intp]
    logs: FloatArray

    @property
    def are_crowded(self) -> NDArray[np.bool_]:
        """Whether each value occurs so often that the numbers are not exact."""
        return (CROWDED * self.distinct <= self.known) & (self.distinct > 1)


def _repeats(rows: FloatArray) -> _Repeats:
    p = rows.shape[1]
    ordered = np.sort(rows.T, axis=1)
    known = ~np.isnan(ordered)
    values, column = ordered[known], np.nonzero(known)[0]
    first = np.ones(values.size, dtype=np.bool_)
    first[1:] = (values[1:] != values[:-1]) | (column[1:] != column[:-1])
    begins = np.flatnonzero(first)
    times, of = np.diff(np.append(begins, values.size)), column[begins]
    most = np.zeros(p, dtype=np.intp)
    np.maximum.at(most, of, times)
    logs = np.bincount(of, weights=times * np.log(times), minlength=p).astype(np.float64)
    return _Repeats(known.sum(axis=1), np.bincount(of, minlength=p), most, logs)


def _some_rows(X: Array, n: int = ROWS) -> FloatArray:
    rows = X[:: max(1, X.shape[0] // n), :]
    return np.asarray(rows.toarray() if is_sparse(X) else to_numpy(rows), dtype=np.float64)


def _variances(rows: FloatArray) -> FloatArray:
    """Variances of the known numbers of each column, 0 where there are none."""
    known = ~np.isnan(rows)
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, rows, 0.0).sum(axis=0) / count
    return np.asarray((np.where(known, rows - mean, 0.0) ** 2).sum(axis=0) / count)
