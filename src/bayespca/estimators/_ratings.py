"""Ratings and their times as users pass them, and messages about what cannot be ratings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from bayespca.arrays.namespaces import is_sparse
from bayespca.arrays.types import FloatArray, Identifiers, Input, Numbers
from bayespca.sources.checks import not_finite

from . import _identifiers, _input
from ._input_types import as_numbers, refuse_others

Indices = NDArray[np.int32]

# Ratings with at most this many distinct values are on a scale with a lowest and a highest value.
SCALE = 101


@dataclass(frozen=True, eq=False)
class Cells:
    """Ratings by places of users and items, each pair once, sorted by user.

    `starts` and `columns` are as in a CSR matrix; `n_duplicates` ratings were merged. `values` is
    None if the ratings are elsewhere, and `times` if they are unknown.
    """

    users: Identifiers
    items: Identifiers
    starts: NDArray[np.int64]
    columns: Indices
    values: FloatArray | None
    n_duplicates: int
    bounds: tuple[float, float] | None
    times: FloatArray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.users.size, self.items.size

    @property
    def rows(self) -> Indices:
        return np.repeat(np.arange(self.users.size, dtype=np.int32), np.diff(self.starts))

    @property
    def n_empty(self) -> tuple[int, int]:
        """Numbers of users and of items without ratings."""
        per_item = np.bincount(self.columns, minlength=self.items.size)
        return int(np.sum(np.diff(self.starts) == 0)), int(np.sum(per_item == 0))


def from_columns(
    users: Input, items: Input, ratings: Input, bounds: Any, times: Input = None
) -> Cells:
    """Ratings from three columns of one length, with a fourth of their times if these are known.

    A pair that was rated more than once gets the means of its ratings and times.
    """
    when = None if times is None else times_of_ratings(times, len(ratings))
    named = {"users": users, "items": items, "ratings": ratings}
    columns = {name: _identifiers.column(given, name) for name, given in named.items()}
    for name, given in columns.items():
        if given.ndim != 1:
            raise ValueError(f"{name} must be one column, got an array of shape {given.shape}.")
    sizes = {name: given.size for name, given in columns.items()}
    if len(set(sizes.values())) > 1:
        lengths = ", ".join(f"{name} has {size}" for name, size in sizes.items())
        raise ValueError(f"users, items and ratings must be of one length: {lengths}.")
    values = numbers(columns["ratings"], "ratings", lambda i: f"position {i} (counting from 0)")
    user_ids, rows = _identifiers.numbered(columns["users"], "users")
    item_ids, places = _identifiers.numbered(columns["items"], "items")
    found = _merged(rows, places, values, user_ids, item_ids, bounds)
    if when is None:
        return found
    return replace(found, times=averaged(rows, places, when, found.shape)[0].data)


def from_matrix(X: Input, bounds: Any) -> Cells:
    """Ratings from a matrix of users × items: the stored cells, or those that are not NaN."""
    rows, columns, values, shape = cells_of(X)
    users, items = _labels(X, shape)
    return _merged(rows, columns, values, users, items, bounds)


def cells_of(X: Input) -> tuple[Indices, Indices, FloatArray, tuple[int, int]]:
    """Rows, columns and values of the observed cells of a matrix, and its shape."""
    if is_sparse(X):
        cells = X.tocoo()
        rows, columns = (a.astype(np.int32) for a in (cells.row, cells.col))
        shape = (int(X.shape[0]), int(X.shape[1]))
        values = cells.data
    else:
        given = _input.as_numpy(_input.unmasked(X))
        refuse_others(given)
        dense = as_numbers(
            lambda: check_array(given, dtype=np.float64, ensure_all_finite=False, input_name="X"),
            given,
        )
        shape = dense.shape
        rows, columns = (a.astype(np.int32) for a in np.nonzero(~np.isnan(dense)))
        values = dense[rows, columns]
    found = numbers(values, "X", lambda i: f"row {rows[i]}, column {columns[i]} (counting from 0)")
    return rows, columns, found, shape


def numbers(values: Numbers, name: str, where: Callable[[int], str]) -> FloatArray:
    """Values as finite floats; raise with the place of the first that is not a finite number."""
    if values.dtype.kind not in "biuf":
        wrong = [i for i, value in enumerate(values) if not isinstance(value, Real)]
        if wrong:
            raise ValueError(
                f"{name} must be numbers, but there is {values[wrong[0]]!r} at {where(wrong[0])}: "
                "correct it, or leave it out."
            )
    found = values.astype(np.float64)
    lost = np.flatnonzero(~np.isfinite(found))
    if lost.size:
        first = int(lost[0])
        raise ValueError(
            f"{name} must be finite, but there is {found[first]} at {where(first)}: leave out "
            "ratings that are not known."
        )
    _input.check_range(not_finite(found))
    return found


def averaged(
    rows: Indices, columns: Indices, values: FloatArray, shape: tuple[int, int]
) -> tuple[Any, int]:
    """Sparse matrix of the mean rating of each pair, and the number of ratings that were merged."""
    means = sp.coo_array((values, (rows, columns)), shape=shape).tocsr()
    n_duplicates = values.size - means.nnz
    if n_duplicates:
        counts = sp.coo_array((np.ones(values.size), (rows, columns)), shape=shape).tocsr()
        means.data /= counts.data
    means.sort_indices()
    return means, n_duplicates


def as_bounds(bounds: Any) -> Any:
    """Bounds as "auto", None, or a pair of floats."""
    return bounds if bounds is None or isinstance(bounds, str) else tuple(map(float, bounds))


def _labels(X: Input, shape: tuple[int, int]) -> tuple[Identifiers, Identifiers]:
    """Ids of users and items: the labels of a DataFrame, else numbers of rows and columns."""
    found = []
    for axis, name, size in zip(("index", "columns"), ("users", "items"), shape, strict=True):
        labels = getattr(X, axis, None)
        if is_sparse(X) or labels is None or callable(labels):
            found.append(np.arange(size))
            continue
        column = _identifiers.column(list(labels), name)
        ids, places = _identifiers.numbered(column, name)
        if ids.size != size:
            twice = ids[np.argmax(np.bincount(places) > 1)]
            raise ValueError(f"X has the label {twice!r} twice among its {name}: rename one.")
        found.append(column)
    return found[0], found[1]


def _merged(
    rows: Indices,
    columns: Indices,
    values: FloatArray,
    users: Identifiers,
    items: Identifiers,
    bounds: Any,
) -> Cells:
    if not values.size:
        raise ValueError("there are no ratings: at least one is needed.")
    if bounds == "auto":
        # For numbers without a scale, a part usually shows it at once.
        parts = values[: 100 * SCALE], values
        is_scale = all(np.unique(part).size <= SCALE for part in parts)
        bounds = (float(values.min()), float(values.max())) if is_scale else None
    means, n_duplicates = averaged(rows, columns, values, (users.size, items.size))
    starts = means.indptr.astype(np.int64)
    seen = means.indices.astype(np.int32)
    return Cells(users, items, starts, seen, means.data, n_duplicates, bounds)


# --- times -------------------------------------------------------------------------------------


def times_of_ratings(times: Input, count: int) -> FloatArray:
    """Times as numbers, one for each of `count` ratings."""
    found = _times(times)
    if found.shape != (count,):
        raise ValueError(
            f"times must be one column, as long as ratings: got shape {found.shape} for {count} "
            "ratings."
        )
    if count and found.min() == found.max():
        raise ValueError("times are all the same: leave them out.")
    return found


def times_of_pairs(times: Input, shape: tuple[int, ...]) -> FloatArray:
    """Times as numbers, broadcast to the shape of the pairs."""
    found = _times(times)
    try:
        return np.broadcast_to(found, shape)
    except ValueError:
        raise ValueError(
            f"times must be one for all pairs or one for each: got shape {found.shape} for pairs "
            f"of shape {shape}."
        ) from None


def _times(times: Input) -> FloatArray:
    """Times as numbers; dates become seconds."""
    given = np.asarray(times)
    if given.dtype.kind == "M":
        lost = np.flatnonzero(np.isnat(given.ravel()))
        if lost.size:
            raise ValueError(
                f"times has no value at position {lost[0]} (counting from 0): every rating needs "
                "a time."
            )
        return np.asarray(given.astype("datetime64[us]").astype(np.int64) / 1e6)
    where = "position {} (counting from 0)".format
    return numbers(given.ravel(), "times", where).reshape(given.shape)
