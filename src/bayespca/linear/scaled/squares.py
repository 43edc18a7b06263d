"""Expected squared residuals of rows and columns, from which the best noise follows.

Scores are as uncertain as their row is noisy, and loadings as their column is: given uᵢ, the scores
of a row have a mean that does not depend on it and the covariance uᵢ·Cₐ, and likewise loadings and
mean of a column have vⱼ·C_b. Divided by the noise,

    ⟨(x − zᵀb)²/uv⟩ = ⟨1/u⟩⟨1/v⟩(x − mᵀβ)² + ⟨1/v⟩βᵀCₐβ + ⟨1/u⟩mᵀC_b m + tr CₐC_b,

so that the uncertainty of a row's own scores says nothing about its noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import solveh_banded
from scipy.optimize import brentq

from bayespca.arrays.types import FloatArray
from bayespca.lowrank.scales import Scales
from bayespca.spectrum.tolerances import LEAST_NOISE_OF_FEATURES

from .data import NoisyTable, Whitened, Whitening, inverse

# The largest correlation of neighbours: with φ = 1 noise would have no finite variance.
LARGEST_PHI = 0.995
# No variance changes by more than a factor of e to this power at once.
FURTHEST = 1.0


def squares_of_rows(
    found: Whitened, rows: Scales, columns: Scales, data: NoisyTable
) -> tuple[FloatArray, FloatArray]:
    """Rᵢ and Nᵢ of each row: from its cells, and its mean scores in units of their prior."""
    assert found.rows is not None
    s2, of_rows, w = found.solution.noise_variance, found.rows, rows.precision
    left = of_rows.squares - of_rows.explained
    left = np.maximum(left, LEAST_NOISE_OF_FEATURES * of_rows.squares)
    left += w * float(data.rounding @ columns.precision)
    total = left / s2 + of_rows.uncertain + (data.p * w / w.sum() if data.centred else 0.0)
    return total / w, np.full(data.n_samples, float(data.p))


class Products(NamedTuple):
    """⟨EᵀE⟩/σ² + Σₕβₕβₕᵀ/c² over pairs of columns, with their residuals E before the filter and
    means β of loadings: its diagonal, the one beside it, and the number of products in each sum,
    one less where there is a mean.
    """

    own: FloatArray
    beside: FloatArray
    number: float

    def pull(self, phi: float) -> FloatArray:
        """The diagonal of LᵀL times the products, which is `own` where φ is 0."""
        if not phi:
            return self.own
        total = self.weighted(phi) - phi * (np.r_[0.0, self.beside] + np.r_[self.beside, 0.0])
        return np.maximum(total, LEAST_NOISE_OF_FEATURES * self.own)

    def weighted(self, phi: float) -> FloatArray:
        """The diagonal of the products, times that of LᵀL."""
        return self.own * np.r_[1.0, np.full(self.own.size - 2, 1 + phi * phi), 1.0]


def products_of_columns(found: Whitened, data: NoisyTable) -> Products:
    """`Products` of the residuals of columns with themselves and with their neighbours."""
    solution, moments, k = found.solution, found.solution.moments, found.solution.rank
    s2, of_prior = solution.noise_variance, inverse(moments.prior_variance_b)
    B, C = found.loadings, found.cross.T * found.kept[:, None]
    # Σᵢ of data times their low-rank part: in the same column, and in neighbours both ways.
    own, beside = (C * B).sum(axis=0), (C[:, :-1] * B[:, 1:] + C[:, 1:] * B[:, :-1]).sum(axis=0)
    a2 = moments.mean_a**2 + data.M * moments.variance_a
    b2 = (moments.mean_b[:k] ** 2)[:, None]
    own_b, beside_b = b2 * B**2, b2 * B[:, :-1] * B[:, 1:]
    own = found.squares - 2 * own + a2[:k] @ own_b
    own = np.maximum(own, LEAST_NOISE_OF_FEATURES * found.squares) / s2 + of_prior[:k] @ own_b
    beside = (found.beside - beside) / s2 + (a2[:k] / s2 + of_prior[:k]) @ beside_b
    return Products(own, beside, float(data.M))


def squares_of_columns(
    found: Whitened, whitening: Whitening, data: NoisyTable
) -> tuple[FloatArray, FloatArray]:
    """Rⱼ and Nⱼ of each column: from its cells, and its mean loadings in units of their prior.

    Where neighbours are correlated, Rⱼ is twice the derivative of the free energy by ⟨1/vⱼ⟩: a
    column is also part of the filtered residuals of its neighbours.
    """
    left = products_of_columns(found, data)
    return left.pull(whitening.phi) / whitening.columns.precision, np.full(data.p, left.number)


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
