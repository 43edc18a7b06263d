"""Factors that differ by a turn made alike, and covariances on a scale without ends."""

from __future__ import annotations

from typing import NamedTuple

# NumPy's linear algebra alone: SciPy's has threads of its own, which would compete with these.
import numpy as np

from bayespca.arrays.types import FloatArray, Vector
from bayespca.spectrum.tolerances import TINY

# Further than by this factor, e to its power, no variance is taken at once.
FURTHEST = 3.0
# Logarithms whose exponentials are numbers.
LARGEST = 300.0


def turn_to(W: FloatArray, like: FloatArray) -> FloatArray:
    """The orthogonal Q that takes W·Q nearest to another (Procrustes)."""
    U, _, Vt = np.linalg.svd(W.T @ like)
    return np.asarray(U @ Vt)


def logarithm(matrix: FloatArray) -> FloatArray:
    """log of a positive definite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.log(np.maximum(values, TINY))) @ vectors.T)


def exponential(logs: FloatArray) -> FloatArray:
    """exp of a symmetric matrix."""
    values, vectors = np.linalg.eigh(logs)
    return np.asarray((vectors * np.exp(np.clip(values, -LARGEST, LARGEST))) @ vectors.T)


def change_of_root(here: FloatArray, goal: FloatArray) -> FloatArray:
    """T with T·exp(here)·Tᵀ = exp(goal), or on the way to a goal that is too far."""
    values, vectors = np.linalg.eigh(goal - here)
    goal = here + (vectors * np.clip(values, -FURTHEST, FURTHEST)) @ vectors.T
    return exponential(0.5 * goal) @ exponential(-0.5 * here)


class Loadings(NamedTuple):
    """W (p, H) for scores of unit variance a priori; the logarithm of its rows' covariance (H, H),
    or (0, 0) where they are points; and numbers that do not see W turned to W·Q.
    """

    W: FloatArray
    spread: FloatArray
    rest: FloatArray

    def turned_to(self, like: FloatArray) -> Loadings:
        """W·Q, as near to another W as it comes."""
        Q = turn_to(self.W, like)
        spread = Q.T @ self.spread @ Q if self.spread.size else self.spread
        return Loadings(self.W @ Q, spread, self.rest)

    @property
    def vector(self) -> FloatArray:
        return np.concatenate([part.ravel() for part in self])

    def at(self, vector: Vector) -> Loadings:
        """Those of another vector, as many."""
        pieces = np.split(vector, np.cumsum([part.size for part in self])[:-1])
        return Loadings(*(x.reshape(part.shape) for x, part in zip(pieces, self, strict=True)))

    def aligned(self, like: Vector | None) -> Loadings:
        """Turned to those of a vector, if there is one of the same kind."""
        vector = self.vector
        if like is None or like.size != vector.size:
            return self
        return self.turned_to(self.at(like).W)
