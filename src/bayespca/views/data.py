"""Several tables side by side, in the form that sweeps use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.places import columns_of
from bayespca.arrays.types import Counts, FloatArray
from bayespca.lowrank.distant import (
    ColumnLook,
    DistantHoles,
    holes_of_block,
    look_at,
    rows_with_values,
    squares_of_block,
)
from bayespca.lowrank.holes import Holes, IncompleteRows
from bayespca.lowrank.observing import new_rows, observed
from bayespca.sources.cluster import computed
from bayespca.sources.cluster import kept as held
from bayespca.sources.records import Partitions
from bayespca.sources.seen import little_known, seen
from bayespca.sources.tasks import added, mapped, reduced
from bayespca.spectrum.records import Status

Mask = NDArray[np.bool_]

# Columns measured at a time, in copies.
AT_ONCE = 256


class SideBySide:
    """Tables whose columns stand side by side: the view of each column, and the number of views."""

    view: Counts
    n_views: int

    @cached_property
    def columns(self) -> list[NDArray[np.intp]]:
        return [np.flatnonzero(self.view == v) for v in range(self.n_views)]

    @cached_property
    def sizes(self) -> FloatArray:
        """Number of columns of each view: (V,)."""
        return np.bincount(self.view, minlength=self.n_views).astype(np.float64)


@dataclass(frozen=True, eq=False)
class ViewsTable(SideBySide):
    """Columns of all views side by side.

    Attributes
    ----------
    rows
        The rows that have values and the columns that vary; each view at its own scale.
    view
        The view of each of these columns.
    view_of_all
        The view of each column of the tables as given: (p,).
    live
        Which columns of the tables as given are kept: (p,).
    constants
        The value of each column that does not vary, NaN for the others: (p,).
    n_samples
        Number of rows of the tables as given.
    n_views
        Number of views.
    status
        Advice on rows and columns with few values or none.
    noise
        The noise variance of each view from its own PCA, NaN if there was none: (V,).
    """

    rows: IncompleteRows
    view: Counts
    view_of_all: Counts
    live: Mask
    constants: FloatArray
    n_samples: int
    n_views: int
    status: Status
    noise: FloatArray

    @cached_property
    def cells(self) -> FloatArray:
        """Number of observed cells of each view: (V,)."""
        return self.by_view(self.rows.column_counts)

    @cached_property
    def alike(self) -> list[bool]:
        """Whether all columns of a view are observed in the same rows and share a covariance."""
        return [not differ for differ in self.rows.total(_differing, self.columns).tolist()]

    @cached_property
    def has_holes(self) -> bool:
        return bool((self.rows.column_counts < self.rows.shape[0]).any())

    def by_view(self, of_columns: FloatArray) -> FloatArray:
        """Sums over the columns of each view: (V,)."""
        found = np.bincount(self.view, weights=of_columns, minlength=self.n_views)
        return np.asarray(found, dtype=np.float64)


def _differing(data: Holes, columns: list[NDArray[np.intp]]) -> Counts:
    """Number of patterns in which only some columns of a view are observed: (V,)."""
    patterns = np.asarray(data.patterns)
    found = [(patterns[:, js] != patterns[:, js[:1]]).any(axis=1).sum() for js in columns]
    return np.array(found, dtype=np.int64)


def _part(X: FloatArray, rows: Mask | slice, columns: Mask) -> FloatArray:
    """Some rows and columns; all of them are not copied."""
    X = X if columns.all() else X[:, columns]
    return X if isinstance(rows, slice) or rows.all() else X[rows]


def views_table(
    X: FloatArray,
    view: Counts,
    n_views: int,
    feature_std: FloatArray | None = None,
    *,
    overwrite: bool = False,
) -> ViewsTable:
    """The table of views that stand side by side in X, with NaN for holes.

    Columns are divided by `feature_std`, the standard deviations of their noise, where these are
    given and not NaN. Columns that do not vary are left out: as features without noise, they would
    suggest that their view has none. With `overwrite`, the table may use the memory of X.
    """
    known = seen(X)
    location, unit = np.zeros(X.shape[1]), np.ones(X.shape[1])
    varies = np.zeros(X.shape[1], dtype=np.bool_)
    std = np.full(X.shape[1], np.nan) if feature_std is None else feature_std
    divisor, noise = np.where(np.isnan(std), 1.0, std), np.full(n_views, np.nan)
    for v in range(n_views):
        mine = np.flatnonzero((view == v) & known.columns)
        if not mine.size:
            continue
        location[mine], varies[mine], common = _measured(X, mine, divisor[mine])
        unit[mine] = common * divisor[mine]
        if not np.isnan(std[mine]).any():
            # The noise variance is 1 in columns divided by their standard deviation of the noise.
            noise[v] = common**-2.0
    live = known.columns & varies
    constants = np.where(known.columns & ~varies, location, np.nan)
    kept = known.rows if live.all() else seen(_part(X, slice(None), live)).rows
    rows = new_rows(
        _part(X, kept, live), location=location[live], unit=unit[live], overwrite=overwrite
    )
    return ViewsTable(rows, view[live], view, live, constants, len(X), n_views, known.status, noise)


def _measured(
    X: FloatArray, columns: Counts, divisor: FloatArray
) -> tuple[FloatArray, Mask, float]:
    """Locations of the columns of a view, which of them vary, and their common unit once they are
    divided by `divisor`; a few columns at a time.
    """
    location, varies, sizes, cells = [], [], [], []
    for start in range(0, columns.size, AT_ONCE):
        js, over = columns[start : start + AT_ONCE], divisor[start : start + AT_ONCE]
        found = observed(columns_of(X, js) / over, center=True, scale=False)
        location.append(found.location * over)
        varies.append(found.squares > 0)
        sizes.append(float(found.unit[0]) if varies[-1].any() else 0.0)
        cells.append(float(found.column_counts.sum()))
    # Relative to the largest, squares neither overflow nor underflow.
    largest = max(sizes) or 1.0
    squares = np.average((np.array(sizes) / largest) ** 2, weights=cells)
    unit = largest * float(np.sqrt(squares)) or 1.0
    return np.concatenate(location), np.concatenate(varies), unit


# --- on Dask -------------------------------------------------------------------------------------


class ViewsLook(NamedTuple):
    """A summary of the columns, and the number of rows with values in each view: (V,)."""

    columns: ColumnLook
    rows: Counts


def look_at_views(X: Partitions, view: Counts, n_views: int) -> ViewsLook:
    """Summarise the columns and rows of all views, in two passes."""
    counts = computed(reduced(mapped(X, _rows_of_views, view, n_views), added))[0]
    return ViewsLook(look_at(X), counts)


def _rows_of_views(X: NDArray[Any], view: Counts, n_views: int) -> Counts:
    there = [~np.isnan(X[:, view == v]).all(axis=1) for v in range(n_views)]
    return np.array([rows.sum() for rows in there], dtype=np.int64)


def views_on_workers(
    X: Partitions, look: ViewsLook, view: Counts, feature_std: FloatArray
) -> ViewsTable:
    """The table of views that stand side by side, like `views_table` in memory.

    `feature_std` are the standard deviations of the noise of the columns, NaN if unknown.
    """
    found, n_views = look.columns, look.rows.size
    known, constant = found.counts > 0, found.constant(center=True)
    live, location = known & ~constant, found.location(center=True)
    kept = found.known
    if not live.all():
        there = computed(reduced(mapped(X, rows_with_values, live), added))[0]
        kept = [int(block.sum()) for block in there]
    divisor = np.where(np.isnan(feature_std), 1.0, feature_std)
    # Relative to the largest, squares neither overflow nor underflow.
    sizes = found.largest(center=True) / divisor
    largest = np.array([sizes[live & (view == v)].max(initial=0.0) for v in range(n_views)])
    size = np.where(largest > 0, largest, 1.0)
    scaling = (live, location[live], np.ones(int(live.sum())))
    squares = computed(
        reduced(mapped(X, squares_of_block, *scaling, (size[view] * divisor)[live]), added)
    )[0]
    cells = np.bincount(view, weights=found.counts, minlength=n_views)
    total = np.bincount(view[live], weights=squares, minlength=n_views)
    units = np.where(total > 0, size * np.sqrt(total / np.maximum(cells, 1)), 1.0)
    unit = (units[view] * divisor)[live]
    tasks = zip(mapped(X, holes_of_block, *scaling, unit, True, None), kept, strict=True)
    rows = DistantHoles(
        blocks=tuple(held([task for task, count in tasks if count])),
        lengths=tuple(count for count in kept if count),
        location=location[live],
        unit=unit,
        centred=True,
    )
    # A view of unknown noise starts with the least noise.
    unknown = np.bincount(view, weights=known & np.isnan(feature_std), minlength=n_views) > 0
    return ViewsTable(
        rows=rows,
        view=view[live],
        view_of_all=view,
        live=live,
        constants=np.where(constant, location, np.nan),
        n_samples=found.n_rows,
        n_views=n_views,
        status=little_known(found.empty, found.counts, found.n_rows),
        noise=np.where(unknown, 0.0, units**-2.0),
    )
