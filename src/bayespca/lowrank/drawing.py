"""Draws of many small normal vectors, products of each with a matrix, and Wishart's roots."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.namespaces import array_namespace, device
from bayespca.arrays.packing import roots
from bayespca.arrays.places import at, taken
from bayespca.arrays.types import Array, FloatArray


def times(matrices: Array, rows: Array) -> Array:
    """Product of each row with a matrix of its own."""
    return array_namespace(rows).matmul(matrices, rows[:, :, None])[:, :, 0]


def with_ones(a: Array) -> Array:
    """ã = (a, 1)"""
    xp = array_namespace(a)
    return xp.concat([a, xp.ones((a.shape[0], 1), dtype=a.dtype, device=device(a))], axis=1)


def normal_vectors(cov: Array, rng: np.random.Generator, which: NDArray[np.intp]) -> Array:
    """Draws from N(0, cov), one for each of `which`; covariances may be singular."""
    root = taken(roots(cov), which)
    return times(root, at(cov, rng.normal(size=(which.size, cov.shape[-1]))))


def wishart_root(dof: float, q: int, rng: np.random.Generator) -> FloatArray:
    """Z of at most q rows such that ZᵀZ ~ Wishart_q(I, dof): Bartlett's triangle if dof > q."""
    if dof <= q:
        return rng.normal(size=(int(dof), q))
    Z = np.triu(rng.normal(size=(q, q)), 1)
    np.fill_diagonal(Z, np.sqrt(rng.chisquare(dof - np.arange(q))))
    return Z
