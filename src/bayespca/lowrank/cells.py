"""Cells with noise variances of their own: their weights, from their expected squared residuals.

A cell whose noise has the variance σ²/τ, with a gamma prior on τ that is learned from all cells,
has the weight ω = ⟨τ⟩ = (α + ½)/(β + R/2), R its expected squared residual over σ². Weights replace
the mask, so that every row has a pattern of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, gammaincinv, gammaln

from bayespca.arrays.types import FloatArray, Matrix

from .scales import FAR, best_prior

# Bits that are dropped from squares, so that nearly equal ones are counted as equal: 8 bits of
# their 53 are left.
DROPPED = 44
# Squares below this, relative to σ², count as equal.
LEAST_SQUARE = 1e-12
# The least α: with heavier tails the best model would fit some cells exactly and ignore the others.
LEAST_SHAPE = 1.0
# Cells whose logarithms are computed at a time.
PART = 1 << 16


@dataclass(frozen=True, eq=False)
class CellScales:
    """r(τ) of the observed cells.

    Attributes
    ----------
    precision
        ⟨τ⟩, 0 in holes: (n, p), in the order of the data's rows.
    energy
        ½Σ⟨log 1/τ⟩, and the KL divergence of r(τ) from the prior.
    shape, rate
        α and β of the prior; infinite where precisions are given.
    """

    precision: Matrix
    energy: float
    shape: float = np.inf
    rate: float = np.inf

    @property
    def size(self) -> float:
        """The variance of a typical cell, β/α."""
        return self.rate / self.shape if np.isfinite(self.shape) else 1.0

    def at_unit_scale(self) -> CellScales:
        """The scales with a typical variance of 1."""
        size = self.size
        return replace(self, precision=self.precision * size, rate=self.rate / size)

    @property
    def probability_of_outlier(self) -> FloatArray:
        """Probability that a cell's standard deviation exceeds `FAR` typical ones; 0 in holes."""
        if not np.isfinite(self.shape):
            return np.zeros_like(self.precision)
        typical, shape = gammaincinv(self.shape, 0.5) / self.rate, self.shape + 0.5
        seen = self.precision > 0
        found = np.zeros_like(self.precision)
        found[seen] = gammainc(shape, typical / FAR**2 * shape / self.precision[seen])
        return found


def given_cells(precision: FloatArray) -> CellScales:
    """Scales of cells whose precisions are known, 0 in holes."""
    return CellScales(precision, -0.5 * _sum_of_logs(precision))


def best_cells(
    squares: FloatArray, seen: NDArray[np.bool_], old: CellScales, known: FloatArray | None = None
) -> CellScales:
    """The best r(τ) and its prior, from the squares of cells, which are overwritten.

    `known` precisions, 0 in holes, are multiplied by τ.
    """
    if known is not None:
        squares *= known
    np.maximum(squares, LEAST_SQUARE, out=squares)
    inside = squares.ravel() if seen.all() else squares[seen]
    # Squares are binned by their leading digits.
    bins = inside.view(np.int64) >> DROPPED
    bins -= bins.min()
    counts = np.bincount(bins)
    there = counts > 0
    totals, times = np.bincount(bins, weights=inside)[there], counts[there]
    alpha, beta = best_prior(totals / times, 1.0, times.astype(np.float64))
    if alpha < LEAST_SHAPE:
        alpha, beta = LEAST_SHAPE, beta * LEAST_SHAPE / alpha
    energy = _marginal(alpha, beta, inside)
    if np.isfinite(old.shape):
        # The new prior was fitted to binned squares, so the old one may be better.
        before = _marginal(old.shape, old.rate, inside)
        if before < energy:
            alpha, beta, energy = old.shape, old.rate, before
    # Less ½Σ⟨τ⟩R, and then (α + ½)/(β + R/2) in the memory of the squares.
    sums = ((part / (beta + 0.5 * part)).sum() for part in _in_parts(inside))
    energy -= 0.5 * (alpha + 0.5) * float(sum(sums))
    squares *= 0.5
    squares += beta
    precision = np.divide(alpha + 0.5, squares, out=squares)
    precision *= seen
    if known is not None:
        precision *= known
        energy -= 0.5 * _sum_of_logs(known)
    return CellScales(precision, energy, alpha, beta)


def _marginal(alpha: float, beta: float, squares: FloatArray) -> float:
    """½Σ⟨log 1/τ⟩ + ½Σ⟨τ⟩R + KL at the best r(τ): −Σ log of Student's t, up to a constant."""
    parts = (np.log1p(part / (2 * beta)).sum() for part in _in_parts(squares))
    constant = 0.5 * np.log(beta) - log_ratio_of_gammas(alpha)
    return float(squares.size * constant + (alpha + 0.5) * sum(parts))


def log_ratio_of_gammas(alpha: float) -> float:
    """log Γ(α + ½)/Γ(α), to all digits where α is large."""
    if alpha < 100:
        return float(gammaln(alpha + 0.5) - gammaln(alpha))
    return float(0.5 * np.log(alpha) - 1 / (8 * alpha) + 1 / (192 * alpha**3))


def _in_parts(cells: FloatArray) -> Iterator[FloatArray]:
    return (cells[first : first + PART] for first in range(0, cells.size, PART))


def _sum_of_logs(precision: FloatArray) -> float:
    logs = np.zeros_like(precision)
    return float(np.log(precision, where=precision > 0, out=logs).sum())
