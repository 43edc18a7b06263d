"""Several tables side by side on Dask, whose blocks of rows stay on the workers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import Counts, FloatArray
from bayespca.lowrank.distant import (
    ColumnLook,
    DistantHoles,
    holes_of_block,
    look_at,
    rows_with_values,
    squares_of_block,
)
from bayespca.sources.cluster import computed
from bayespca.sources.cluster import kept as held
from bayespca.sources.records import Partitions
from bayespca.sources.seen import little_known
from bayespca.sources.tasks import added, mapped, reduced

from .data import ViewsTable


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
    size = _largest_of_views(found.largest(center=True) / divisor, live, view, n_views)
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


def _largest_of_views(
    sizes: FloatArray, live: NDArray[np.bool_], view: Counts, n_views: int
) -> FloatArray:
    """The largest size among the varying columns of each view, 1 if there are none."""
    found = [sizes[live & (view == v)].max(initial=0.0) for v in range(n_views)]
    return np.where(np.array(found) > 0, found, 1.0)
