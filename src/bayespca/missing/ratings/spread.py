"""Covariances of users and items with the other side integrated out, for intervals.

The covariances of a factorised posterior take the other side as given, so intervals made of them
are too narrow if ratings are few. To a user, a rating measures zᵀθ, with noise of variance σ² plus
the uncertainty of the item, ⟨yᵀCy⟩:

    Σᵢ⁻¹ = Σⱼ zⱼzⱼᵀ/(σ² + ⟨yᵢᵀCⱼyᵢ⟩) + 1/c²

and likewise with the sides exchanged. Both are updated in turn for a few rounds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse

from bayespca.arrays.packing import packed, unpacked
from bayespca.arrays.types import FloatArray

from .cells import RatingsSide
from .kernels import BLOCK, regressors

# Rounds over both sides. With two, standard deviations for few ratings are within one per cent of
# those after many rounds.
ROUNDS = 2


class Known(NamedTuple):
    """Moments of one side: means (n, K), covariances, packed, and prior variances (K,)."""

    mean: FloatArray
    cov: FloatArray
    prior: FloatArray


def covariances_of_rows(
    side: RatingsSide, rows: Known, columns: Known, s2: float, *, biases: bool
) -> FloatArray:
    """Σᵢ of all rows, packed, given the covariances of columns."""
    weights = 1 / (s2 + _unknown_of_columns(side, rows, columns, biases=biases))
    matrix = _matrix(side, weights, len(columns.mean))
    return inverted(matrix @ _outer(columns, biases=biases), rows.prior)


def information_of_columns(
    side: RatingsSide, rows: Known, columns: Known, s2: float, *, biases: bool
) -> FloatArray:
    """Σᵢ yᵢyᵢᵀ/(σ² + ⟨zⱼᵀCᵢzⱼ⟩) over the cells of each column, packed, given Cᵢ of rows."""
    weights = 1 / (s2 + _unknown_of_rows(side, rows, columns, biases=biases))
    matrix = _matrix(side, weights, len(columns.mean))
    return np.asarray(matrix.T @ _outer(rows, biases=biases))


def inverted(information: FloatArray, prior: FloatArray) -> FloatArray:
    """(I + 1/c²)⁻¹ of packed matrices, packed."""
    out = np.empty_like(information)
    for first in range(0, len(information), BLOCK):
        some = slice(first, first + BLOCK)
        full = unpacked(information[some], prior.size) + np.diag(1 / prior)
        out[some] = packed(np.linalg.inv(full))
    return out


def _unknown_of_columns(
    side: RatingsSide, rows: Known, columns: Known, *, biases: bool
) -> FloatArray:
    """⟨yᵢᵀCⱼyᵢ⟩ of each cell."""
    return side.products(_second(rows, biases=biases), _twice(columns))


def _unknown_of_rows(side: RatingsSide, rows: Known, columns: Known, *, biases: bool) -> FloatArray:
    """⟨zⱼᵀCᵢzⱼ⟩ of each cell."""
    return side.products(_twice(rows), _second(columns, biases=biases))


def _second(known: Known, *, biases: bool) -> FloatArray:
    return regressors(known.mean, known.cov, 0.0, biases=biases).second


def _outer(known: Known, *, biases: bool) -> FloatArray:
    return regressors(known.mean, known.cov[:0], 0.0, biases=biases).second


def _twice(known: Known) -> FloatArray:
    """Packed covariances with off-diagonal entries doubled, as packing stores each pair once."""
    i, j = np.triu_indices(known.prior.size)
    return np.asarray(known.cov * np.where(i == j, 1.0, 2.0))


def _matrix(side: RatingsSide, values: FloatArray, m: int) -> scipy.sparse.csr_array:
    return scipy.sparse.csr_array((values, side.other, side.starts), shape=(side.n_rows, m))
