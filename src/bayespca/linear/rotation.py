"""Rotations of loadings to a simple structure: varimax, and oblimin, whose factors may correlate.

Loadings Λ (p, H) of factors with variance 1 and scores z explain Λz. With scores Tᵀz they are
Λ(Tᵀ)⁻¹, and the factors have the correlations Φ = TᵀT, where columns of T have length 1. Gradient
projection finds T (Bernaards and Jennrich, "Gradient projection algorithms and software for
arbitrary rotation criteria in factor analysis", Educational and Psychological Measurement 65,
2005), starting from Λ itself and from random turns of it; the lowest criterion wins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayespca.arrays.types import FloatArray

STARTS, STEPS, DRAWS = 8, 500, 100
# The length of the projected gradient, relative to the criterion's scale, that ends the descent.
FLAT = 1e-7
HALVINGS = 20

Criterion = Callable[[FloatArray], tuple[float, FloatArray]]


class _Turned(NamedTuple):
    """T (H, H), and its criterion."""

    turn: FloatArray
    value: float


@dataclass(frozen=True)
class Rotation:
    """A criterion of simple loadings, and the kind of turns that minimise it."""

    criterion: Criterion
    oblique: bool
    normalized: bool

    def turn(self, loadings: FloatArray) -> FloatArray:
        """T for loadings (p, H)."""
        H, rng = loadings.shape[1], np.random.default_rng(0)
        random = (np.linalg.qr(rng.normal(size=(H, H)))[0] for _ in range(STARTS - 1))
        found = [self._from(start, loadings) for start in (np.eye(H), *random)]
        return min(found, key=lambda one: one.value).turn

    def std(self, loadings: FloatArray, turn: FloatArray, noise: FloatArray, n: int) -> FloatArray:
        """Standard deviations of turned loadings that were estimated from n rows, by simulation.

        Loadings have the errors of regressions, with the noise variance of each feature over n,
        and the factors' second moments are those of n rows, (Λ + E)S^½ with nS ~ Wishart(n); each
        draw is turned anew. Rotations of the components among themselves have no effect.
        """
        rng, total = np.random.default_rng(0), np.zeros((2, *loadings.shape))
        for _ in range(DRAWS):
            E = rng.normal(size=loadings.shape) * np.sqrt(noise / n)[:, None]
            drawn = (loadings + E) @ _root_of_wishart(n, loadings.shape[1], rng)
            T = self._from(turn, drawn).turn
            found = np.linalg.solve(T, drawn.T).T
            total += np.stack([found, found**2])
        mean, square = total / DRAWS
        return np.sqrt(np.maximum(square - mean**2, 0.0))

    def _from(self, start: FloatArray, loadings: FloatArray) -> _Turned:
        """Follow the projected gradient down, back to allowed turns at each step."""
        T, rows = start, loadings
        if self.normalized:
            lengths = np.sqrt((loadings**2).sum(axis=1, keepdims=True))
            rows = loadings / np.where(lengths > 0, lengths, 1.0)
        size = max(float((rows**2).sum()), np.finfo(float).tiny)
        value, slope = self._at(T, rows)
        length = 1.0
        for _ in range(STEPS):
            if self.oblique:
                inward = T * (T * slope).sum(axis=0)
            else:
                both = T.T @ slope
                inward = T @ (0.5 * (both + both.T))
            along = slope - inward
            steep = float((along**2).sum())
            if np.sqrt(steep) < FLAT * size:
                break
            length *= 2
            for _ in range(HALVINGS):
                new = self._allowed(T - length * along)
                new_value, new_slope = self._at(new, rows)
                if new_value < value - 0.5 * length * steep:
                    break
                length /= 2
            else:
                break
            T, value, slope = new, new_value, new_slope
        return _Turned(T, value)

    def _at(self, T: FloatArray, loadings: FloatArray) -> tuple[float, FloatArray]:
        """The criterion of Λ(Tᵀ)⁻¹, and its gradient in T."""
        L = np.asarray(np.linalg.solve(T, loadings.T).T, dtype=np.float64)
        value, slope = self.criterion(L)
        return value, -np.asarray(np.linalg.solve(T.T, slope.T @ L), dtype=np.float64)

    def _allowed(self, T: FloatArray) -> FloatArray:
        """The nearest orthogonal matrix, or columns of length 1."""
        if self.oblique:
            return T / np.sqrt((T**2).sum(axis=0))
        left, _, right = np.linalg.svd(T)
        return np.asarray(left @ right)


def _varimax(L: FloatArray) -> tuple[float, FloatArray]:
    apart = L**2 - (L**2).mean(axis=0)
    return -0.25 * float((apart**2).sum()), -L * apart


def _quartimin(L: FloatArray) -> tuple[float, FloatArray]:
    squares = L**2
    others = squares.sum(axis=1, keepdims=True) - squares
    return 0.25 * float((squares * others).sum()), L * others


# Kaiser's varimax, −¼ Σₕ Var(λ²ₕ)·p, with his normalization: each row of loadings over its length.
VARIMAX = Rotation(_varimax, oblique=False, normalized=True)
# Direct quartimin, ¼ Σ_{h≠k} Σⱼ λ²ⱼₕλ²ⱼₖ: oblimin with γ = 0.
OBLIMIN = Rotation(_quartimin, oblique=True, normalized=False)


def _root_of_wishart(n: int, H: int, rng: np.random.Generator) -> FloatArray:
    """S^½, symmetric, of nS ~ Wishart(n)."""
    # Bartlett: the Cholesky factor has normal entries and roots of χ² on its diagonal.
    C = np.tril(rng.normal(size=(H, H)), -1) + np.diag(np.sqrt(rng.chisquare(n - np.arange(H))))
    left, sizes, _ = np.linalg.svd(C / np.sqrt(n))
    return np.asarray((left * sizes) @ left.T)
