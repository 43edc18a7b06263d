"""Columns of several views with their own likelihoods, in the form that sweeps use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayespca.arrays.types import Counts, FloatArray, Matrix
from bayespca.discrete.columns import TableColumn, cell_units, places
from bayespca.discrete.data import EVERY, TableCells, known_table
from bayespca.discrete.likelihoods.likelihood import BoolArray
from bayespca.discrete.likelihoods.normal import NORMAL
from bayespca.spectrum.records import Status

from ..data import SideBySide


@dataclass(frozen=True, eq=False)
class MixedViews(SideBySide):
    """Cells of all views, and the view that each column of the matrix belongs to.

    Attributes
    ----------
    cells
        The cells of the rows that have values and of the columns that vary.
    view
        The view of each of these columns: (q,).
    n_views
        Number of views.
    alike
        Whether the numbers of a view share one noise variance, in units of the columns: (V,).
    live
        Which columns of the matrix of all columns are kept.
    widths
        Number of columns of each likelihood, among all columns of the matrix.
    scale
        The unit of each kept column.
    view_of_all
        The view of each column of the tables as given.
    n_samples
        Number of rows of the tables as given.
    log_units
        Σ log of the units of all observed numbers, by which densities are divided.
    status
        Advice on rows and columns without values.
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
    def taking_part(self) -> list[int]:
        """The views that have kept columns."""
        return [int(v) for v in np.flatnonzero(self.sizes)]

    @cached_property
    def counts(self) -> FloatArray:
        """Number of observed cells of each column: (q,)."""
        n, q = self.cells.shape
        return (
            np.full(q, float(n)) if self.cells.seen is None else self.cells.seen.sum(axis=0) * 1.0
        )

    def of_view(self, cells: TableCells, v: int) -> TableCells:
        return cells.part(EVERY, self.view == v)

    def shared(self, parameters: tuple[Matrix, ...]) -> tuple[Matrix, ...]:
        """Parameters of likelihoods with a shared noise variance where a view has one.

        It is the mean over its columns, which maximises Σ⟨log p⟩.
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


def mixed_views(
    cells: TableCells,
    columns: Sequence[TableColumn],
    view: Counts,
    *,
    n_views: int,
    log_units: float = 0.0,
) -> MixedViews:
    """The views of cells of tables that stand side by side, without numbers that do not vary.

    As features without noise these would suggest that their view has none.
    """
    live = np.ones(cells.shape[1], dtype=np.bool_)
    for group, some in cells.with_columns():
        if group.likelihood is NORMAL:
            live[some] = (group.known * group.numbers**2).sum(axis=0) > 0
    known = known_table(cells if live.all() else cells.part(EVERY, live))
    of_cells = np.empty(live.size, dtype=np.int64)
    for v, place in zip(view.tolist(), places(columns), strict=True):
        of_cells[place.matrix] = v
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
