"""Four sums for each row, from which its noise follows, however many components there are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray, Floats
from bayespca.spectrum.records import Solution, Spectrum

# Bytes of a block of rows, which is read several times while it is in the cache, and its fewest
# rows.
BLOCK, FEWEST = 1 << 18, 64


@dataclass(frozen=True, eq=False)
class RowForms:
    """Sums for each of the whitened rows zᵢ with scores tᵢₕ = zᵢᵀwₕ: (n,) each.

    Attributes
    ----------
    squares
        ‖zᵢ‖².
    explained
        Part of them that components explain: Σₕtᵢₕ²·s(2 − s), with shrinkage s.
    uncertain
        Contribution of uncertain loadings and of the prior of the scores, at the means of the
        scores and in units of the noise:
        Σₕaᵢₕ²·(p·var(b)/σ² + 1/cₐ²).
    leverage
        Share of their noise that components explain: Σₕtᵢₕ²·s/γ².
    """

    squares: FloatArray
    explained: FloatArray
    uncertain: FloatArray
    leverage: FloatArray

    @classmethod
    def of(cls, squares: FloatArray, forms: FloatArray, precision: FloatArray) -> RowForms:
        """From the sums of rows with equal noise, and the precision of each row."""
        return cls(squares * precision, *(forms.T * precision))


def weights_of_scores(spectrum: Spectrum, solution: Solution, p: int) -> FloatArray:
    """Factors of squared scores in `explained`, `uncertain` and `leverage`: (k, 3)."""
    k, moments, s2 = solution.rank, solution.moments, solution.noise_variance
    gamma = spectrum.singular_values[:k] * spectrum.scale
    kept = solution.shrunk_singular_values / gamma
    spread = p * moments.variance_b[:k] / s2 if s2 else np.zeros(k)
    size = (moments.mean_a[:k] / gamma) ** 2
    uncertain = size * (spread + inverse(moments.prior_variance_a)[:k])
    return np.stack([kept * (2 - kept), uncertain, kept / gamma**2], axis=1)


def forms_of_rows(z: Floats, W: Floats, weights: FloatArray) -> tuple[Floats, FloatArray]:
    """‖zᵢ‖² and Σₕ(zᵢᵀwₕ)²·weightsₕ, with w in the columns of W."""
    return np.einsum("ij,ij->i", z, z), (z @ W) ** 2 @ weights


def forms_of_centred(
    X: FloatArray, mean: FloatArray, precision: FloatArray, W: FloatArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """`forms_of_rows` of rows less their mean, times the roots of the columns' precisions."""
    squares, scores = np.empty(len(X)), np.empty((len(X), W.shape[1]))
    across = np.sqrt(precision)[:, None] * W
    for part, x in centred_blocks(X, mean):
        np.matmul(x, across, out=scores[part])
        np.matmul(np.multiply(x, x, out=x), precision, out=squares[part])
    scores *= scores
    return squares, scores @ weights


def sums_of_centred(
    X: FloatArray, mean: FloatArray, w: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Σw·x and Σw·x² of rows less their mean, for each column."""
    total, squares = np.zeros(mean.size), np.zeros(mean.size)
    for part, x in centred_blocks(X, mean):
        total += w[part] @ x
        squares += w[part] @ np.multiply(x, x, out=x)
    return total, squares


def centred_blocks(X: FloatArray, mean: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
    """Blocks of rows less their mean; each overwrites the one before."""
    n, p = X.shape
    size = max(FEWEST, BLOCK // (8 * p))
    room = np.empty((size, p))
    for i in range(0, n, size):
        part = slice(i, min(i + size, n))
        yield part, np.subtract(X[part], mean, out=room[: part.stop - i])


def has_prior(variances: FloatArray) -> NDArray[np.bool_]:
    """Mask of the components with a proper prior."""
    return np.isfinite(variances) & (variances > 0)


def inverse(variances: FloatArray) -> FloatArray:
    """1/c², 0 where there is no prior."""
    proper = has_prior(variances)
    return np.where(proper, 1 / np.where(proper, variances, 1.0), 0.0)
