"""Sparse matrices, centred without being made dense: only the Gram matrix of the short side is."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from bayespca.arrays.types import FloatArray, Sparse

from . import gram
from .records import Decomposition

# The Gram matrix of a longer side would not fit into the memory of most machines.
LARGEST = 20_000


def without_offsets(X: Sparse) -> tuple[Sparse, FloatArray]:
    """The matrix less the means of columns without zeros, which leaves it as sparse; and the means.

    Only such columns can have means that are large beside the deviations from them. Squares of such
    means would cost the squares of the deviations all their digits.
    """
    n, p = X.shape
    columns = X.tocsc()
    full = np.diff(columns.indptr) == n
    if not full.any():
        return X, np.zeros(p)
    mean = np.where(full, np.asarray(columns.mean(axis=0, dtype=np.float64)).ravel(), 0.0)
    data = columns.data - np.repeat(mean, np.diff(columns.indptr))
    kept = (data.astype(X.dtype), columns.indices, columns.indptr)
    return sp.csc_array(kept, shape=(n, p)).tocsr(), mean


def by_gram(X: Sparse, *, center: bool) -> Decomposition:
    """The decomposition from XᵀX or XXᵀ in float64, less what the mean adds to it."""
    n, p = X.shape
    if min(n, p) > LARGEST:
        raise ValueError(
            f"the spectrum of this {n}×{p} sparse matrix falls too slowly to be cut off, and its "
            f"shorter side is beyond {LARGEST}: give n_components."
        )
    wide: Sparse = sp.csr_array(X, dtype=np.float64)
    mean = np.asarray(wide.mean(axis=0)).ravel() if center else np.zeros(p)
    if n > p:
        square = (wide.T @ wide).toarray() - n * np.outer(mean, mean)
        like = np.zeros(0, X.dtype)
        return gram.from_feature_gram(square, like=like, mean=mean, n_samples=n, center=center)
    along = wide @ mean
    square = (wide @ wide.T).toarray() - along[:, None] - along + mean @ mean

    def right(left: np.ndarray) -> np.ndarray:
        return np.asarray((wide.T @ left).T - np.outer(left.sum(axis=0), mean), dtype=X.dtype)

    return gram.from_sample_gram(
        square, right=right, mean=mean, n_features=p, center=center, dtype=X.dtype
    )
