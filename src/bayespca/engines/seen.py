"""Which rows and columns of a matrix with NaN have values, and what to tell of the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayespca.spectrum import Status

from .arrays import array_namespace, to_numpy
from .places import taken

# Arrays of any namespace.
Array = Any
Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Seen:
    """How many values each row and each column has."""

    in_rows: Counts
    in_columns: Counts

    @property
    def rows(self) -> NDArray[np.bool_]:
        """Which rows have any value."""
        return np.asarray(self.in_rows > 0)

    @property
    def columns(self) -> NDArray[np.bool_]:
        """Which columns have any value."""
        return np.asarray(self.in_columns > 0)

    def known(self, X: Array) -> Array:
        """X without rows and columns that have no value."""
        for axis, live in ((0, self.rows), (1, self.columns)):
            if not live.all():
                X = taken(X, np.flatnonzero(live), axis=axis)
        return X

    @property
    def emptiness(self) -> Status:
        """Advice on rows and columns of which nothing is known."""
        status = Status()
        for what, counts in (("row", self.in_rows), ("column", self.in_columns)):
            if (empty := np.flatnonzero(counts == 0)).size:
                status = status.but(
                    f"empty-{what}s",
                    f"{_named(empty, what)} without any value: the prior answers for "
                    f"{'it' if empty.size == 1 else 'them'}.",
                )
        return status

    @property
    def status(self) -> Status:
        """Advice on rows and columns of which little or nothing is known."""
        status = self.emptiness
        if (single := np.flatnonzero(self.in_columns == 1)).size and self.in_rows.size > 1:
            status = status.but(
                "single-columns",
                f"{_named(single, 'column')} with a single value: its mean is that value, and its "
                "loadings are the prior's.",
            )
        return status


def seen(X: Array) -> Seen:
    """Count the values of a matrix."""
    xp = array_namespace(X)
    there = xp.astype(~xp.isnan(X), xp.int64)
    return Seen(to_numpy(xp.sum(there, axis=1)), to_numpy(xp.sum(there, axis=0)))


def seen_in(mask: NDArray[np.bool_] | None, shape: tuple[int, int]) -> Seen:
    """Count the cells of a mask; None where all are there."""
    if mask is None:
        return Seen(np.full(shape[0], shape[1]), np.full(shape[1], shape[0]))
    return Seen(mask.sum(axis=1), mask.sum(axis=0))


def _named(places: NDArray[np.intp], what: str) -> str:
    shown = ", ".join(map(str, places[:5])) + (", …" if places.size > 5 else "")
    return f"{places.size} {what}{'s' * (places.size > 1)} ({shown}, counting from 0)"
