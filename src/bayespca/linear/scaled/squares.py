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
from bayespca.lowrank.filtering import Partials, longer, prediction_errors
from bayespca.lowrank.scales import Scales
from bayespca.spectrum.tolerances import LEAST_NOISE_OF_FEATURES

from .data import NoisyTable, Whitened, Whitening, inverse

# The largest partial autocorrelation: with 1 noise would have no finite variance.
LARGEST_PARTIAL = 0.995
# Most sweeps over partial autocorrelations in a round, and the change that ends them.
SWEEPS, SETTLED = 5, 1e-10
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
    means β of loadings: its diagonal, those beside it up to the order of the noise as rows, filled
    up with zeros, and the number of products in each sum, one less where there is a mean.
    """

    own: FloatArray
    beside: FloatArray
    number: float

    def pull(self, partials: Partials) -> FloatArray:
        """The diagonal of LᵀL times the products, which is `own` where noise is white."""
        if not partials:
            return self.own
        total = self.weighted(partials)
        for d, terms in enumerate(self.terms(partials), 1):
            total += terms
            total[d:] += terms[:-d]
        return np.maximum(total, LEAST_NOISE_OF_FEATURES * self.own)

    def weighted(self, partials: Partials) -> FloatArray:
        """The diagonal of the products, times that of LᵀL."""
        return self.own * diagonal_of_inverse(partials, self.own.size, 0)

    def terms(self, partials: Partials) -> FloatArray:
        """The diagonals beside, times those of LᵀL."""
        found = np.zeros_like(self.beside)
        for d, (terms, products) in enumerate(zip(found, self.beside, strict=True), 1):
            terms[:-d] = products[:-d] * diagonal_of_inverse(partials, self.own.size, d)
        return found

    def of_predictions(self) -> FloatArray:
        """The matrix D for which the sum of LᵀL times the products is βᵀDβ, with the weights
        β = (1, −a₁, …, −a_q) of the error of prediction: sums along diagonals, without as many
        features at both ends as the weights reach beyond (Box and Jenkins, "Time series analysis",
        1970, appendix A7.5); where these are more than there are, minus those left out twice.
        """
        q, p = self.beside.shape
        D = np.empty((q + 1, q + 1))
        for d, products in enumerate((self.own, *self.beside)):
            sums, k = np.append(0.0, np.cumsum(products)), np.arange(q + 1 - d)
            D[k, k + d] = D[k + d, k] = sums[p - d - k] - sums[k]
        return D


def diagonal_of_inverse(partials: Partials, p: int, d: int) -> FloatArray:
    """The d-th diagonal of LᵀL, the inverse of the covariance of more than q features: entry j is
    Σₖβₖβₖ₊d over the errors of predictions that contain both features, less those that would reach
    beyond the ends (Gohberg and Semencul, "On the inversion of finite Toeplitz matrices and their
    continuous analogs", Matematicheskie Issledovaniya 7, 1972).
    """
    beta = prediction_errors(partials)[-1]
    sums = np.cumsum(beta[: beta.size - d] * beta[d:])
    near = np.minimum(np.arange(p - d), sums.size - 1)
    return np.asarray(sums[near] - (sums[-1] - sums[near[::-1]]))


def products_of_columns(found: Whitened, data: NoisyTable) -> Products:
    """`Products` of the residuals of columns with themselves and with their neighbours."""
    solution, moments, k = found.solution, found.solution.moments, found.solution.rank
    s2, of_prior = solution.noise_variance, inverse(moments.prior_variance_b)
    B, C = found.loadings, found.cross.T * found.kept[:, None]
    a2 = moments.mean_a**2 + data.M * moments.variance_a
    b2 = (moments.mean_b[:k] ** 2)[:, None]
    own_b = b2 * B**2
    own = found.squares - 2 * (C * B).sum(axis=0) + a2[:k] @ own_b
    own = np.maximum(own, LEAST_NOISE_OF_FEATURES * found.squares) / s2 + of_prior[:k] @ own_b
    beside, weights = found.beside / s2, a2[:k] / s2 + of_prior[:k]
    for d, products in enumerate(beside, 1):
        # Σᵢ of data times their low-rank part, both ways.
        both = (C[:, :-d] * B[:, d:] + C[:, d:] * B[:, :-d]).sum(axis=0)
        products[:-d] += weights @ (b2 * B[:, :-d] * B[:, d:]) - both / s2
    return Products(own, beside, float(data.M))


def squares_of_columns(
    found: Whitened, whitening: Whitening, data: NoisyTable
) -> tuple[FloatArray, FloatArray]:
    """Rⱼ and Nⱼ of each column: from its cells, and its mean loadings in units of their prior.

    Where neighbours are correlated, Rⱼ is twice the derivative of the free energy by ⟨1/vⱼ⟩: a
    column is also part of the filtered residuals of its neighbours.
    """
    left = products_of_columns(found, data)
    return left.pull(whitening.partials) / whitening.columns.precision, np.full(data.p, left.number)


def best_partials(left: Products, start: Partials) -> Partials:
    """κ that minimise ½βᵀDβ − ½N Σᵢ i·log(1 − κᵢ²), one after the other.

    β is a linear function of each κᵢ, so that the best one is the root of a cubic. Of a single one,
    φ, D gives Σ own − 2φ Σ beside + φ² Σ own without both ends.
    """
    D, partials = left.of_predictions(), list(start)
    for _ in range(SWEEPS if len(partials) > 1 else 1):
        before, weights = list(partials), np.ones(1)
        # Matrices that turn weights of order i into those of order q.
        later = [np.eye(len(D))]
        for kappa in partials[:0:-1]:
            later.append(later[-1][:, :-1] - kappa * later[-1][:, :0:-1])
        for i, turn in enumerate(later[::-1], 1):
            plain, slope = turn @ np.append(weights, 0.0), turn @ np.append(0.0, -weights[::-1])
            found = _best_partial(slope @ D @ slope, plain @ D @ slope, left.number * i)
            partials[i - 1], weights = found, longer(weights, found)
        if np.abs(np.subtract(partials, before)).max() < SETTLED:
            break
    return tuple(partials)


def _best_partial(square: float, cross: float, number: float) -> float:
    """κ that minimises ½κ²·square + κ·cross − ½·number·log(1 − κ²)."""

    def slope(kappa: float) -> float:
        return number * kappa + (kappa * square + cross) * (1 - kappa * kappa)

    # The slope is −N at −1 and N at 1.
    return float(np.clip(brentq(slope, -1.0, 1.0), -LARGEST_PARTIAL, LARGEST_PARTIAL))


def beside_neighbours(columns: Scales, found: Scales, left: Products, partials: Partials) -> Scales:
    """Variances `found` for each column by itself, corrected for changes of its neighbours.

    It is one step of Newton's method in log ⟨1/v⟩: the curvature of the free energy is given by the
    entries of LᵀL times those of the products, a banded matrix.
    """
    precision, certain = columns.precision, np.isinf(found.shape)
    shape, rate = (0.0, 0.0) if certain else (found.shape, found.rate)
    bend = 0.25 * (left.weighted(partials) + left.pull(partials)) + rate * precision
    goal = (shape + 0.5 * left.number) * np.log(found.precision / precision)
    # Diagonals above the main one end, not begin, with the last column.
    above = [np.roll(0.25 * row, d) for d, row in enumerate(left.terms(partials), 1)]
    change = solveh_banded(np.array([*above[::-1], bend]), goal)
    return found.with_precision(precision * np.exp(np.clip(change, -FURTHEST, FURTHEST)))
