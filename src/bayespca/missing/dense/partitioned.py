"""A matrix with holes on Dask: blocks of rows stay on the workers, which return sums for columns.

The data are read three times: to survey each column, to measure its spread, and to bring blocks to
unit scale, which then stay on the workers (`lowrank/distant.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import Counts, FloatArray
from bayespca.lowrank.distant import (
    DistantHoles,
    holes_of_block,
    look_at,
    rows_with_values,
    squares_of_block,
)
from bayespca.lowrank.noise_models import ISOTROPIC, NoiseModel
from bayespca.lowrank.observing import units
from bayespca.lowrank.recognising import digests
from bayespca.sources.cluster import computed
from bayespca.sources.cluster import kept as held
from bayespca.sources.records import Partitions
from bayespca.sources.rounding import ROWS, rounding_variances
from bayespca.sources.seen import little_known
from bayespca.sources.tasks import added, every_nth, mapped, reduced

from .data import HolesTable


def table_on_workers(
    X: Partitions,
    *,
    center: bool,
    scale: bool,
    noise: NoiseModel = ISOTROPIC,
    rounded: bool = False,
) -> HolesTable:
    """Prepare a collection with NaN for sweeps, as `lowrank.observing` does a matrix."""
    look = look_at(X)
    n, live, known, constants = look.n_rows, look.counts > 0, look.known, None
    constant, location = look.constant(center=center), look.location(center=center)
    alone = constant & (look.counts > 1)
    if noise.columns and alone.any() and (live & ~alone).any():
        live, constants = live & ~alone, np.where(alone, location, np.nan)
    kept = None
    if noise.rows or constants is not None:
        kept_in = computed(reduced(mapped(X, rows_with_values, live), added))[0]
        known, kept = [int(block.sum()) for block in kept_in], np.concatenate(kept_in)
    counts, location = look.counts[live], location[live]
    varying = np.where(constant[live], 0.0, 1.0)
    size = float((look.largest(center=center)[live] * varying).max()) or 1.0
    scaling = (live, location, varying)
    squares = computed(reduced(mapped(X, squares_of_block, *scaling, size), added))[0]
    unit = size * units(squares, counts, center=center, scale=scale or noise.columns)
    rounding = None
    if rounded or noise != ISOTROPIC:
        rounding = _rounding(X, live, sum(known)) / unit**2
    tasks = zip(mapped(X, holes_of_block, *scaling, unit, center, rounding), known, strict=True)
    blocks = tuple(held([task for task, rows in tasks if rows]))
    data = DistantHoles(
        blocks=blocks,
        lengths=tuple(rows for rows in known if rows),
        location=location,
        unit=unit,
        centred=center,
        rounding=rounding,
    )
    return HolesTable(
        data,
        n_samples=n,
        live=live,
        status=little_known(look.empty, look.counts, n),
        like=np.empty(0, dtype=X.dtype),
        scaled=scale,
        own_units=noise.columns and not scale,
        kept=kept,
        constants=constants,
        digests=_digests_of_all(X) if noise.rows else None,
    )


def _rounding(X: Partitions, live: NDArray[np.bool_], n: int) -> FloatArray:
    """Variance of the rounding of each column, estimated from some of the rows."""
    inside = every_nth(X, max(1, n // ROWS)).rows[:, live]
    return rounding_variances(inside[~np.isnan(inside).all(axis=1)])


def _digests_of_all(X: Partitions) -> Counts:
    """The digests of all rows, in their order."""
    return np.concatenate(computed(reduced(mapped(X, _digests), added))[0])


def _digests(X: NDArray[Any]) -> list[Counts]:
    return [digests(X)]
