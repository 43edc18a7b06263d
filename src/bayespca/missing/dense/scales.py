"""Noise scales of rows, columns and cells, their cost in free energy, and their starts.

The noise of cell (i, j) has the variance σ²·uᵢ·vⱼ/τᵢⱼ, with wᵢ = ⟨1/uᵢ⟩ and pⱼ = ⟨1/vⱼ⟩. Sweeps
see the data √(wᵢpⱼ)·x, with scores in units of their row's noise and loadings in units of their
column's. The free energy of the data is that of the scaled data plus

    ½Σᵢ nᵢ⟨log uᵢ⟩ + ½Σⱼ (nⱼ − 1)⟨log vⱼ⟩ + KL(rows) + KL(columns),

without the 1 if there is no mean. Given uᵢ, the covariance of a row's scores is in units of uᵢ, as
is their prior; likewise, given vⱼ, the covariance of a column's loadings and mean is in units of
vⱼ. So covariances of the scaled data stay as they are when the variances change, and log u and
log v cancel in the divergences except for the mean, which has no prior. Cells add ½Σ⟨log 1/τᵢⱼ⟩ and
their own KL; the factors are not in units of τ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.lowrank.cells import CellScales
from bayespca.lowrank.holes import Holes, IncompleteRows
from bayespca.lowrank.noise_models import NoiseModel
from bayespca.lowrank.scales import Scales, Tails, at_unit_scale, given
from bayespca.spectrum.tolerances import LEAST_NOISE_WITH_HOLES

Estimate = Callable[[FloatArray, FloatArray], Scales]
# Equal noise is a start for columns whose squares differ by up to this factor each way from their
# geometric mean. Beyond it, precisions of scores would lose all digits of the other columns, and
# nobody measures in such units with equal noise.
MOST_UNEQUAL = 1e4


@dataclass(frozen=True, eq=False)
class NoiseScales:
    """r(u) of rows, in the order of the data's rows, r(v) of columns, and r(τ) of cells.

    None stands for ones. The variances v·`units` share one prior, and so do u·`row_units`.
    """

    rows: Scales | None = None
    columns: Scales | None = None
    units: FloatArray | None = None
    cells: CellScales | None = None
    row_units: FloatArray | None = None

    @property
    def root(self) -> FloatArray | None:
        """Numbers by which columns are divided."""
        return None if self.columns is None else np.sqrt(self.columns.variance)

    def applied(self, data: IncompleteRows) -> IncompleteRows:
        """The data with the weights of rows and cells; `root` is still to be applied."""
        found = self.applied_to_cells(data)
        return found if self.rows is None else found.weighted(self.rows.precision)

    def applied_to_cells(self, data: IncompleteRows) -> IncompleteRows:
        """The data with the weights of cells."""
        if self.cells is None:
            return data
        assert isinstance(data, Holes)
        return data.with_cells(self.cells.precision)

    def with_columns(self, precision: FloatArray) -> NoiseScales:
        """Replace ⟨1/v⟩ of columns, with the same certainty and the same prior of v·units."""
        assert self.columns is not None
        units = 1.0 if self.units is None else self.units
        found = self.columns.with_precision(precision / units)
        log_variance = found.log_variance - np.log(units)
        return replace(self, columns=replace(found, precision=precision, log_variance=log_variance))

    def energy(self, data: IncompleteRows) -> float:
        total = 0.0
        if self.rows is not None:
            total += 0.5 * float(data.row_counts @ self.rows.log_variance) + self.rows.divergence
        if self.columns is not None:
            columns, centred = self.columns, data.centred
            total += 0.5 * float((data.column_counts - centred) @ columns.log_variance)
            total += columns.divergence
        if self.cells is not None:
            total += self.cells.energy
        return total

    def divided(self, data: IncompleteRows) -> IncompleteRows:
        """A copy of the data, divided by the roots of the variances of rows and columns."""
        if self.rows is None and self.columns is None:
            return data
        (n, p), rows, columns = data.shape, self.rows, self.columns
        return data.multiplied(
            np.ones(n) if rows is None else np.sqrt(rows.precision),
            np.ones(p) if columns is None else np.sqrt(columns.precision),
        )

    def at_unit_scale(self) -> NoiseScales:
        """The scales with variances of rows, columns and cells of size 1 each."""
        return replace(
            self,
            rows=None if self.rows is None else self.rows.at_unit_scale(),
            columns=None if self.columns is None else self.columns.at_unit_scale(),
            cells=None if self.cells is None else self.cells.at_unit_scale(),
        )

    @property
    def mean_of_rows(self) -> float:
        """The mean variance of a row, relative to known errors."""
        if self.rows is None:
            return 1.0
        units = 1.0 if self.row_units is None else self.row_units
        return float((self.rows.variance * units).mean())

    @property
    def mean_of_cells(self) -> float:
        """The mean variance of a cell, apart from those of its row and column."""
        return 1.0 if self.cells is None else Tails(self.cells.shape, self.cells.rate).spread

    @property
    def mean(self) -> float:
        """The mean variance of a cell, in units of data that were not scaled by their noise."""
        mean = self.mean_of_rows * self.mean_of_cells
        if self.columns is None or self.units is None:
            return mean
        return mean * float((self.columns.variance * self.units).mean())


def first_scales(
    data: IncompleteRows,
    noise: NoiseModel,
    estimate: Estimate,
    units: FloatArray,
    row_units: FloatArray | None,
) -> list[NoiseScales]:
    """Scales as if the data were pure noise, so that components exceed it, and equal scales.

    Steps cannot cross every rank, and either start may lie on the wrong side. `noise` says what has
    noise of its own. In `units` and `row_units` (None for ones) the variances of columns and of
    rows share a prior.
    """
    of_columns: list[Scales | None] = [None if np.ptp(units) == 0 else given(1 / units)]
    if noise.columns:
        counts = np.maximum(data.column_counts - data.centred, 1)
        squares = np.maximum(data.squares, counts * LEAST_NOISE_WITH_HOLES)
        logs, most = np.log(1 / units), np.log(MOST_UNEQUAL)
        logs = np.clip(logs, logs.mean() - most, logs.mean() + most)
        of_columns = [
            in_units(estimate, squares, counts, units).at_unit_scale(),
            given(np.exp(logs)).at_unit_scale(),
        ]
    found = []
    for columns in of_columns:
        of_rows = [None if row_units is None else given(1 / row_units)]
        if noise.rows:
            own = np.ones(data.shape[0]) if row_units is None else row_units
            root = 1.0 if columns is None else np.sqrt(columns.variance)
            squares = data.squares_of_rows(root)
            squares = np.maximum(squares, data.row_counts * LEAST_NOISE_WITH_HOLES)
            of_rows = [
                in_units(estimate, squares, data.row_counts, own).at_unit_scale(),
                given(1 / own).at_unit_scale(),
            ]
        found += [NoiseScales(rows, columns, units, None, row_units) for rows in of_rows]
    return found


def in_units(
    estimate: Estimate,
    squares: FloatArray,
    counts: FloatArray,
    units: FloatArray,
    *,
    is_free: bool = True,
) -> Scales:
    """r(v) if the variances v·units share a prior; restricted to unit scale unless `is_free`."""
    squares = squares * units
    found = estimate(squares, counts) if is_free else at_unit_scale(squares, counts, units)
    log_variance = found.log_variance - np.log(units)
    return replace(found, precision=found.precision * units, log_variance=log_variance)
