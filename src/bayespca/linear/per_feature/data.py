"""Second moments of complete data, which is all that noise of each feature needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import Array, FloatArray
from bayespca.engines import map_reduce
from bayespca.sources.data import Where, where_of
from bayespca.spectrum.records import samples


@dataclass(frozen=True, eq=False)
class FeatureMoments:
    """Centred second moments of the data: X itself if it is wide, XᵀX if it is tall.

    `squares` are Σx² of each feature, `mean` is what was removed from them. What is found goes
    where `like` is.
    """

    squares: FloatArray
    gram: FloatArray | None
    rows: FloatArray | None
    M: int
    mean: FloatArray
    n_samples: int
    engine: str = "gram"
    like: Array = None

    @property
    def p(self) -> int:
        return int(self.squares.size)

    @property
    def matrix(self) -> FloatArray:
        """XᵀX or X, whichever there is."""
        matrix = self.gram if self.rows is None else self.rows
        assert matrix is not None
        return matrix


def feature_moments(X: Any, *, center: bool) -> FeatureMoments:
    """Moments of an array, a sparse matrix or partitions of a Dask collection."""
    where = where_of(X)
    if where is Where.PARTITIONS:
        gram, mean, n = map_reduce.scatter(X, center=center)
        squares, like = np.diag(gram).copy(), np.empty(0, X.dtype)
        return FeatureMoments(squares, gram, None, samples(n, center), mean, n, "dask", like)
    dense = X.toarray() if where is Where.SPARSE else X
    like = np.empty(0, X.dtype) if where is Where.SPARSE else X
    values = np.asarray(to_numpy(dense), dtype=np.float64)
    n, p = values.shape
    mean = values.mean(axis=0) if center else np.zeros(p)
    rows, M = values - mean, samples(n, center)
    if n > p:
        gram = rows.T @ rows
        return FeatureMoments(np.diag(gram).copy(), gram, None, M, mean, n, like=like)
    squares = np.einsum("ij,ij->j", rows, rows)
    return FeatureMoments(squares, None, rows, M, mean, n, like=like)
