"""Several views as a model: its start, its step, its moves, and its result."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np

from bayespca.arrays.types import DOUBLE, Array, Counts, DType, Index, Matrix, Names, Vector
from bayespca.discrete.columns import TableColumn, cell_units, places
from bayespca.discrete.posterior import TablePosterior
from bayespca.inference.loop import Info, Run
from bayespca.inference.model import Model, Move
from bayespca.inference.result import Fit, extended
from bayespca.lowrank.holes import digests_of_cells
from bayespca.lowrank.holes_posterior import HolesPosterior
from bayespca.lowrank.records import OfComponents

from . import posterior as read
from .chart import ViewsChart
from .data import ViewsTable
from .mixed.data import MixedViews
from .pattern import cost_of_pattern
from .start import start, with_what_is_left
from .state import ViewsState
from .step import probabilities, step, weakest, with_best_pair

D = TypeVar("D", ViewsTable, MixedViews)
S = TypeVar("S")

# A factor this many times as strong as the weakest that a closed form keeps is not tried without.
SURELY = 4.0


@dataclass(frozen=True, eq=False, kw_only=True)
class ViewsFit(Fit[HolesPosterior | TablePosterior], OfComponents):
    """A finished fit of several views, whose columns stand side by side.

    Where views have likelihoods, the posterior is that of natural parameters.

    Attributes
    ----------
    view, names
        The view of each column, and the names of the views.
    prior
        Prior variance of the loadings of each factor in each view, in units of the noise, or of
        natural parameters; 0 where the factor is not in the view: (k, V).
    probability
        Probability that each factor is in each view: (k, V).
    explained
        Share of the variance of each view that each factor explains: (k, V).
    noise
        Noise variance of each view, the mean over its numeric features; NaN if it has none: (V,).
    samples
        Names of the samples, if they have any.
    columns
        Descriptions of the columns if views have likelihoods, else empty.
    omega
        Mean precision with which cells measure each natural parameter; None without likelihoods.
    """

    posterior: HolesPosterior | TablePosterior

    view: Counts = field(default_factory=lambda: np.empty(0, np.int64))
    names: Names = field(default_factory=lambda: np.empty(0, object))
    prior: Matrix = field(default_factory=lambda: np.empty((0, 0)))
    probability: Matrix = field(default_factory=lambda: np.empty((0, 0)))
    explained: Matrix = field(default_factory=lambda: np.empty((0, 0)))
    noise: Vector = field(default_factory=lambda: np.empty(0))
    n_samples: int = 0
    samples: Names | None = None
    columns: tuple[TableColumn, ...] = ()
    omega: Vector | None = None
    dtype: DType = DOUBLE

    @property
    def n_features(self) -> int:
        """Number of columns of the tables; a category has more than one natural parameter."""
        return int(self.view.size)

    @property
    def loadings(self) -> dict[str, Array]:
        """Loadings in each view, in the units of the data: (k, p_v)."""
        found = self.posterior
        scale = cell_units(self.columns)[1] if isinstance(found, TablePosterior) else found.scale
        return self._by_view(found.components * scale)

    @property
    def means(self) -> dict[str, Array]:
        """Means of the features of each view, or natural parameters at scores of 0."""
        found = self.posterior
        if not isinstance(found, TablePosterior):
            return self._by_view(found.mean)
        center, scale = cell_units(self.columns)
        return self._by_view(found.b[:, -1] * scale + center)

    def _by_view(self, of_cells: Array) -> dict[str, Array]:
        return {
            str(name): of_cells[..., self.cells_of(v)].astype(self.dtype)
            for v, name in enumerate(self.names)
        }

    def cells_of(self, v: int) -> Index:
        """Columns of the matrix that represent the columns of a view, in their order."""
        if not self.columns:
            return np.flatnonzero(self.view == v)
        where = places(self.columns)
        mine = [where[j].matrix for j in np.flatnonzero(self.view == v)]
        return np.concatenate([np.arange(one.start, one.stop) for one in mine])

    @property
    def correlations(self) -> Matrix:
        """Correlation of each column of the matrix with each factor: (k, q).

        Columns with likelihoods are measured with precision ω: √ω·b/√(1 + ωΣb²).
        """
        if not isinstance(self.posterior, TablePosterior):
            return read.correlations(self.posterior)
        assert self.omega is not None
        b = self.posterior.b[:, :-1] * np.sqrt(self.omega)[:, None]
        return np.asarray(b / np.sqrt(1 + (b**2).sum(axis=1))[:, None]).T

    def check(self) -> None:
        """Raise ValueError unless the parts fit together."""
        k, V = self.n_components, self.names.size
        cells = [column.width for column in self.columns] or [1] * self.view.size
        agree = sum(cells) == self.posterior.components.shape[1] and self.noise.shape == (V,)
        agree &= len(cells) == self.view.size
        agree &= self.prior.shape == self.probability.shape == self.explained.shape == (k, V)
        agree &= (self.omega is None) != bool(self.columns)
        agree &= self.omega is None or self.omega.shape == (sum(cells),)
        if not agree or (self.view.size and not 0 <= self.view.min() <= self.view.max() < V):
            raise ValueError("its factors, views and columns do not match")


@dataclass(frozen=True)
class GroupFactors(Model[D, S, ViewsFit]):
    """Group factor analysis by empirical variational Bayes, with at most `most` factors."""

    most: int

    @property
    def has_one_start(self) -> bool:
        return True

    @abstractmethod
    def of_factors(self, state: S, data: D) -> dict[str, Any]:
        """What a fit says of its factors and views."""

    def described(self, found: Fit[Any], run: Run[S], data: D) -> ViewsFit:
        parts = self.of_factors(run.state, data)
        return extended(found, ViewsFit, view=data.view_of_all, n_samples=data.n_samples, **parts)


@dataclass(frozen=True)
class ViewsModel(GroupFactors[ViewsTable, ViewsState]):
    """Factors of views of numbers."""

    def start(self, data: ViewsTable, rng: np.random.Generator) -> ViewsState:
        return start(data, self.most)

    def step(self, state: ViewsState, data: ViewsTable) -> tuple[ViewsState, Info]:
        return step(state, data)

    def chart(self, data: ViewsTable) -> ViewsChart:
        return ViewsChart(data)

    def digests(self, data: ViewsTable) -> Sequence[object]:
        return [*data.rows.total(digests_of_cells), data.view]

    def moves(self, data: ViewsTable) -> Sequence[Move[ViewsState]]:
        """Moves to a factor in one more view, then to fewer and to more factors."""
        return [
            Move(partial(with_best_pair, table=data)),
            Move(
                partial(_without_weakest, table=data),
                partial(with_what_is_left, table=data, most=self.most),
            ),
        ]

    def posterior(self, state: ViewsState, data: ViewsTable) -> HolesPosterior:
        return read.posterior(read.in_order(state, data), data)

    def free_energy(self, run: Run[ViewsState], data: ViewsTable) -> float:
        """The free energy in the units of the data, without the cost of the pattern."""
        rows = data.rows
        units = float((rows.column_counts - 1) @ np.log(rows.unit))
        return run.free_energy + units - cost_of_pattern(run.state.active, data.sizes)

    def of_factors(self, state: ViewsState, data: ViewsTable) -> dict[str, Any]:
        state = read.in_order(state, data)
        return dict(
            prior=(state.prior / state.noise[:, None]).T,
            probability=probabilities(state, data).T,
            explained=read.explained(state, data).T,
            noise=read.noise(state, data),
        )


def _without_weakest(state: ViewsState, table: ViewsTable) -> ViewsState | None:
    """The state without the weakest factor; None if even that is far too strong to be dropped."""
    h, strength = weakest(state, table)
    return state.without(h) if strength < SURELY else None
