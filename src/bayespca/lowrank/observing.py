"""From a matrix with NaN to `Holes`: location and size of columns, and rows sorted by pattern."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayespca.arrays.namespaces import (
    array_namespace,
    cast,
    device,
    is_numpy_array,
    row_blocks,
    to_numpy,
)
from bayespca.arrays.places import at, taken
from bayespca.arrays.types import Array, FloatArray
from bayespca.sources.constant import extremes, is_constant
from bayespca.spectrum.tolerances import EPS

from .holes import Holes, floats, squares_of_columns
from .patterns import arranged


def observed(X: Array, *, center: bool, scale: bool) -> Holes:
    """Centre and scale a matrix with NaN, and sort its rows by pattern of holes.

    Unless they are scaled, all columns have one unit, so that a single noise variance keeps its
    meaning; a column that does not vary keeps the common unit.
    """
    seen = _seen(X)
    counts, totals = counts_and_totals(X)
    location = totals / np.maximum(counts, 1) if center else np.zeros(counts.size)
    data = _sorted(X, seen, location, np.ones(counts.size), centred=center)
    xp = array_namespace(X)
    blocks = (data.values[rows, :] for rows in row_blocks(data.values))
    largest = np.max([to_numpy(xp.max(xp.abs(block), axis=0)) for block in blocks], axis=0)
    for j in np.flatnonzero(largest <= len(data.order) * EPS * np.abs(location)):
        if is_constant(*extremes(to_numpy(X[:, int(j)])), center=True):
            # Rounding errors are all that is left of it, and must not pass for data.
            data.values[:, int(j)] = largest[j] = 0.0
    # After division by the largest number, squares neither overflow nor vanish.
    size = float(largest.max()) or 1.0
    unit = size * units(squares_of_columns(data.values, size), counts, center=center, scale=scale)
    values = data.values
    values /= at(values, unit)
    return replace(data, unit=unit)


def units(squares: FloatArray, counts: FloatArray, *, center: bool, scale: bool) -> FloatArray:
    """Divisors of the columns, from Σ(x − location)² of each."""
    unit = np.full(counts.size, np.sqrt(squares.sum() / max(counts.sum(), 1)) or 1.0)
    if not scale:
        return unit
    std = np.sqrt(squares / np.maximum(counts - center, 1))
    return np.where(std > 0, std, unit)


def new_rows(
    X: Array, *, location: Array, unit: Array, centred: bool = True, overwrite: bool = False
) -> Holes:
    """Rows with NaN, in given units. With `overwrite` they are stored in the memory of X, if their
    order does not change.
    """
    into = X if overwrite and X.dtype == np.float64 else None
    return _sorted(X, _seen(X), to_numpy(location), to_numpy(unit), centred=centred, into=into)


def sorted_by_pattern(
    values: Array,
    seen: Array,
    location: FloatArray,
    unit: FloatArray,
) -> Holes:
    """The `Holes` record of values that have zeros in their holes."""
    order, starts, first = arranged(to_numpy(seen))
    if first.size < order.size:  # otherwise sorting gains nothing
        values, seen = taken(values, order), taken(seen, first)
    return Holes(values, seen, starts, order, location, unit)


def _seen(X: Array) -> Array:
    """True where observed: only NaN differs from itself."""
    return X == X  # noqa: PLR0124


def counts_and_totals(X: Array) -> tuple[FloatArray, FloatArray]:
    """Observed cells of each column, and Σx over them."""
    xp, p = array_namespace(X), X.shape[1]
    counts, totals = np.zeros(p), np.zeros(p)
    for rows in row_blocks(X):
        known = _seen(X[rows, :])
        counts += to_numpy(xp.sum(floats(known), axis=0))
        cells = xp.astype(X[rows, :], xp.float64, copy=True)
        totals += to_numpy(xp.sum(_without_holes(cells, known), axis=0))
    return counts, totals


def _sorted(
    X: Array,
    seen: Array,
    location: FloatArray,
    unit: FloatArray,
    *,
    centred: bool,
    into: Array | None = None,
) -> Holes:
    """(X − location)/unit, with each row written straight to its place, to avoid a second copy."""
    xp = array_namespace(X)
    # Patterns are sorted on the host, so the mask is copied there once.
    order, starts, first = arranged(to_numpy(seen))
    some_alike = first.size < order.size
    moves = bool((order[1:] < order[:-1]).any())
    less, over = at(X, location), at(X, unit)
    if moves or into is None:
        into = xp.empty(X.shape, dtype=xp.float64, device=device(X))
    values = into
    for rows in row_blocks(X):
        cells, known = X[rows, :], seen[rows, :]
        if moves:
            cells, known = taken(X, order[rows]), taken(seen, order[rows])
        values[rows, :] = _without_holes((cast(cells, xp.float64) - less) / over, known)
    patterns = taken(seen, first) if some_alike else seen
    return Holes(values, patterns, starts, order, location, unit, centred)


def _without_holes(cells: Array, seen: Array) -> Array:
    """Cells with 0 where nothing was observed, in place where possible."""
    if not is_numpy_array(cells):
        xp = array_namespace(cells)
        return xp.where(seen, cells, xp.zeros_like(cells))
    # Five times as fast as np.where, which is slow on random masks.
    np.putmask(cells, ~seen, 0.0)
    return cells
