"""A matrix with holes as a fit is given it: in memory, or on the device of another library."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import Array
from bayespca.lowrank.holes import IncompleteRows
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
        Which of its columns have values; (p,).
    status
        Advice on rows and columns of which little or nothing is known.
    like
        An array of its library, type and place.
    scaled
        Whether columns were divided by scales of their own.
    """

    rows: IncompleteRows
    n_samples: int
    live: NDArray[np.bool_]
    status: Status
    like: Array
    scaled: bool = False

    @property
    def unit(self) -> float:
        """What scaled data were divided by."""
        return 1.0 if self.scaled else float(self.rows.unit[0])


def table_in_memory(X: Array, *, center: bool, scale: bool) -> HolesTable:
    """Rows and columns without any value take no part."""
    known = seen(X)
    rows = observed(known.known(X), center=center, scale=scale)
    return HolesTable(rows, X.shape[0], known.columns, known.status, X, scale)
