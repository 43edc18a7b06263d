"""The filter that whitens noise that is correlated between neighbouring features.

Noise that is autoregressive of order q along the features has partial autocorrelations κ₁, …, κ_q:
κᵢ is the correlation of two features at a distance of i, given those between them. The best
prediction from the i features before has the weights that Levinson's recursion gives,

    aᵢ⁽ⁱ⁾ = κᵢ,   aₗ⁽ⁱ⁾ = aₗ⁽ⁱ⁻¹⁾ − κᵢ·aᵢ₋ₗ⁽ⁱ⁻¹⁾,

and leaves the variance σ²/Π_(l>i)(1 − κₗ²) (Durbin, "The fitting of time-series models", Revue de
l'Institut International de Statistique 28, 1960). The filter takes from each feature what the q
before predict, or as many as there are, and divides by the root of what that leaves, in units of
σ². With one κ = φ,

    z_1 = √(1 − φ²)·v_1,   z_j = v_j − φ·v_{j−1}

Its matrix L, z = Lv, is lower triangular with q diagonals below the main one, and log|L| is
½Σᵢ i·log(1 − κᵢ²). Noise becomes white with variance σ². Before, it is stationary with the variance
σ²/Π(1 − κᵢ²), whatever numbers between −1 and 1 the κᵢ are. Without any, nothing changes.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.linalg import solve_triangular
from scipy.signal import lfilter

from bayespca.arrays.namespaces import array_namespace, to_namespace, to_numpy
from bayespca.arrays.types import Array, FloatArray

# Partial autocorrelations κ₁, …, κ_q; none where noise is white.
Partials = tuple[float, ...]


@lru_cache(maxsize=64)
def prediction_errors(partials: Partials) -> list[FloatArray]:
    """(1, −a₁, …, −aᵢ) of each order i from 0 to q: weights of a feature and of those before it in
    the error of its prediction.
    """
    weights = [np.ones(1)]
    for kappa in partials:
        weights.append(longer(weights[-1], kappa))
    return weights


def longer(weights: FloatArray, kappa: float) -> FloatArray:
    """Weights of the next order from those of one, by Levinson's recursion."""
    found = np.zeros(weights.size + 1)
    found[:-1] = weights
    found[1:] -= kappa * weights[::-1]
    return found


@lru_cache(maxsize=64)
def _rows_of(partials: Partials) -> tuple[FloatArray, FloatArray]:
    """The first q rows and columns of L, and the weights (−a₁, …, −a_q) in all other rows."""
    q, weights = len(partials), prediction_errors(partials)
    start = np.zeros((q, q))
    for j in range(q):
        start[j, : j + 1] = weights[j][::-1] * np.sqrt(_left(partials[j:]))
    return start, weights[q][1:]


def stationary(partials: Partials) -> float:
    """Variance of the noise before the filter, where it is 1 after it."""
    return 1 / _left(partials)


def _left(partials: Partials) -> float:
    """Share of the variance that is left by predictions."""
    return math.prod(1 - kappa * kappa for kappa in partials)


def filtered(V: Array, partials: Partials) -> Array:
    """Lv of each row v."""
    if not partials:
        return V
    start, weights = _rows_of(partials)
    q, p, xp = min(len(partials), V.shape[1]), V.shape[1], array_namespace(V)
    first = xp.matmul(V[:, :q], to_namespace(start[:q, :q].T, V))
    rest = V[:, q:]
    for i, weight in enumerate(weights.tolist() if p > q else (), 1):
        rest = rest + weight * V[:, q - i : p - i]
    return xp.concat([first, rest], axis=1)


def unfiltered(Z: Array, partials: Partials) -> Array:
    """L⁻¹z of each row z."""
    if not partials:
        return Z
    start, weights = _rows_of(partials)
    rows, q = np.array(to_numpy(Z)), min(len(partials), Z.shape[1])
    first = solve_triangular(start[:q, :q], rows[:, :q].T, lower=True).T
    # What the recursion needs as the input of the first q features to return them.
    rows[:, :q] = first
    for i, weight in enumerate(weights[: q - 1], 1):
        rows[:, i:q] += weight * first[:, : q - i]
    return to_namespace(np.asarray(lfilter([1.0], np.append(1.0, weights), rows, axis=1)), Z)


def transposed(Z: Array, partials: Partials) -> Array:
    """Lᵀz of each row z."""
    if not partials:
        return Z
    start, weights = _rows_of(partials)
    p, xp = Z.shape[1], array_namespace(Z)
    q = min(len(partials), p)
    first, rest = xp.matmul(Z[:, :q], to_namespace(start[:q, :q], Z)), Z[:, q:]
    total = xp.concat([first, rest], axis=1)
    if p == q:
        return total
    for i, weight in enumerate(weights.tolist(), 1):
        before, after = Z[:, : q - i] * 0, Z[:, :i] * 0
        total = total + xp.concat([before, weight * rest, after], axis=1)
    return total


def filtered_gram(gram: FloatArray, partials: Partials) -> FloatArray:
    """L G Lᵀ"""
    return np.asarray(filtered(filtered(gram, partials).T, partials))


def innovations(X: Array, psi: float) -> Array:
    """What is new in each row but the first, where the noise of rows is autoregressive."""
    if not psi:
        return X
    return (X[1:, :] - psi * X[:-1, :]) / float(np.sqrt(1 - psi * psi))


def log_det(partials: Partials, p: int) -> float:
    """log|L| for p features."""
    return 0.5 * float(sum(min(i, p) * np.log1p(-k * k) for i, k in enumerate(partials, 1)))
