"""Leave-one-out predictions of ratings by a factorization, for calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray, Input
from bayespca.missing.ratings.posterior import left_out

from . import _identifiers, _ratings

Places = NDArray[np.intp]
# Most ratings that are judged: enough to know shares to about a thousandth.
MOST = 100_000


@dataclass(frozen=True, eq=False)
class Judged:
    """Ratings, and the mean and standard deviation of each one's prediction without it.

    `n_fitted` of them were in the fit. They were drawn from `n_given`; `n_alone` more were drawn
    and dropped, because their predictions depend too much on themselves.
    """

    values: FloatArray
    mean: FloatArray
    std: FloatArray
    n_fitted: int
    n_given: int
    n_alone: int


def judged(model: Any, X: Input) -> Judged | None:
    """Predict each rating from all others.

    X is a matrix as in `fit`, or a tuple of users, items and ratings. Ratings that were not in the
    fit need no correction. Fitted ratings cannot be taken out of point estimates, which do not show
    how much they depend on a rating, nor out of predictions for an unknown time; if no other
    ratings are left, return None.
    """
    cells = _cells(X)
    assert cells.values is not None
    rows = _identifiers.places(cells.users, model.users_, "users")[cells.rows]
    columns = _identifiers.places(cells.items, model.items_, "items")[cells.columns]
    fitted = _were_fitted(model, rows, columns)
    sides = model.posterior_.rows, model.posterior_.columns
    drifts = getattr(model.fit_.answering, "drift", None) is not None
    if drifts or not all(len(side.cov) for side in sides):
        usable = np.flatnonzero(~fitted)
    else:
        usable = np.arange(fitted.size)
    if not usable.size:
        return None
    some = usable
    if usable.size > MOST:
        some = np.sort(np.random.default_rng(0).choice(usable, MOST, replace=False))
    mean, std = _predicted(model, rows[some], columns[some], cells.values[some], fitted[some])
    said = np.isfinite(mean)
    return Judged(
        cells.values[some][said],
        mean[said],
        std[said],
        n_fitted=int(fitted[some][said].sum()),
        n_given=usable.size,
        n_alone=int(np.sum(~said)),
    )


def _predicted(
    model: Any, rows: Places, columns: Places, values: FloatArray, fitted: NDArray[np.bool_]
) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of each rating, leaving it out if it was in the fit."""
    mean, std = model.fit_.answering.predicted_with_std(rows, columns, noise=False)
    _, wide = model.fit_.answering.predicted_with_std(rows, columns, noise=True)
    variance, noise = std**2, wide**2 - std**2
    without = left_out(mean, variance, noise, values)
    mean = np.where(fitted, without.mean, mean)
    variance = np.where(fitted, without.variance, variance)
    if model.bounds_ is not None:
        mean = np.clip(mean, *model.bounds_)
    return mean, np.sqrt(variance + noise)


def _cells(X: Input) -> _ratings.Cells:
    if isinstance(X, tuple) and len(X) == 3:
        users, items, ratings = X
        return _ratings.from_columns(users, items, ratings, None)
    return _ratings.from_matrix(X, None)


def _were_fitted(model: Any, rows: Places, columns: Places) -> NDArray[np.bool_]:
    """Mask of the pairs that were in the fit."""
    m, counts = model.items_.size, np.diff(model.seen_starts_)
    keys = np.repeat(np.arange(counts.size, dtype=np.int64), counts) * m + model.seen_items_
    keys.sort()
    wanted = rows.astype(np.int64) * m + columns
    places = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    return np.asarray((rows >= 0) & (columns >= 0) & (keys[places] == wanted))
