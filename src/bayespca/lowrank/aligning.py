"""Factors that differ by a turn made alike, and covariances on a scale without ends."""

from __future__ import annotations

# NumPy's linear algebra alone: SciPy's has threads of its own, which would compete with these.
import numpy as np

from bayespca.arrays.types import FloatArray
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
