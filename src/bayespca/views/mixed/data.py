"""Columns of several views with likelihoods of their own, as the sweeps see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayespca.arrays.types import Counts, FloatArray, Index, Matrix
from bayespca.discrete.columns import TableColumn, cell_units, places
from bayespca.discrete.data import EVERY, TableCells, known_table
from bayespca.discrete.likelihoods.likelihood import BoolArray
from bayespca.discrete.likelihoods.normal import NORMAL
from bayespca.spectrum.records import Status


@dataclass(frozen=True, eq=False)
class MixedViews:
    """Cells of all views, and the view that each column of the matrix belongs to.

    Attributes
    ----------
    cells
        Those of rows that have values, and of columns that vary.
    view
        The view of each column of the matrix: (q,).
    n_views
        How many views there are.
    alike
        Views whose numbers have one noise variance in common, in units of the columns: (V,).
    live
        Which columns of the matrix of all columns these are.
    widths
        The number of columns of each likelihood, of all columns of the matrix.
    scale
        The unit of each of these columns.
    view_of_all
        The view of each column of the tables as given.
    n_samples
        The number of rows of the tables as given.
    log_units
        Σ log of the unit of each cell of numbers, which densities are divided by.
    status
        Advice on rows and columns of which little is known.
    """

    cells: TableCells
    view: Counts
    n_views: int
    alike: BoolArray
    live: BoolArray
    widths: tuple[int, ...]
    scale: FloatArray
    view_of_all: Counts
    n_samples: int
    log_units: float
    status: Status

    @cached_property
    def columns(self) -> list[Index]:
        """The columns of each view."""
        return [np.flatnonzero(self.view == v) for v in range(self.n_views)]

    @cached_property
    def sizes(self) -> FloatArray:
        """The number of columns of each view: (V,)."""
        return np.bincount(self.view, minlength=self.n_views).astype(np.float64)

    @cached_property
    def taking_part(self) -> list[int]:
        """The views that have columns."""
        return [int(v) for v in np.flatnonzero(self.sizes)]

    @cached_property
    def counts(self) -> FloatArray:
        """The number of cells of each column that are there: (q,)."""
        n, q = self.cells.shape
        return (
            np.full(q, float(n)) if self.cells.seen is None else self.cells.seen.sum(axis=0) * 1.0
        )

    def of_view(self, cells: TableCells, v: int) -> TableCells:
        """The cells of one view."""
        return cells.part(EVERY, self.view == v)

    def shared(self, parameters: tuple[Matrix, ...]) -> tuple[Matrix, ...]:
        """Parameters of likelihoods with one noise variance where a view has one: the mean of those
        of its columns, which is where Σ⟨log p⟩ is largest.
        """
        found = []
        for (group, some), old in zip(self.cells.with_columns(), parameters, strict=True):
            new = old.copy()
            if group.likelihood is NORMAL:
                view, counts = self.view[some], self.counts[some]
                for v in np.flatnonzero(self.alike):
                    mine = view == v
                    if mine.any():
                        mean = np.average(np.exp(old[mine, 0]), weights=counts[mine])
                        new[mine, 0] = np.log(mean)
            found.append(new)
        return tuple(found)


def view_of_cells(columns: Sequence[TableColumn], view: Counts) -> Counts:
    """The view of each column of the matrix, from that of each column of the tables."""
    where = places(columns)
    out = np.empty(sum(column.width for column in columns), dtype=np.int64)
    for v, place in zip(view.tolist(), where, strict=True):
        out[place.matrix] = v
    return out


def varying(cells: TableCells) -> BoolArray:
    """Which columns of the matrix are not numbers of a single value.

    As features without noise these would say that their view has none.
    """
    live = np.ones(cells.shape[1], dtype=np.bool_)
    for group, some in cells.with_columns():
        if group.likelihood is NORMAL:
            live[some] = (group.known * group.numbers**2).sum(axis=0) > 0
    return live


def mixed_views(
    cells: TableCells,
    columns: Sequence[TableColumn],
    view: Counts,
    *,
    n_views: int,
    log_units: float = 0.0,
) -> MixedViews:
    """Sort out the cells of tables that stand side by side."""
    live = varying(cells)
    known = known_table(cells if live.all() else cells.part(EVERY, live))
    of_cells = view_of_cells(columns, view)
    kinds = [
        {column.likelihood for column, w in zip(columns, view, strict=True) if w == v}
        for v in range(n_views)
    ]
    return MixedViews(
        cells=known.cells,
        view=of_cells[live],
        n_views=n_views,
        alike=np.array([kind == {NORMAL.name} for kind in kinds], dtype=np.bool_),
        live=live,
        widths=tuple(group.width for group in cells.groups),
        scale=cell_units(columns)[1][live],
        view_of_all=view,
        n_samples=cells.shape[0],
        log_units=log_units,
        status=known.seen.emptiness,
    )
