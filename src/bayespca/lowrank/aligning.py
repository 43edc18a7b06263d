"""Alignment of factors that differ by a rotation, and covariances on a logarithmic scale."""

from __future__ import annotations

from typing import NamedTuple

# NumPy's linear algebra only: SciPy's has threads of its own, which would compete with NumPy's.
import numpy as np

from bayespca.arrays.types import FloatArray, Vector
from bayespca.spectrum.tolerances import TINY

# No variance changes by more than a factor of e to this power at once.
FURTHEST = 3.0
# Logarithms are clipped to this size, so that their exponentials stay finite.
LARGEST = 300.0


def turn_to(W: FloatArray, like: FloatArray) -> FloatArray:
    """The orthogonal Q that brings W·Q nearest to `like` (Procrustes)."""
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
    """T with T·exp(here)·Tᵀ = exp(goal); a goal that is too far is first moved nearer."""
    values, vectors = np.linalg.eigh(goal - here)
    goal = here + (vectors * np.clip(values, -FURTHEST, FURTHEST)) @ vectors.T
    return exponential(0.5 * goal) @ exponential(-0.5 * here)


class Loadings(NamedTuple):
    """W (p, H) for scores of unit prior variance; the logarithm of its rows' covariance (H, H), or
    (0, 0) for point estimates; and numbers that do not change when W is turned to W·Q.
    """

    W: FloatArray
    spread: FloatArray
    rest: FloatArray

    def turned_to(self, like: FloatArray) -> Loadings:
        """W·Q, as near as possible to another W."""
        Q = turn_to(self.W, like)
        spread = Q.T @ self.spread @ Q if self.spread.size else self.spread
        return Loadings(self.W @ Q, spread, self.rest)

    @property
    def vector(self) -> FloatArray:
        return np.concatenate([part.ravel() for part in self])

    def at(self, vector: Vector) -> Loadings:
        """Loadings of the same shapes from another vector."""
        pieces = np.split(vector, np.cumsum([part.size for part in self])[:-1])
        return Loadings(*(x.reshape(part.shape) for x, part in zip(pieces, self, strict=True)))

    def aligned(self, like: Vector | None) -> Loadings:
        """These loadings, turned to those of a vector if there is one of the same size."""
        vector = self.vector
        if like is None or like.size != vector.size:
            return self
        return self.turned_to(self.at(like).W)
