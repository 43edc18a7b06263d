"""Results of a fitted `MultiViewPCA` for rows, with views of numbers or views with likelihoods.

Rows have the columns of all views side by side, NaN in holes: numbers, counts and codes of levels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np

from bayespca.arrays.types import Counts, FloatArray
from bayespca.discrete import posterior as natural
from bayespca.discrete import reading
from bayespca.discrete.columns import as_cells, log_units
from bayespca.discrete.data import TableCells
from bayespca.discrete.posterior import TablePosterior
from bayespca.lowrank import holes_posterior as numbers
from bayespca.lowrank import imputing
from bayespca.lowrank.holes_posterior import HolesPosterior
from bayespca.views.fit import ViewsFit
from bayespca.views.posterior import latent_std

Pair = tuple[FloatArray, FloatArray]


class ViewAnswers(Protocol):
    """Results that the methods of the estimator need."""

    def scores(self, X: FloatArray) -> FloatArray: ...

    def scores_std(self, X: FloatArray) -> FloatArray: ...

    def filled(self, X: FloatArray, *, noise: bool) -> Pair:
        """Rows with their holes filled, and standard deviations of the cells."""

    def expected(self, X: FloatArray, v: int, *, noise: bool) -> Pair:
        """Expected values in a view, and their standard deviations."""

    def at_scores(self, T: FloatArray) -> FloatArray:
        """Expected values in all views, side by side, of samples with given scores."""

    @property
    def view_of_outputs(self) -> Counts:
        """The view of each column of `at_scores`."""

    def drawn(self, X: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Rows with their holes filled by draws."""

    def log_density(self, X: FloatArray) -> FloatArray: ...


def answers_of(fit: ViewsFit) -> ViewAnswers:
    return OfCells(fit) if fit.columns else OfNumbers(fit)


@dataclass(frozen=True)
class OfNumbers:
    """Views of numbers with normal noise."""

    fit: ViewsFit

    @property
    def _posterior(self) -> HolesPosterior:
        return cast(HolesPosterior, self.fit.posterior)

    def scores(self, X: FloatArray) -> FloatArray:
        return np.asarray(numbers.scores(self._posterior, X))

    def scores_std(self, X: FloatArray) -> FloatArray:
        return latent_std(self._posterior, X)

    def filled(self, X: FloatArray, *, noise: bool) -> Pair:
        return imputing.impute(self._posterior, X, noise=noise)

    def expected(self, X: FloatArray, v: int, *, noise: bool) -> Pair:
        js = self.fit.cells_of(v)
        filled, std = self.filled(X, noise=noise)
        return filled[:, js], std[:, js]

    def at_scores(self, T: FloatArray) -> FloatArray:
        return np.asarray(numbers.reconstruct(self._posterior, T))

    @property
    def view_of_outputs(self) -> Counts:
        return self.fit.view

    def drawn(self, X: FloatArray, rng: np.random.Generator) -> FloatArray:
        return imputing.sample_imputation(self._posterior, X, rng)

    def log_density(self, X: FloatArray) -> FloatArray:
        return np.asarray(numbers.log_density(self._posterior, X))


@dataclass(frozen=True)
class OfCells:
    """Views with likelihoods, whose natural parameters are low-rank."""

    fit: ViewsFit

    @property
    def _posterior(self) -> TablePosterior:
        return cast(TablePosterior, self.fit.posterior)

    def _cells(self, X: FloatArray) -> TableCells:
        return as_cells(X, self.fit.columns, self._posterior.parameters)

    def _columns(self, X: FloatArray) -> Iterator[reading.ColumnView]:
        """The columns of the tables, with the natural parameters of the rows."""
        cells = self._cells(X)
        return reading.views(self.fit.columns, cells, *natural.natural(self._posterior, cells))

    def scores(self, X: FloatArray) -> FloatArray:
        return natural.scores(self._posterior, self._cells(X))[0]

    def scores_std(self, X: FloatArray) -> FloatArray:
        return natural.scores(self._posterior, self._cells(X))[1]

    def filled(self, X: FloatArray, *, noise: bool) -> Pair:
        filled, std = X.copy(), np.zeros(X.shape)
        for j, column in enumerate(self._columns(X)):
            rows = np.flatnonzero(np.isnan(X[:, j]))
            if rows.size:
                some = column.at(rows)
                filled[rows, j] = reading.guessed(some, 0.5).value
                std[rows, j] = reading.deviations_of_codes(some, noise=noise)
        return filled, std

    def expected(self, X: FloatArray, v: int, *, noise: bool) -> Pair:
        pairs = zip(self.fit.view, self._columns(X), strict=True)
        columns = [column for view, column in pairs if view == v]
        means = [reading.expected(column) for column in columns]
        stds = [reading.deviations(column, noise=noise) for column in columns]
        return np.concatenate(means, axis=1), np.concatenate(stds, axis=1)

    def at_scores(self, T: FloatArray) -> FloatArray:
        z = natural.natural_at_scores(self._posterior, T)
        cells = self._cells(np.full((len(T), len(self.fit.columns)), np.nan))
        every = reading.views(self.fit.columns, cells, z, np.zeros_like(z))
        return np.concatenate([reading.expected(column) for column in every], axis=1)

    @property
    def view_of_outputs(self) -> Counts:
        widths = [len(reading.expected_names(column)) for column in self.fit.columns]
        return np.repeat(self.fit.view, widths)

    def drawn(self, X: FloatArray, rng: np.random.Generator) -> FloatArray:
        cells = self._cells(X)
        z = natural.drawn_natural(self._posterior, cells, rng)
        columns = reading.views(self.fit.columns, cells, z, np.zeros_like(z))
        draws = np.stack([reading.drawn(column, rng) for column in columns], axis=1)
        return np.where(np.isnan(X), draws, X)

    def log_density(self, X: FloatArray) -> FloatArray:
        found = natural.log_density(self._posterior, self._cells(X))
        return found - log_units(X, self.fit.columns)
