"""Rows and columns with values in a matrix with NaN, and advice on the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.namespaces import array_namespace, row_blocks, to_numpy
from bayespca.arrays.places import taken
from bayespca.arrays.types import Array, Numbers
from bayespca.spectrum.records import Status

from .checks import UnusableData

Counts = NDArray[np.int64]

# Number of places that a sentence names.
SHOWN = 5


@dataclass(frozen=True)
class Few:
    """Number of rows or columns of some kind, and the places of the first ones."""

    count: int = 0
    first: tuple[int, ...] = ()

    def followed_by(self, other: Few, offset: int) -> Few:
        """Add those of the rows from `offset` on."""
        places = (*self.first, *(place + offset for place in other.first))
        return Few(self.count + other.count, places[:SHOWN])

    def named(self, what: str) -> str:
        shown = ", ".join(map(str, self.first)) + (", …" if self.count > len(self.first) else "")
        return f"{self.count} {what}{'s' * (self.count > 1)} ({shown}, counting from 0)"


def few(where: NDArray[np.bool_]) -> Few:
    """The rows or columns for which a condition holds."""
    places = np.flatnonzero(where)
    return Few(places.size, tuple(places[:SHOWN].tolist()))


@dataclass(frozen=True, eq=False)
class Seen:
    """Number of values in each row and each column."""

    in_rows: Counts
    in_columns: Counts

    @property
    def rows(self) -> NDArray[np.bool_]:
        """Mask of the rows that have any value."""
        return np.asarray(self.in_rows > 0)

    @property
    def columns(self) -> NDArray[np.bool_]:
        """Mask of the columns that have any value."""
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
        return emptiness(few(self.in_rows == 0), few(self.in_columns == 0))

    @property
    def status(self) -> Status:
        """Advice on rows and columns of which little or nothing is known."""
        return little_known(few(self.in_rows == 0), self.in_columns, self.in_rows.size)


def emptiness(rows: Few, columns: Few) -> Status:
    """Advice on rows and columns without any value."""
    status = Status()
    for what, empty in (("row", rows), ("column", columns)):
        if empty.count:
            have, whose = ("has", "its") if empty.count == 1 else ("have", "their")
            status = status.but(
                f"empty-{what}s",
                f"{empty.named(what)} {have} no values: {whose} results come from the prior.",
            )
    return status


def little_known(empty_rows: Few, in_columns: Numbers, n: int) -> Status:
    """`emptiness`, and advice on columns with a single value among n rows."""
    status = emptiness(empty_rows, few(in_columns == 0))
    single = few(in_columns == 1)
    if single.count and n > 1:
        status = status.but(
            "single-columns",
            f"{single.named('column')} with a single value{' each' * (single.count > 1)}: the mean "
            "is that value, and the loadings come from the prior.",
        )
    return status


def check_any_value(count: float, cells: int) -> None:
    """Raise where all cells are holes."""
    if not count:
        raise UnusableData(f"Input X has no value at all: its {cells} cells are NaN.")


def seen(X: Array) -> Seen:
    """Count the values of a matrix."""
    xp, (n, p) = array_namespace(X), X.shape
    of_rows, of_columns = np.zeros(n, np.int64), np.zeros(p, np.int64)
    for rows in row_blocks(X):
        there = xp.astype(~xp.isnan(X[rows, :]), xp.int64)
        of_rows[rows] = to_numpy(xp.sum(there, axis=1))
        of_columns += to_numpy(xp.sum(there, axis=0))
    return Seen(of_rows, of_columns)


def seen_in(mask: NDArray[np.bool_] | None, shape: tuple[int, int]) -> Seen:
    """Count the cells where a mask is True; None stands for True everywhere."""
    if mask is None:
        return Seen(np.full(shape[0], shape[1]), np.full(shape[1], shape[0]))
    return Seen(mask.sum(axis=1), mask.sum(axis=0))
