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

from bayespca.arrays.types import FloatArray
from bayespca.lowrank.scales import Scales
from bayespca.spectrum.tolerances import LEAST_NOISE_OF_FEATURES

from .data import NoisyTable, Whitened
from .rows import inverse
from .whitening import Whitening

# --- rows --------------------------------------------------------------------------------------


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


# --- columns -----------------------------------------------------------------------------------


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
    own, beside = _crossed(found)
    a2 = moments.mean_a**2 + data.M * moments.variance_a
    b2 = (moments.mean_b[:k] ** 2)[:, None]
    own_b, beside_b = b2 * found.loadings**2, b2 * found.loadings[:, :-1] * found.loadings[:, 1:]
    own = found.squares - 2 * own + a2[:k] @ own_b
    own = np.maximum(own, LEAST_NOISE_OF_FEATURES * found.squares) / s2 + of_prior[:k] @ own_b
    beside = (found.beside - beside) / s2 + (a2[:k] / s2 + of_prior[:k]) @ beside_b
    return Products(own, beside, float(data.M))


def _crossed(found: Whitened) -> tuple[FloatArray, FloatArray]:
    """Σᵢ of data times their low-rank part: in the same column, and in neighbours both ways."""
    solution, k = found.solution, found.solution.rank
    gamma = found.spectrum.singular_values[:k] * found.spectrum.scale
    B, C = found.loadings, found.cross.T * (solution.shrunk_singular_values / gamma)[:, None]
    return (C * B).sum(axis=0), (C[:, :-1] * B[:, 1:] + C[:, 1:] * B[:, :-1]).sum(axis=0)


def squares_of_columns(
    found: Whitened, whitening: Whitening, data: NoisyTable
) -> tuple[FloatArray, FloatArray]:
    """Rⱼ and Nⱼ of each column: from its cells, and its mean loadings in units of their prior.

    Where neighbours are correlated, Rⱼ is twice the derivative of the free energy by ⟨1/vⱼ⟩: a
    column is also part of the filtered residuals of its neighbours.
    """
    left = products_of_columns(found, data)
    return left.pull(whitening.phi) / whitening.columns.precision, np.full(data.p, left.number)
