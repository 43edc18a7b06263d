"""How well numbers are known that come again and again: whole counts, two decimals, many zeros.

Numbers on a grid of step δ are known to ±δ/2, which is a variance of δ²/12 that no model can
explain. Numbers that take few values carry little information, H = −Σ qᵥ log qᵥ nats with qᵥ the
shares of the values: who predicts them exactly gains H over who knows the shares, and no more. A
normal density gains ½ log(variance/noise) by prediction, so that the noise is to be taken for
variance·exp(−2H) at least; for equally likely numbers on a grid that is δ²/12 again. Without it a
column that is nearly always the same number would have a density without bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.namespaces import is_sparse, to_numpy
from bayespca.arrays.types import Array, FloatArray

# Rows that are looked at, and how far off the grid a number may be, in steps.
ROWS = 1000
DRAWN = 200
OFF_GRID = 1e-6
# Where numbers come again, each value does so many times on average.
CROWDED = 2.0
# Share of the variance of a column that its rounding has, at most, if numbers may be called exact.
COARSE = 1e-3
# Share of the rows that have the same number, at most, likewise.
OFTEN = 0.15


def rounding_variances(X: Array) -> FloatArray:
    """For each column the smaller of δ²/12, where there is a grid, and variance·exp(−2H); 0 where
    few numbers come again.

    Of numbers that are nearly all the same, δ is no error. Few of many values may be exact.
    """
    rows = _some_rows(X)
    tied = _tied(rows)
    found = np.zeros(rows.shape[1])
    found[tied] = _of_ties(rows[:, tied])
    return found


def _of_ties(rows: FloatArray) -> FloatArray:
    found = _repeats(rows)
    count = np.maximum(found.known, 1)
    entropy = np.log(count) - found.logs / count
    crowded = (CROWDED * found.distinct <= found.known) & (found.distinct > 1)
    least = np.minimum(np.exp(-2 * entropy) * _variances(rows), _of_grid(rows))
    return np.where(crowded, least, 0.0)


def _of_grid(rows: FloatArray) -> FloatArray:
    """δ²/12 of each column, δ its least gap; infinite where its numbers are on no grid."""
    ordered = np.sort(_filled(rows), axis=0)
    gaps = np.diff(ordered, axis=0)
    step = np.where(gaps > 0, gaps, np.inf).min(axis=0, initial=np.inf)
    step = np.where(np.isfinite(step), step, 1.0)
    steps = (ordered - ordered[0]) / step
    on_grid = np.abs(steps - np.rint(steps)).max(axis=0, initial=0.0) < OFF_GRID * (1 + steps[-1])
    return np.where(on_grid, step**2 / 12, np.inf)


def is_coarse(X: Array) -> bool:
    """Whether a column has numbers that come again and again, so that none could be called exact.

    Complete data of that kind are not worth the sweeps that noise of cells takes.
    """
    rows = _some_rows(X)
    rows = rows[:, _tied(rows)]
    found = _repeats(rows)
    often = found.most > OFTEN * found.known
    return bool((often | (_of_ties(rows) > COARSE * _variances(rows))).any())


def _tied(rows: FloatArray) -> NDArray[np.intp]:
    """Columns in which numbers may come again: one does so in a draw of the rows.

    Where half of a thousand numbers come again, twenty do so in a draw of a fifth of them.
    """
    few = len(rows) <= DRAWN
    drawn = rows if few else np.random.default_rng(0).choice(rows, DRAWN, replace=False)
    ordered = np.sort(drawn.T, axis=1)
    return np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))


class _Repeats(NamedTuple):
    """Known numbers of each column, distinct ones, how often the most frequent comes, and Σ m log m
    over how often each comes.
    """

    known: NDArray[np.intp]
    distinct: NDArray[np.intp]
    most: NDArray[np.intp]
    logs: FloatArray


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


def _some_rows(X: Array) -> FloatArray:
    rows = X[:: max(1, X.shape[0] // ROWS), :]
    return np.asarray(rows.toarray() if is_sparse(X) else to_numpy(rows), dtype=np.float64)


def _variances(rows: FloatArray) -> FloatArray:
    """Variances of the numbers that are there, 0 where there are none."""
    known = ~np.isnan(rows)
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, rows, 0.0).sum(axis=0) / count
    return np.asarray((np.where(known, rows - mean, 0.0) ** 2).sum(axis=0) / count)


def _filled(rows: FloatArray) -> FloatArray:
    """Rows with a number that is there in the holes of each column."""
    holes = np.isnan(rows)
    if not holes.any():
        return rows
    first = np.argmin(holes, axis=0)
    known = np.nan_to_num(rows[first, np.arange(rows.shape[1])])
    return np.where(holes, known, rows)
