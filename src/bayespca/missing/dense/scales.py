"""Noise of its own for rows and columns: its scales, what they cost, and their best values.

The noise of cell (i, j) has the variance σ²·uᵢ·vⱼ, with wᵢ = ⟨1/uᵢ⟩ and pⱼ = ⟨1/vⱼ⟩. Sweeps see the
data √(wᵢpⱼ)·x, with scores in units of their row's noise and loadings in units of their column's.
The free energy of the data is that of the scaled data and

    ½Σᵢ nᵢ⟨log uᵢ⟩ + ½Σⱼ (nⱼ − 1)⟨log vⱼ⟩ + ½Σⱼ loosenessⱼ + KL(rows) + KL(columns)

and, for each component, half the looseness of all columns and that of all rows, with the share that
the mean has left them; without a mean there is neither the 1 nor the term beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.lowrank.holes import IncompleteRows, RowWeights
from bayespca.lowrank.noise_models import NoiseModel
from bayespca.lowrank.scales import Scales, given
from bayespca.spectrum.tolerances import LEAST_NOISE_WITH_HOLES

Estimate = Callable[[FloatArray, FloatArray], Scales]


@dataclass(frozen=True, eq=False)
class NoiseScales:
    """r(u) of rows, in the order of the data's rows, and r(v) of columns; None where all are 1.

    The variances v·`units` have their prior in common.
    """

    rows: Scales | None = None
    columns: Scales | None = None
    units: FloatArray | None = None

    @property
    def root(self) -> FloatArray | None:
        """What columns are divided by."""
        return None if self.columns is None else np.sqrt(self.columns.variance)

    @property
    def column_precision(self) -> float | FloatArray:
        return 1.0 if self.columns is None else self.columns.precision

    def applied(self, data: IncompleteRows) -> IncompleteRows:
        """The data with rows that count as they do; `root` is left to be applied."""
        return data if self.rows is None else data.weighted(self.rows.precision)

    def energy(self, data: IncompleteRows) -> float:
        """What they cost, whatever the number of components."""
        total = 0.0
        if self.rows is not None:
            total += 0.5 * float(data.row_counts @ self.rows.log_variance) + self.rows.divergence
        if self.columns is not None:
            columns, centred = self.columns, data.centred
            total += 0.5 * float((data.column_counts - centred) @ columns.log_variance)
            total += 0.5 * centred * float(columns.looseness.sum()) + columns.divergence
        return total

    def energy_of_component(self, *, centred: bool, loadings: bool) -> float:
        """What they cost for each component; the second part only if loadings have a prior."""
        total = 0.0
        if self.rows is not None:
            total += float(shares(self.rows, centred) @ self.rows.looseness)
        if self.columns is not None and loadings:
            total += float(self.columns.looseness.sum())
        return 0.5 * total

    def divided(self, data: IncompleteRows) -> IncompleteRows:
        """A copy of the data divided by their root."""
        if self.rows is None and self.columns is None:
            return data
        (n, p), rows, columns = data.shape, self.rows, self.columns
        return data.multiplied(
            np.ones(n) if rows is None else np.sqrt(rows.precision),
            np.ones(p) if columns is None else np.sqrt(columns.precision),
        )

    @property
    def mean_of_rows(self) -> float:
        """The mean variance of a row."""
        return 1.0 if self.rows is None else float(self.rows.variance.mean())

    @property
    def mean(self) -> float:
        """The mean variance of a cell, as data are that were not scaled for their noise."""
        if self.columns is None or self.units is None:
            return self.mean_of_rows
        return self.mean_of_rows * float((self.columns.variance * self.units).mean())


def shares(rows: Scales, centred: bool) -> FloatArray:
    return RowWeights.of(rows.precision, centred=centred).shares


def starts(
    data: IncompleteRows, noise: NoiseModel, units: FloatArray, estimate: Estimate
) -> list[NoiseScales]:
    """Scales to start from: those of data that are noise alone, so that components are what exceeds
    it, and equal ones. Either may be on the wrong side of a rank that cannot be crossed by steps.
    """
    columns = _starts_of_columns(data, units, estimate) if noise.columns else [None]
    return [
        NoiseScales(rows, each, units)
        for each in columns
        for rows in (_starts_of_rows(data, each, estimate) if noise.rows else [None])
    ]


def _starts_of_columns(
    data: IncompleteRows, units: FloatArray, estimate: Estimate
) -> list[Scales | None]:
    counts = np.maximum(data.column_counts - data.centred, 1)
    floor = counts * LEAST_NOISE_WITH_HOLES
    alone = in_units(estimate, np.maximum(data.squares, floor), counts, units)
    return [alone.at_unit_scale(), given(1 / units).at_unit_scale()]


def _starts_of_rows(
    data: IncompleteRows, columns: Scales | None, estimate: Estimate
) -> list[Scales | None]:
    root = 1.0 if columns is None else np.sqrt(columns.variance)
    floor = data.row_counts * LEAST_NOISE_WITH_HOLES
    alone = estimate(np.maximum(data.squares_of_rows(root), floor), data.row_counts)
    return [alone.at_unit_scale(), given(np.ones(data.shape[0]))]


def in_units(
    estimate: Estimate, squares: FloatArray, counts: FloatArray, units: FloatArray
) -> Scales:
    """r(v) where the variances v·units have their prior in common."""
    found = estimate(squares * units, counts)
    log_variance = found.log_variance - np.log(units)
    return replace(found, precision=found.precision * units, log_variance=log_variance)
