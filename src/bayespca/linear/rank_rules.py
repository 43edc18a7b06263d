"""Rules for the rank that look at the matrix, not only at its singular values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray

# Number of matrices with random signs, and the quantile of their singular values.
FLIPS, QUANTILE = 20, 0.95
# Blocks of rows, and of columns, that are held out in turn, and the largest rank that is tried.
FOLDS, MOST = 5, 60
# Singular values below this, relative to the first, are rounding errors.
NOTHING = 1e-10


def sign_flips(X: FloatArray, rng: np.random.Generator) -> int:
    """Parallel analysis with random signs (Hong, Sheng, Dobriban 2020) of a centred matrix.

    Random signs keep the variance of every cell and destroy all that cells have in common. The
    k-th singular value is compared with the quantile of the k-th of such matrices, up to the
    first that does not exceed it.
    """
    flipped = [_singular_values(X * rng.choice((-1.0, 1.0), X.shape)) for _ in range(FLIPS)]
    above = _singular_values(X) > np.quantile(flipped, QUANTILE, axis=0)
    return int(np.argmin(above)) if not above.all() else above.size


def _singular_values(X: FloatArray) -> FloatArray:
    gram = X.T @ X if X.shape[0] > X.shape[1] else X @ X.T
    return np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[::-1], 0))


def bi_cross_validation(X: FloatArray, rng: np.random.Generator) -> int:
    """The rank that best predicts blocks of a matrix (Owen and Perry 2009).

    Rows and columns are divided into five parts each. Block X_IJ is predicted from the rows and
    columns around it, by X_I,−J (X_−I,−J)⁺ X_−I,J with the inverse of rank k. The rank
    with the least squared error over all 25 blocks is returned.
    """
    n, p = X.shape
    rows, columns = (rng.permutation(size) % FOLDS for size in (n, p))
    most = min(MOST, n - -(-n // FOLDS), p - -(-p // FOLDS))
    errors = np.zeros(most + 1)
    for i in range(FOLDS):
        for j in range(FOLDS):
            errors += _errors(X, rows == i, columns == j, most)
    return int(np.argmin(errors))


def _errors(X: FloatArray, I: NDArray[np.bool_], J: NDArray[np.bool_], most: int) -> FloatArray:
    """Squared error of each rank in one block."""
    U, gamma, W = np.linalg.svd(X[~I][:, ~J], full_matrices=False)
    kept = gamma[:most] > NOTHING * gamma[0]
    inverse = np.where(kept, 1 / np.where(kept, gamma[:most], 1.0), 0.0)
    left = X[I][:, ~J] @ W[:most].T * inverse
    right = U[:, :most].T @ X[~I][:, J]
    rest = X[I][:, J].copy()
    errors = [float(np.sum(rest**2))]
    for column, row in zip(left.T, right, strict=True):
        rest -= np.outer(column, row)
        errors.append(float(np.sum(rest**2)))
    return np.array(errors)
