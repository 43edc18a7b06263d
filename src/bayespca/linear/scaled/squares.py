"""Expected squares of what is left of rows and columns: all that the best noise follows from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.lowrank.scales import Scales
from bayespca.spectrum.records import Moments
from bayespca.spectrum.tolerances import LEAST_NOISE_OF_FEATURES

from .data import NoisyTable, Whitened
from .rows import has_prior, inverse
from .whitening import Whitening

# Up to so many rows each counts as it is.
FEW_ROWS = 300


def shares(rows: Scales, data: NoisyTable) -> FloatArray:
    """How much of each row is left when the mean has taken its part."""
    if not data.centred:
        return np.ones(data.n_samples)
    return np.asarray(1 - rows.precision / rows.precision.sum())


def n_proper(moments: Moments) -> int:
    """Number of components that have a proper prior."""
    return int(np.count_nonzero(has_prior(moments.prior_variance_b)))


# --- rows --------------------------------------------------------------------------------------


def squares_of_rows(
    found: Whitened, rows: Scales, columns: Scales, data: NoisyTable
) -> tuple[FloatArray, FloatArray]:
    """Rᵢ and Nᵢ: cells and scores of each row."""
    assert found.rows is not None
    solution, moments, of_rows = found.solution, found.solution.moments, found.rows
    s2, share, w = solution.noise_variance, shares(rows, data), rows.precision
    b2 = moments.mean_b**2 + data.p * moments.variance_b
    left = of_rows.squares - of_rows.explained
    left = np.maximum(left, LEAST_NOISE_OF_FEATURES * of_rows.squares)
    left += share * float(moments.variance_a @ b2)
    left += w * float(data.rounding @ columns.precision)
    total = left / s2 + of_rows.uncertain + (data.p * w / w.sum() if data.centred else 0.0)
    of_prior = inverse(moments.prior_variance_a)
    total += share * float(moments.variance_a @ of_prior)
    proper = int(np.count_nonzero(of_prior))
    squares = total / w - _of_shares(rows, proper) * data.centred
    return squares, _counts_of_rows(share, proper, data.p)


def _of_shares(rows: Scales, k: int) -> FloatArray:
    """What a row's precision changes in the free energy through the shares of all rows, twice."""
    part = rows.precision / rows.precision.sum()
    return np.asarray(k * (rows.looseness - part @ rows.looseness) / rows.precision.sum())


def _counts_of_rows(share: FloatArray, k: int, p: int) -> FloatArray:
    """Cells and scores. Shares of many rows are next to equal, and are made so: special functions
    of as many different numbers as there are rows take their time.
    """
    many = share.size > FEW_ROWS
    return p + k * (np.full(share.size, share.mean()) if many else share)


# --- columns -----------------------------------------------------------------------------------


class Products(NamedTuple):
    """⟨EᵀE⟩/σ² + Σₕ⟨bₕbₕᵀ⟩/c² over pairs of columns, with what is left of them before the filter,
    E, and loadings b: its diagonal, the one beside it, and the number of products in each sum.
    """

    own: FloatArray
    beside: FloatArray
    number: float

    def pull(self, phi: float) -> FloatArray:
        """The diagonal of LᵀL times the products, which is that of the products where φ is 0."""
        if not phi:
            return self.own
        total = self.weighted(phi) - phi * (np.r_[0.0, self.beside] + np.r_[self.beside, 0.0])
        return np.maximum(total, LEAST_NOISE_OF_FEATURES * self.own)

    def weighted(self, phi: float) -> FloatArray:
        """The diagonal, times that of LᵀL."""
        return self.own * np.r_[1.0, np.full(self.own.size - 2, 1 + phi * phi), 1.0]


def products_of_columns(found: Whitened, whitening: Whitening, data: NoisyTable) -> Products:
    """What is left of columns, and of columns times their neighbours."""
    solution, moments, k = found.solution, found.solution.moments, found.solution.rank
    s2, of_prior = solution.noise_variance, inverse(moments.prior_variance_b)
    own, beside = _crossed(found)
    a2 = moments.mean_a**2 + data.M * moments.variance_a
    b2 = (moments.mean_b[:k] ** 2)[:, None]
    own_b, beside_b = b2 * found.loadings**2, b2 * found.loadings[:, :-1] * found.loadings[:, 1:]
    own = found.squares - 2 * own + a2[:k] @ own_b
    own = np.maximum(own, LEAST_NOISE_OF_FEATURES * found.squares) / s2 + of_prior[:k] @ own_b
    beside = (found.beside - beside) / s2 + (a2[:k] / s2 + of_prior[:k]) @ beside_b
    # Uncertain loadings and the mean: L⁻¹ε has the variance 1/(1 − φ²), neighbours φ times that.
    spread = float((a2 / s2 + of_prior) @ moments.variance_b) + data.centred
    spread /= 1 - whitening.phi**2
    number = float(data.n_samples + np.count_nonzero(of_prior))
    return Products(own + spread, beside + whitening.phi * spread, number)


def _crossed(found: Whitened) -> tuple[FloatArray, FloatArray]:
    """Σᵢ of data times their low-rank part: of the same column, and both ways of neighbours."""
    solution, k = found.solution, found.solution.rank
    gamma = found.spectrum.singular_values[:k] * found.spectrum.scale
    B, C = found.loadings, found.cross.T * (solution.shrunk_singular_values / gamma)[:, None]
    return (C * B).sum(axis=0), (C[:, :-1] * B[:, 1:] + C[:, 1:] * B[:, :-1]).sum(axis=0)


def squares_of_columns(
    found: Whitened, whitening: Whitening, data: NoisyTable
) -> tuple[FloatArray, FloatArray]:
    """Rⱼ and Nⱼ: cells, loadings and the mean of each column.

    Where neighbours are alike, Rⱼ is twice what the free energy changes by with ⟨1/vⱼ⟩: a column is
    part of what is left of its neighbours too.
    """
    left = products_of_columns(found, whitening, data)
    return left.pull(whitening.phi) / whitening.columns.precision, np.full(data.p, left.number)
