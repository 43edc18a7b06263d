"""A matrix with holes on Dask: blocks of rows stay on the workers, what columns need is summed up.

The data are read three times: what each column holds, its spread, and the blocks at unit scale,
which are kept on the workers. After that a pass over rows is one task for each block, given what
belongs to columns, and a tree of sums that ends here. Nothing of the size of the rows does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.namespaces import row_blocks
from bayespca.arrays.types import Counts, FloatArray
from bayespca.lowrank.holes import (
    Change,
    Given,
    Holes,
    IncompleteRows,
    RowWeights,
    Total,
    altered_copy,
    sums_of_last,
)
from bayespca.lowrank.noise_models import ISOTROPIC, NoiseModel
from bayespca.lowrank.observing import counts_and_totals, new_rows, units
from bayespca.lowrank.recognising import digests
from bayespca.sources.cluster import computed
from bayespca.sources.cluster import kept as held
from bayespca.sources.constant import extremes, is_constant
from bayespca.sources.errors import UnusableData
from bayespca.sources.fetching import every_nth
from bayespca.sources.records import Delayed, Partitions
from bayespca.sources.rounding import ROWS, rounding_variances
from bayespca.sources.seen import Few, check_any_value, few, little_known
from bayespca.sources.sums import added, total_over
from bayespca.sources.tasks import mapped, mapped_parts, reduced
from bayespca.spectrum.tolerances import EPS

from .data import HolesTable


@dataclass(frozen=True, eq=False)
class DistantHoles(IncompleteRows):
    """Data with holes whose rows are on workers: `blocks` become `Holes` there.

    `lengths` are the rows of each block; all else as in `Holes`.
    """

    blocks: tuple[Delayed, ...]
    lengths: tuple[int, ...]
    location: FloatArray
    unit: FloatArray
    centred: bool
    weights: RowWeights | None = None
    rounding: FloatArray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return sum(self.lengths), self.location.size

    def _with(self, weights: RowWeights) -> DistantHoles:
        """Blocks get their part of the weights when they are read."""
        parts = [RowWeights(*pair) for pair in zip(*map(self._parts, weights), strict=True)]
        blocks = tuple(mapped_parts(Holes._with, self.blocks, parts))
        return replace(self, blocks=blocks, weights=weights)

    def multiplied(self, rows: FloatArray, columns: FloatArray) -> DistantHoles:
        parts = self._parts(rows)
        blocks = mapped_parts(Holes.multiplied, self.blocks, parts, broadcast=(columns,))
        return replace(self, blocks=tuple(blocks))

    def _parts(self, of_rows: FloatArray) -> list[FloatArray]:
        """What belongs to the rows of each block."""
        return np.split(of_rows, np.cumsum(self.lengths)[:-1])

    def total(self, sums: Callable[..., Total], *given: Any) -> Total:
        return total_over(self.blocks, sums, *given)

    def matrix(self, rows: Callable[..., NDArray[Any]], *given: Any) -> Partitions:
        """Made when it is read."""
        kind = np.dtype(np.float64)
        chunks = tuple(mapped_parts(rows, self.blocks, broadcast=given))
        return Partitions(chunks, self.shape[1], kind, stored=kind, lengths=self.lengths)

    def altered(
        self, matrix: Partitions, change: Change[Given, Total], steps: Sequence[Given]
    ) -> tuple[Partitions, Total]:
        """Nothing of the matrix is kept but the steps that lead to it."""
        altered = self.matrix(altered_copy, change, steps)
        return altered, self.total(sums_of_last, change, steps)

    def over(self, matrix: Partitions, sums: Callable[..., Total], *given: Any) -> Total:
        found: Total = computed(reduced(mapped(matrix, sums, *given), added))[0]
        return found


def table_on_workers(
    X: Partitions,
    *,
    center: bool,
    scale: bool,
    noise: NoiseModel = ISOTROPIC,
    rounded: bool = False,
) -> HolesTable:
    """Sort out a collection with NaN, as `lowrank.observing` does a matrix."""
    look: _ColumnLook = computed(reduced(mapped(X, _look), _followed))[0]
    n, live, known, constants = look.n_rows, look.counts > 0, look.known, None
    check_any_value(look.counts.sum(), n * X.n_features)
    _check_finite(look, X)
    constant = live & _is_constant(look, center)
    alone = constant & (look.counts > 1)
    if noise.columns and alone.any() and (live & ~alone).any():
        live, constants = live & ~alone, np.where(alone, _location(look, center), np.nan)
    kept = None
    if noise.rows or constants is not None:
        kept_in = computed(reduced(mapped(X, _kept, live), added))[0]
        known, kept = [int(block.sum()) for block in kept_in], np.concatenate(kept_in)
    counts, location = look.counts[live], _location(look, center)[live]
    varying = np.where(constant[live], 0.0, 1.0)
    size = float((_largest(look, center)[live] * varying).max()) or 1.0
    scaling = (live, location, varying)
    squares = computed(reduced(mapped(X, _squares, *scaling, size), added))[0]
    unit = size * units(squares, counts, center=center, scale=scale or noise.columns)
    rounding = None
    if rounded or noise != ISOTROPIC:
        rounding = _rounding(X, live, sum(known)) / unit**2
    tasks = zip(mapped(X, _holes, *scaling, unit, center, rounding), known, strict=True)
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


def _location(look: _ColumnLook, center: bool) -> FloatArray:
    """Means of columns that have values."""
    return np.asarray(center * look.totals / np.maximum(look.counts, 1))


def _largest(look: _ColumnLook, center: bool) -> FloatArray:
    """The largest difference from the location: that of an extreme value, for differences are
    rounded in the order of the numbers.
    """
    location = _location(look, center)
    return np.maximum(np.abs(look.low - location), np.abs(look.high - location))


def _is_constant(look: _ColumnLook, center: bool) -> NDArray[np.bool_]:
    """Columns that do not vary, of those that have values."""
    rounding = sum(look.known) * EPS * np.abs(_location(look, center))
    small = _largest(look, center) <= rounding
    return np.asarray(is_constant(look.low, look.high, center=True) & small)


def _rounding(X: Partitions, live: NDArray[np.bool_], n: int) -> FloatArray:
    """What is added to squares because numbers were rounded, as far as some rows tell."""
    inside = every_nth(X, max(1, n // ROWS)).rows[:, live]
    return rounding_variances(inside[~np.isnan(inside).all(axis=1)])


def _kept(X: NDArray[Any], live: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
    """Which rows have values in some columns."""
    return [np.asarray(~np.isnan(X[:, live]).all(axis=1))]


def _digests_of_all(X: Partitions) -> Counts:
    """The digests of all rows, in their order."""
    return np.concatenate(computed(reduced(mapped(X, _digests), added))[0])


def _digests(X: NDArray[Any]) -> list[Counts]:
    return [digests(X)]


# --- what columns hold -------------------------------------------------------------------------


class _ColumnLook(NamedTuple):
    """Of some blocks: rows, and in each block those with values; rows without; of each column how
    many values, their sum, the smallest and the largest.
    """

    n_rows: int
    known: list[int]
    empty: Few
    counts: FloatArray
    totals: FloatArray
    low: FloatArray
    high: FloatArray


def _look(X: NDArray[Any]) -> _ColumnLook:
    is_empty = np.asarray(np.isnan(X).all(axis=1))
    counts, totals = counts_and_totals(X)
    low, high = extremes(X)
    return _ColumnLook(
        n_rows=len(X),
        known=[len(X) - int(is_empty.sum())],
        empty=few(is_empty),
        counts=counts,
        totals=totals,
        low=low,
        high=high,
    )


def _followed(first: _ColumnLook, second: _ColumnLook) -> _ColumnLook:
    return _ColumnLook(
        n_rows=first.n_rows + second.n_rows,
        known=first.known + second.known,
        empty=first.empty.followed_by(second.empty, first.n_rows),
        counts=first.counts + second.counts,
        totals=first.totals + second.totals,
        low=np.minimum(first.low, second.low),
        high=np.maximum(first.high, second.high),
    )


def _check_finite(look: _ColumnLook, X: Partitions) -> None:
    wrong = np.flatnonzero((look.counts > 0) & ~np.isfinite(look.high - look.low))
    if wrong.size and np.isinf([look.low[wrong[0]], look.high[wrong[0]]]).any():
        j = int(wrong[0])
        name = f"{j} (counting from 0)" if X.names is None else repr(X.names[j])
        raise UnusableData(
            f"Input X contains infinity, first in column {name}: remove or fill what is not a "
            "finite number.",
            column=j,
        )


# --- blocks at unit scale ----------------------------------------------------------------------


def _squares(
    X: NDArray[Any], live: NDArray[np.bool_], location: FloatArray, varying: FloatArray, size: float
) -> FloatArray:
    """Σ((x − location)/size)² of each column, 0 for one that does not vary."""
    total = np.zeros(location.size)
    for rows in row_blocks(X):
        block = (X[rows][:, live] - location) / size
        total += np.nansum(block * block, axis=0)
    return total * varying


def _holes(
    X: NDArray[Any],
    live: NDArray[np.bool_],
    location: FloatArray,
    varying: FloatArray,
    unit: FloatArray,
    center: bool,
    rounding: FloatArray | None,
) -> Holes:
    """The rows and columns of a block that have values."""
    inside = X[:, live]
    inside = inside[~np.isnan(inside).all(axis=1)]
    data = new_rows(inside, location=location, unit=unit, centred=center)
    if not varying.all():
        # What is left of a column that does not vary is rounding, which is no data.
        data.values[:, varying == 0] = 0.0
    return replace(data, rounding=rounding)
