"""A matrix with holes as a fit is given it: in memory, or on the device of another library."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.places import taken
from bayespca.arrays.types import Array, FloatArray
from bayespca.lowrank.holes import IncompleteRows
from bayespca.lowrank.noise_models import ISOTROPIC, NoiseModel
from bayespca.lowrank.observing import observed
from bayespca.sources.seen import seen
from bayespca.spectrum.records import Status


@dataclass(frozen=True, eq=False)
class HolesTable:
    """A matrix as it was given.

    Attributes
    ----------
    rows
        The rows and columns of it that have values.
    n_samples
        All of its rows.
    live
        Which of its columns have values, and are not set aside; (p,).
    status
        Advice on rows and columns of which little or nothing is known.
    like
        An array of its library, type and place.
    scaled
        Whether columns were divided by scales of their own because that was asked for.
    own_units
        Whether they were because each has noise of its own, so that its unit is arbitrary.
    kept
        Which rows have values; None where all of them do, and where nobody will ask.
    constants
        The value of each column that does not vary and was set aside for it, NaN for others; (p,).
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

    @property
    def unit(self) -> float:
        """What scaled data were divided by, all of them."""
        if self.own_units:
            return float(np.exp(np.log(self.rows.unit).mean()))
        return 1.0 if self.scaled else float(self.rows.unit[0])

    @property
    def relative_units(self) -> FloatArray:
        """Squares of what columns were divided by besides, without being asked for: (p,)."""
        if self.own_units:
            return (self.rows.unit / self.unit) ** 2
        return np.ones(self.rows.shape[1])


def table_in_memory(
    X: Array, *, center: bool, scale: bool, noise: NoiseModel = ISOTROPIC
) -> HolesTable:
    """Rows and columns without any value take no part.

    Where columns have noise of their own, those that do not vary do not either: they have no noise,
    from which others would learn that theirs may be as small.
    """
    known = seen(X)
    own_units = noise.columns and not scale
    options = {"center": center, "scale": scale or noise.columns}
    rows = observed(known.known(X), **options)
    table = HolesTable(
        rows, X.shape[0], known.columns, known.status, X, scale, own_units, known.rows
    )
    constant = (rows.squares == 0) & (rows.column_counts > 1)
    if not noise.columns or not constant.any() or constant.all():
        return table
    constants = np.full(X.shape[1], np.nan)
    constants[np.flatnonzero(table.live)[constant]] = rows.location[constant]
    live = table.live & np.isnan(constants)
    varying = taken(X, np.flatnonzero(live), axis=1)
    known = seen(varying)
    rows = observed(known.known(varying), **options)
    return replace(table, rows=rows, live=live, kept=known.rows, constants=constants)
