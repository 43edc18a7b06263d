"""The interface of ratings to a sweep, and ratings in memory, sorted both ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray, Numbers

from .cells import Indices, RatingsSide, sorted_side
from .kernels import (
    Known,
    RatingsRegressors,
    RatingsRows,
    RowsTask,
    covariances_of_rows,
    information_of_columns,
    quadratic,
    regressors,
    updated,
)


class SweepTask(NamedTuple):
    """Start of a sweep: the columns as regressors of rows, both priors, the noise σ², and m."""

    given: RatingsRegressors
    prior_a: FloatArray
    prior_b: FloatArray
    s2: float
    location: float
    integrates_a: bool
    integrates_b: bool
    biases: bool

    def rows(self, side: RatingsSide) -> RatingsRows:
        return updated(side, RowsTask(self.given, self.prior_a, self.s2, self.integrates_a))

    def regressors(self, rows: RatingsRows) -> RatingsRegressors:
        """Rows as regressors of columns."""
        return regressors(rows.mean, rows.cov, self.location, biases=self.biases)

    def squares_of_biases(self, side: RatingsSide, rows: RatingsRows) -> float:
        """Σ⟨(x − u − m)²⟩ − Σx² over the cells."""
        if not self.biases:
            return 0.0
        u = rows.mean[:, -1] + self.location
        second = u * u + (rows.cov[:, -1] if len(rows.cov) else 0.0)
        return float(side.counts @ second - 2 * side.totals @ u)

    def along_prior(self, w: FloatArray) -> tuple[FloatArray, float]:
        """wᵀ⟨zzᵀ⟩w/σ² of each column and Σw²/c²: the terms of wᵀΣᵢ⁻¹w of a row."""
        return quadratic(self.given.second, w) / self.s2, float(w @ (w / self.prior_a))


class SpreadTask(NamedTuple):
    """Inputs of covariances with the other side integrated out (`kernels`): a sweep's task, and
    columns whose covariances include the uncertainty of rows.
    """

    task: SweepTask
    columns: Known

    def rows(self, side: RatingsSide) -> Known:
        """Rows, with columns integrated out in their covariances."""
        s2, biases, found = self.task.s2, self.task.biases, self.task.rows(side)
        rows = Known(found.mean, found.cov, self.task.prior_a)
        cov = covariances_of_rows(side, rows, self.columns, s2, biases=biases)
        return rows._replace(cov=cov)


def posterior_of_rows(side: RatingsSide, task: SweepTask, dtype: Any) -> tuple[Numbers, Numbers]:
    """Means and packed covariances of rows."""
    found = task.rows(side)
    return found.mean.astype(dtype), found.cov.astype(dtype)


def spread_of_rows(side: RatingsSide, task: SpreadTask, dtype: Any) -> Numbers:
    """Covariances of rows with columns integrated out, packed."""
    return np.asarray(task.rows(side).cov.astype(dtype))


def information(side: RatingsSide, task: SpreadTask) -> FloatArray:
    """Information that these rows give about each column, packed."""
    s2, biases = task.task.s2, task.task.biases
    return information_of_columns(side, task.rows(side), task.columns, s2, biases=biases)


class SweptRows(Protocol):
    """Sums over the rows of a sweep, in the coordinates of the state it started from."""

    def log_precisions(self, w: FloatArray) -> float:
        """Σᵢ log wᵀΣᵢ⁻¹w"""

    def along(self, w: FloatArray) -> FloatArray:
        """Σ wᵀ⟨zzᵀ⟩w over the cells of each column, for z = (a, 1), or a without biases."""

    def beside(self, to: FloatArray, h: int, b: FloatArray, right: FloatArray) -> float:
        """Σ xᵢⱼ⟨aᵢₕ⟩bⱼ − Σ(⟨ãᵢaᵢₕ⟩, ⟨aᵢₕ²⟩)ᵀrightⱼ over the cells, for component h after `to`."""


@dataclass(frozen=True, eq=False)
class Sweep:
    """Result of a sweep, in the coordinates of the state it started from.

    `augmented_a` is Σ⟨(θ, 1)(θ, 1)ᵀ⟩ over the rows, `log_det_a` is Σ log|Σᵢ| over them, and
    `squares` is Σ⟨(x − u − m)²⟩ over the cells.
    """

    task: SweepTask
    rows: SweptRows
    columns: RatingsRows
    augmented_a: FloatArray
    log_det_a: float
    squares: float

    @property
    def residual(self) -> float:
        """Σ⟨(x − ãᵀb̃)²⟩ over the cells."""
        return self.squares + float(self.columns.fits.sum())


class LeftOver(Protocol):
    """Residuals of a model as an n×m matrix with zeros in missing cells."""

    def singular(self, rank: int) -> tuple[FloatArray, FloatArray]:
        """Singular vectors of columns (m, rank), and singular values, largest first."""


class RatingsCells(Protocol):
    """Observed cells of an n×m matrix, minus `location` and divided by `unit`; no cell repeats.

    `squares` is Σx², `column_counts` and `column_totals` are the number of cells and Σx of each
    column.
    """

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def n_cells(self) -> int: ...
    @property
    def squares(self) -> float: ...
    @property
    def location(self) -> float: ...
    @property
    def unit(self) -> float: ...
    @property
    def column_counts(self) -> NDArray[np.int64] | FloatArray: ...
    @property
    def column_totals(self) -> FloatArray: ...

    def digests(self) -> Sequence[object]:
        """Arrays or short texts that differ if the cells do."""

    def swept(self, task: SweepTask) -> Sweep:
        """Update rows, then columns."""

    def rows(self, task: SweepTask, dtype: Any) -> tuple[Numbers, Numbers]:
        """Means and packed covariances of all rows, in memory."""

    def spread(self, task: SpreadTask) -> FloatArray:
        """Σ yᵢyᵢᵀ/(σ² + ⟨zⱼᵀCᵢzⱼ⟩) over the cells of each column, packed; see `kernels`."""

    def spread_of_rows(self, task: SpreadTask, dtype: Any) -> Numbers:
        """Covariances of all rows with columns integrated out, packed, in memory."""

    def without_biases(self, v: FloatArray, shrinkage: float | None) -> tuple[float, LeftOver]:
        """Σu² of rows' biases given columns' biases v, and residuals of both.

        If `shrinkage` is None, there are no biases.
        """

    def left_over(self, task: SweepTask, b: FloatArray) -> LeftOver:
        """Residuals of columns b and of the rows that follow from them."""


# --- in memory ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Ratings:
    """`RatingsCells` in memory."""

    by_rows: RatingsSide
    by_columns: RatingsSide
    location: float
    unit: float

    @property
    def shape(self) -> tuple[int, int]:
        return self.by_rows.n_rows, self.by_columns.n_rows

    @property
    def n_cells(self) -> int:
        return int(self.by_rows.values.size)

    @property
    def column_counts(self) -> NDArray[np.int64]:
        return self.by_columns.counts

    @property
    def column_totals(self) -> FloatArray:
        return self.by_columns.totals

    @cached_property
    def squares(self) -> float:
        return float(np.sum(self.by_rows.values**2))

    def digests(self) -> Sequence[object]:
        return [self.by_rows.starts, self.by_rows.other, self.by_rows.values]

    def swept(self, task: SweepTask) -> Sweep:
        found = task.rows(self.by_rows)
        given = task.regressors(found)
        of_columns = RowsTask(given, task.prior_b, task.s2, task.integrates_b)
        return Sweep(
            task=task,
            rows=RowsHere(self, task, found, given),
            columns=updated(self.by_columns, of_columns),
            augmented_a=found.augmented,
            log_det_a=float(found.log_dets.sum()),
            squares=self.squares + task.squares_of_biases(self.by_rows, found),
        )

    def rows(self, task: SweepTask, dtype: Any) -> tuple[Numbers, Numbers]:
        return posterior_of_rows(self.by_rows, task, dtype)

    def spread(self, task: SpreadTask) -> FloatArray:
        return information(self.by_rows, task)

    def spread_of_rows(self, task: SpreadTask, dtype: Any) -> Numbers:
        return spread_of_rows(self.by_rows, task, dtype)

    def without_biases(self, v: FloatArray, shrinkage: float | None) -> tuple[float, LeftOver]:
        side = self.by_columns
        if shrinkage is None:
            return 0.0, _MatrixHere(side, side.values, self.shape)
        rest = side.values - np.repeat(v, side.counts)
        u = np.bincount(side.other, rest, minlength=self.shape[0])
        u = u / (self.by_rows.counts + shrinkage)
        return float(u @ u), _MatrixHere(side, rest - u[side.other], self.shape)

    def left_over(self, task: SweepTask, b: FloatArray) -> LeftOver:
        rows = task.rows(self.by_rows).mean
        rest = self.by_columns.left_over(b, rows, task.location, biases=task.biases)
        return _MatrixHere(self.by_columns, rest, self.shape)


def sorted_both_ways(
    rows: Indices, columns: Indices, values: FloatArray, shape: tuple[int, int], *, center: bool
) -> Ratings:
    """Ratings in memory from cells in any order."""
    location = float(values.mean()) if center and values.size else 0.0
    centred = values - location
    unit = float(np.sqrt(np.mean(centred**2))) if values.size else 0.0
    centred /= unit or 1.0
    by_rows = sorted_side(rows, columns, centred, shape[0])
    by_columns = sorted_side(columns, rows, centred, shape[1])
    return Ratings(by_rows, by_columns, location, unit or 1.0)


@dataclass(frozen=True, eq=False)
class RowsHere:
    """`SweptRows` in memory."""

    data: Ratings
    task: SweepTask
    found: RatingsRows
    given: RatingsRegressors

    def log_precisions(self, w: FloatArray) -> float:
        return log_precisions(self.data.by_rows, *self.task.along_prior(w))

    def along(self, w: FloatArray) -> FloatArray:
        return self.data.by_columns.sums(quadratic(self.given.second, w))

    def beside(self, to: FloatArray, h: int, b: FloatArray, right: FloatArray) -> float:
        a, aa, a2 = self.found.with_component(to, h)
        left = np.column_stack([aa if self.task.biases else aa[:, :-1], a2])
        side = self.data.by_rows
        return side.weighted_sum(a, b) - side.sum_of_products(left, right)


def log_precisions(side: RatingsSide, of_columns: FloatArray, of_prior: float) -> float:
    """Σᵢ log wᵀΣᵢ⁻¹w, from wᵀ⟨zⱼzⱼᵀ⟩w/σ² of each column and Σw²/c²."""
    return float(np.log(side.sums(of_columns) + of_prior).sum())


@dataclass(frozen=True, eq=False)
class _MatrixHere:
    """`LeftOver` in memory; `values` are sorted by column."""

    side: RatingsSide
    values: FloatArray
    shape: tuple[int, int]

    def singular(self, rank: int) -> tuple[FloatArray, FloatArray]:
        n, m = self.shape
        X = self.side.matrix(self.values, n)
        if rank >= min(n, m) - 1:
            left, gamma, _ = np.linalg.svd(X.toarray(), full_matrices=False)
            return left[:, :rank], gamma[:rank]
        if not self.values.any():  # the Lanczos iteration cannot start from zeros
            return np.eye(m, rank), np.zeros(rank)
        begin = np.random.default_rng(0).normal(size=min(n, m))
        left, gamma, _ = scipy.sparse.linalg.svds(X, rank, v0=begin)
        order = np.argsort(gamma)[::-1]
        return np.asarray(left[:, order], np.float64), np.asarray(gamma[order], np.float64)
