"""Bi-cross-validation (Owen and Perry 2009, Annals of Applied Statistics 3): the rank whose
truncated singular values best predict a block from the rows and columns around it.
"""

from __future__ import annotations

import numpy as np

FOLDS = 5


def chosen_rank(X: np.ndarray, seed: int, most: int = 60) -> int:
    """The rank with the least squared error over 5×5 blocks of a complete matrix.

    X_IJ is predicted by X_I,-J (X_-I,-J)⁺ X_-I,J with the inverse of rank k.
    """
    rng = np.random.default_rng(seed)
    n, p = X.shape
    rows, columns = (rng.permutation(size) % FOLDS for size in (n, p))
    most = min(most, n - -(-n // FOLDS), p - -(-p // FOLDS))
    errors = np.zeros(most + 1)
    for i in range(FOLDS):
        for j in range(FOLDS):
            errors += _errors(X, rows == i, columns == j, most)
    return int(np.argmin(errors))


def _errors(X: np.ndarray, I: np.ndarray, J: np.ndarray, most: int) -> np.ndarray:
    """Squared error of each rank in one block."""
    U, gamma, W = np.linalg.svd(X[~I][:, ~J], full_matrices=False)
    kept = gamma[:most] > 1e-10 * gamma[0]
    inverse = np.where(kept, 1 / np.where(kept, gamma[:most], 1.0), 0.0)
    left = X[I][:, ~J] @ W[:most].T * inverse
    right = U[:, :most].T @ X[~I][:, J]
    rest = X[I][:, J].copy()
    errors = [float(np.sum(rest**2))]
    for column, row in zip(left.T, right, strict=True):
        rest -= np.outer(column, row)
        errors.append(float(np.sum(rest**2)))
    return np.array(errors)
