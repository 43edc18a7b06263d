"""The best φ and variances of columns whose noise is correlated with neighbours, from residuals."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solveh_banded
from scipy.optimize import brentq

from bayespca.lowrank.scales import Scales

from .squares import Products

# The largest correlation of neighbours: with φ = 1 noise would have no finite variance.
LARGEST_PHI = 0.995
# No variance changes by more than a factor of e to this power at once.
FURTHEST = 1.0


def best_phi(left: Products) -> float:
    """φ that minimises ½(Σ own − 2φ Σ beside + φ² Σ own without both ends) − ½N log(1 − φ²)."""
    S1, S2 = float(left.beside.sum()), float(left.own[1:-1].sum())

    def slope(phi: float) -> float:
        return left.number * phi + (phi * S2 - S1) * (1 - phi * phi)

    # The slope is −N at −1 and N at 1.
    return float(np.clip(brentq(slope, -1.0, 1.0), -LARGEST_PHI, LARGEST_PHI))


def beside_neighbours(columns: Scales, found: Scales, left: Products, phi: float) -> Scales:
    """Variances `found` for each column by itself, corrected for changes of its neighbours.

    It is one step of Newton's method in log ⟨1/v⟩: the curvature of the free energy is given by the
    entries of LᵀL times those of the products, a tridiagonal matrix.
    """
    precision, certain = columns.precision, np.isinf(found.shape)
    shape, rate = (0.0, 0.0) if certain else (found.shape, found.rate)
    bend = 0.25 * (left.weighted(phi) + left.pull(phi)) + rate * precision
    goal = (shape + 0.5 * left.number) * np.log(found.precision / precision)
    change = solveh_banded(np.array([np.r_[0.0, -0.25 * phi * left.beside], bend]), goal)
    return found.with_precision(precision * np.exp(np.clip(change, -FURTHEST, FURTHEST)))
