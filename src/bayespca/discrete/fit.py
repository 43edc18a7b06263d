"""Generalized PCA as a model: its start, its step, the ranks it tries, and its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from bayespca.arrays.packing import packed
from bayespca.arrays.types import DOUBLE, DType
from bayespca.inference.loop import Info, Run
from bayespca.inference.model import Model, Move
from bayespca.inference.result import Fit, extended
from bayespca.lowrank.factors import FactorPrior, Factors
from bayespca.lowrank.records import OfComponents
from bayespca.spectrum.families import VB
from bayespca.spectrum.records import Status
from bayespca.spectrum.tolerances import GONE_OF_BITS

from .chart import TableChart
from .columns import TableColumn, places
from .data import KnownTable, TableCells, row_blocks
from .normals import Normals
from .posterior import (
    BinaryPosterior,
    NaturalPosterior,
    TablePosterior,
    from_factors,
    spread_of_columns,
)
from .start import random_start, start, with_one_more
from .step import (
    TableProblem,
    TableState,
    evaluated,
    sites_of_block,
    step,
    without_components,
)

F = TypeVar("F", bound=Fit[Any])
P = TypeVar("P", bound=NaturalPosterior)


@dataclass(frozen=True, eq=False)
class NaturalFit(Fit[P], OfComponents):
    """A finished fit; `n_samples` counts all rows, including those without values.

    `dtype` is that of the data and of results. `r_hat` and `ess` are ArviZ's diagnostics of draws;
    None without ArviZ or without draws.
    """

    n_samples: int = 0
    dtype: DType = DOUBLE
    r_hat: dict[str, float] | None = None
    ess: dict[str, float] | None = None

    def check(self) -> None:
        """Raise ValueError unless the parts belong together."""
        if not self.free_energy_by_rank.size > self.n_components:
            raise ValueError("its free energies by rank do not reach its number of components")


@dataclass(frozen=True, eq=False)
class BinaryFit(NaturalFit[BinaryPosterior]):
    """A finished binary PCA."""


@dataclass(frozen=True, eq=False)
class TableFit(NaturalFit[TablePosterior]):
    """A finished generalized PCA: descriptions of its columns, and whether rows have sizes."""

    columns: tuple[TableColumn, ...] = ()
    sized: bool = False

    @property
    def n_features(self) -> int:
        """Number of columns of the table."""
        return len(self.columns)

    def check(self) -> None:
        super().check()
        widths: dict[int, int] = {}
        for column, place in zip(self.columns, places(self.columns), strict=True):
            widths[place.group] = widths.get(place.group, 0) + column.width
        if list(widths[k] for k in sorted(widths)) != list(map(len, self.posterior.parameters)):
            raise ValueError("its columns do not match its posterior")


@dataclass(frozen=True)
class TableModel(TableProblem, Model[KnownTable, TableState, F]):
    """Low-rank natural parameters of cells, with a learned rank; `init` as in `BinaryPCA`."""

    init: str = "closed"

    def start(self, data: KnownTable, rng: np.random.Generator) -> TableState:
        if self.has_one_start:
            return start(data.cells, self)
        return random_start(data.cells, self, rng)

    def step(self, state: TableState, data: KnownTable) -> tuple[TableState, Info]:
        return step(state, data.cells, self)

    def chart(self, data: KnownTable) -> TableChart:
        return TableChart(data.cells)

    def digests(self, data: KnownTable) -> Sequence[object]:
        return [part for group in data.cells.groups for part in group.digests()]

    def moves(self, data: KnownTable) -> Sequence[Move[TableState]]:
        return [Move(partial(self._less, data=data.cells), partial(self._more, data=data.cells))]

    def _less(self, state: TableState, data: TableCells) -> TableState | None:
        return evaluated(without_components(state, 1), data, self) if state.rank else None

    def _more(self, state: TableState, data: TableCells) -> TableState | None:
        return with_one_more(state, data) if state.rank < self.most else None

    def status(self, state: TableState, data: KnownTable) -> Status:
        return data.seen.emptiness


@dataclass(frozen=True)
class BinaryModel(TableModel[BinaryFit]):
    """Logistic PCA of zeros and ones."""

    def posterior(self, state: TableState, data: KnownTable) -> BinaryPosterior:
        # The posterior of a column without values is its prior.
        live, prior = data.seen.columns, np.append(state.prior, state.spread)
        mean = np.zeros((live.size, prior.size))
        cov = np.repeat(packed(np.diag(prior))[None, :], live.size, axis=0)
        log_dets = np.full(live.size, np.log(prior).sum())
        columns = Normals(mean, cov, log_dets).but(live, state.columns)
        return BinaryPosterior(**from_factors(state.rows, columns, state.prior))

    def described(
        self, found: Fit[BinaryPosterior], run: Run[TableState], data: KnownTable
    ) -> BinaryFit:
        return extended(found, BinaryFit, n_samples=data.seen.in_rows.size)


@dataclass(frozen=True)
class GeneralModel(TableModel[Fit[TablePosterior]]):
    """Generalized PCA of columns that all have values.

    `log_units` is Σ log of the units of all observed numbers, by which densities are divided.
    """

    log_units: float = 0.0

    def posterior(self, state: TableState, data: KnownTable) -> TablePosterior:
        prior = np.append(state.prior, state.spread)
        blocks = (
            (state.rows[rows], sites_of_block(state, rows, data.cells).omega)
            for rows in row_blocks(data.cells)
        )
        spread = spread_of_columns(state.columns, blocks, prior)
        parts = from_factors(state.rows, state.columns, state.prior)
        return TablePosterior(**parts, b_spread=spread, parameters=state.parameters)

    def free_energy(self, run: Run[TableState], data: KnownTable) -> float:
        return run.free_energy + self.log_units


def general_model(
    data: KnownTable, *, n_components: int | None, init: str = "closed", log_units: float = 0.0
) -> GeneralModel:
    """The model of a table with columns of any likelihood."""
    return GeneralModel(*_sized(data, n_components), init, log_units)


def binary_model(
    data: KnownTable, *, n_components: int | None, init: str = "closed"
) -> BinaryModel:
    return BinaryModel(*_sized(data, n_components), init)


def _sized(data: KnownTable, n_components: int | None) -> tuple[Factors, int]:
    """Priors of the factors, and the largest number of components that the size allows."""
    n, p = data.cells.shape
    most = max(min(n, p) - 1, 0) if n_components is None else min(n_components, n, p)
    return Factors((p, n), VB, FactorPrior("learned"), GONE_OF_BITS), most
