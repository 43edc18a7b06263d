"""Covariances of users and items with the other side integrated out, for intervals.

A factorised posterior has those of given users, or items: an interval that is made of them holds
too little where ratings are few. Seen from a user, a rating measures zᵀθ, with noise of variance σ²
and what is not known of the item, ⟨yᵀCy⟩:

    Σᵢ⁻¹ = Σⱼ zⱼzⱼᵀ/(σ² + ⟨yᵢᵀCⱼyᵢ⟩) + 1/c²

and the same with sides exchanged, in turns until both settle.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse

from bayespca.arrays.packing import packed, unpacked
from bayespca.arrays.types import FloatArray

from .cells import RatingsSide
from .kernels import BLOCK, regressors

# Rounds over both sides: with a second one, standard deviations of few ratings are within one per
# cent of those of many.
ROUNDS = 2


class Known(NamedTuple):
    """What is known of one side: means (n, K), covariances, packed, and prior variances (K,)."""

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
    """Σᵢ yᵢyᵢᵀ/(σ² + ⟨zⱼᵀCᵢzⱼ⟩) over the cells of each column, packed, given those of rows."""
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
    """Covariances for sums over pairs, of which each is there once."""
    i, j = np.triu_indices(known.prior.size)
    return np.asarray(known.cov * np.where(i == j, 1.0, 2.0))


def _matrix(side: RatingsSide, values: FloatArray, m: int) -> scipy.sparse.csr_array:
    return scipy.sparse.csr_array((values, side.other, side.starts), shape=(side.n_rows, m))
