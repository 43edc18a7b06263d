"""Scores, predictions and densities of rows by a fitted `MultiViewPCA`.

Views hold numbers or have likelihoods. Rows have the columns of all views side by side, NaN in
holes: numbers, counts and codes of levels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

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


@dataclass(frozen=True)
class PredictorOfNumbers:
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
        """Rows with their holes filled, and standard deviations of the cells."""
        return imputing.impute(self._posterior, X, noise=noise)

    def expected(self, X: FloatArray, v: int, *, noise: bool) -> Pair:
        """Expected values in a view, and their standard deviations."""
        js = self.fit.cells_of(v)
        filled, std = self.filled(X, noise=noise)
        return filled[:, js], std[:, js]

    def at_scores(self, T: FloatArray) -> FloatArray:
        """Expected values in all views, side by side, of samples with given scores."""
        return np.asarray(numbers.reconstruct(self._posterior, T))

    @property
    def view_of_outputs(self) -> Counts:
        """The view of each column of `at_scores`."""
        return self.fit.view

    def drawn(self, X: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Rows with their holes filled by draws."""
        return imputing.sample_imputation(self._posterior, X, rng)

    def log_density(self, X: FloatArray) -> FloatArray:
        return np.asarray(numbers.log_density(self._posterior, X))


@dataclass(frozen=True)
class PredictorOfCells:
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
