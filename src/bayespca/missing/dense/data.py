"""Input of a fit: a matrix with holes, in memory, on a device or on Dask, and its known errors.

On Dask the data are read three times: to survey each column, to measure its spread, and to bring
blocks to unit scale, which then stay on the workers (`lowrank/distant.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.places import taken
from bayespca.arrays.types import Array, Counts, FloatArray
from bayespca.lowrank.distant import (
    DistantHoles,
    holes_of_block,
    look_at,
    rows_with_values,
    squares_of_block,
)
from bayespca.lowrank.holes import Holes, IncompleteRows
from bayespca.lowrank.noise_models import ISOTROPIC, NoiseModel
from bayespca.lowrank.observing import observed, units
from bayespca.lowrank.recognising import digests
from bayespca.sources.checks import UnusableData
from bayespca.sources.cluster import computed
from bayespca.sources.cluster import kept as held
from bayespca.sources.data import Where, where_of
from bayespca.sources.records import Partitions
from bayespca.sources.rounding import ROWS, rounding_variances
from bayespca.sources.seen import Seen, little_known, seen
from bayespca.sources.tasks import added, every_nth, mapped, reduced
from bayespca.spectrum.records import Status

# Logarithms of errors that differ by less are equal.
EQUAL = 1e-9


@dataclass(frozen=True, eq=False)
class Errors:
    """Known measurement errors, a standard deviation S for each cell, relative to the `usual` one.

    The noise of a cell has the variance σ²·S², with σ² estimated unless it is given. If S is a
    product of row and column factors, there are variances of rows (n,) and columns (p,); otherwise
    precisions of cells (n, p), which are 0 in holes. None stands for ones. The usual error is the
    geometric mean over all cells (over observed cells if S is no product); it is part of σ².
    """

    usual: float = 1.0
    rows: FloatArray | None = None
    columns: FloatArray | None = None
    cells: FloatArray | None = None


def known_errors(S: FloatArray, seen: NDArray[np.bool_]) -> Errors:
    """Errors from standard deviations (n, p), which are positive and finite in observed cells."""
    logs = np.log(np.where(seen, S, 1.0))
    usual = float(logs.sum() / max(seen.sum(), 1))
    logs = np.where(seen, logs - usual, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        whole = np.log(S) - usual
    if np.isfinite(whole).all():
        of_rows, of_columns = whole.mean(axis=1), whole.mean(axis=0)
        mean = float(whole.mean())
        product = of_rows[:, None] + of_columns - mean
        if np.abs(whole - product).max() < EQUAL:
            rows, columns = (np.exp(2 * (of - mean)) for of in (of_rows, of_columns))
            size = float(np.exp(usual + mean))
            differ = (None if np.ptp(np.log(x)) < EQUAL else x for x in (rows, columns))
            return Errors(size, *differ)
    return Errors(float(np.exp(usual)), cells=np.exp(-2 * logs) * seen)


@dataclass(frozen=True, eq=False)
class HolesTable:
    """A matrix as it was given.

    Attributes
    ----------
    rows
        The rows and columns that take part.
    n_samples
        The number of all rows.
    live
        Which columns have values and are not set aside; (p,).
    status
        Advice on rows and columns with few values or none.
    like
        An array of the same library, type and device.
    scaled
        Whether columns were divided by scales of their own because the user asked for it.
    own_units
        Whether they were because each has noise of its own, which makes its unit arbitrary.
    kept
        Which rows have values; None if all do or if it is not needed.
    constants
        The value of each column set aside because it does not vary, NaN for others; (p,).
    errors
        Known errors of the rows and columns that take part, in their order; None if there are none.
    digests
        Digests of all rows, if rows have noise of their own.
    """

    rows: IncompleteRows
    n_samples: int
    live: NDArray[np.bool_]
    status: Status
    like: Array
    scaled: bool = False
    own_units: bool = False
    kept: NDArray[np.bool_] | None = None
    constants: FloatArray | None = None
    errors: Errors | None = None
    digests: Counts | None = None

    @property
    def unit(self) -> float:
        """The common number by which the (scaled) data were divided."""
        if self.own_units:
            return float(np.exp(np.log(self.rows.unit).mean()))
        return 1.0 if self.scaled else float(self.rows.unit[0])

    @property
    def relative_units(self) -> FloatArray:
        """Squares of the units by which columns were divided beyond the user's scaling, over known
        variances of their noise: (p,).
        """
        units = (self.rows.unit / self.unit) ** 2 if self.own_units else np.ones(self.rows.shape[1])
        known = None if self.errors is None else self.errors.columns
        return units if known is None else units / known


def holes_table(
    X: Array,
    *,
    center: bool,
    scale: bool,
    noise: NoiseModel = ISOTROPIC,
    error_std: FloatArray | None = None,
    rounded: bool = False,
) -> HolesTable:
    """Table of a float matrix with NaN in its holes; it stays in memory, on a device or on Dask.

    Rows and columns without any value take no part: rows get the prior's scores, columns the
    prior's loadings. If columns have noise of their own, those that do not vary take no part
    either: they have no noise, which would teach the prior that other columns may have as little.
    If cells have weights, all work is done on the host. An infinite error is a hole. Rounding is
    taken into account if noise is unequal or if `rounded`.
    """
    asked: dict[str, Any] = {"center": center, "scale": scale, "noise": noise, "rounded": rounded}
    if where_of(X) is Where.PARTITIONS:
        if noise.cells or error_std is not None:
            raise UnusableData(
                "noise='student-cells' is for data in memory: for a Dask collection use 'student', "
                "which weighs whole rows, or 'both', or pass X.compute() if it fits into memory."
            )
        return table_on_workers(X, **asked)
    like = X
    if noise.cells or error_std is not None:
        X = np.asarray(to_numpy(X), dtype=np.float64)
    if error_std is not None:
        X = np.where(np.isinf(error_std), np.nan, X)
    known = seen(X)
    table = _table(X, known, known.columns, **asked)
    rows_of_their_own = digests(like) if noise.rows else None
    table = replace(table, like=like, status=known.status, digests=rows_of_their_own)
    rows = table.rows
    constant = (rows.squares == 0) & (rows.column_counts > 1)
    if noise.columns and constant.any() and not constant.all():
        constants = np.full(X.shape[1], np.nan)
        constants[np.flatnonzero(table.live)[constant]] = rows.location[constant]
        live = table.live & np.isnan(constants)
        some = _table(X, seen(taken(X, np.flatnonzero(live), axis=1)), live, **asked)
        table = replace(table, rows=some.rows, live=live, kept=some.kept, constants=constants)
    if error_std is None:
        return table
    assert isinstance(table.rows, Holes)
    assert table.kept is not None
    errors = known_errors(np.asarray(error_std, dtype=np.float64), ~np.isnan(X))
    # Errors of the rows and columns that take part, in their order.
    places, columns = np.flatnonzero(table.kept)[table.rows.order], table.live
    errors = replace(
        errors,
        rows=None if errors.rows is None else errors.rows[places],
        columns=None if errors.columns is None else errors.columns[columns],
        cells=None if errors.cells is None else errors.cells[places][:, columns],
    )
    return replace(table, errors=errors, rows=replace(table.rows, known=errors.cells))


def _table(
    X: Array,
    known: Seen,
    live: NDArray[np.bool_],
    *,
    center: bool,
    scale: bool,
    noise: NoiseModel,
    rounded: bool,
) -> HolesTable:
    """Table of the columns `live` and of the rows that have values in them."""
    inside = X if live.all() else taken(X, np.flatnonzero(live), axis=1)
    if not known.rows.all():
        inside = taken(inside, np.flatnonzero(known.rows))
    rows = observed(inside, center=center, scale=scale or noise.columns)
    if rounded or noise != ISOTROPIC:
        rows = replace(rows, rounding=rounding_variances(inside) / rows.unit**2)
    own_units = noise.columns and not scale
    return HolesTable(rows, X.shape[0], live, Status(), X, scale, own_units, known.rows)


def table_on_workers(
    X: Partitions,
    *,
    center: bool,
    scale: bool,
    noise: NoiseModel,
    rounded: bool,
) -> HolesTable:
    """`holes_table` of a collection, prepared as `lowrank.observing` does a matrix."""
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
        # Some of the rows tell how numbers are rounded.
        some = every_nth(X, max(1, sum(known) // ROWS)).rows[:, live]
        rounding = rounding_variances(some[~np.isnan(some).all(axis=1)]) / unit**2
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
    of_rows = None
    if noise.rows:
        of_rows = np.concatenate(computed(reduced(mapped(X, _digests), added))[0])
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
        digests=of_rows,
    )


def _digests(X: NDArray[Any]) -> list[Counts]:
    return [digests(X)]
