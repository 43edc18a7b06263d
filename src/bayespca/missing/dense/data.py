"""Input of a fit: a matrix with holes, in memory or on the device of another library."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.places import taken
from bayespca.arrays.types import Array, Counts, FloatArray
from bayespca.lowrank.holes import Holes, IncompleteRows
from bayespca.lowrank.noise_models import ISOTROPIC, NoiseModel
from bayespca.lowrank.observing import observed
from bayespca.lowrank.recognising import digests
from bayespca.sources.rounding import rounding_variances
from bayespca.sources.seen import Seen, seen
from bayespca.spectrum.records import Status

from .errors import Errors, known_errors


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


def table_in_memory(
    X: Array,
    *,
    center: bool,
    scale: bool,
    noise: NoiseModel = ISOTROPIC,
    error_std: FloatArray | None = None,
    rounded: bool = False,
) -> HolesTable:
    """Table of a matrix in memory; rows and columns without any value take no part.

    If columns have noise of their own, those that do not vary take no part either: they have no
    noise, which would teach the prior that other columns may have as little. If cells have weights,
    all work is done on the host. An infinite error is a hole. Rounding is taken into account if
    noise is unequal or if `rounded`.
    """
    like = X
    if noise.cells or error_std is not None:
        X = np.asarray(to_numpy(X), dtype=np.float64)
    if error_std is not None:
        X = np.where(np.isinf(error_std), np.nan, X)
    known = seen(X)
    asked: dict[str, Any] = {"center": center, "scale": scale, "noise": noise, "rounded": rounded}
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
    return table if error_std is None else _with_errors(table, error_std, ~np.isnan(X))


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


def _with_errors(table: HolesTable, error_std: FloatArray, there: NDArray[np.bool_]) -> HolesTable:
    assert isinstance(table.rows, Holes)
    assert table.kept is not None
    errors = known_errors(np.asarray(error_std, dtype=np.float64), there)
    errors = errors.arranged(np.flatnonzero(table.kept), table.live, table.rows.order)
    return replace(table, errors=errors, rows=replace(table.rows, known=errors.cells))
