"""Draws of the rows of one side given the other: a NumPy version of the compiled loops."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayespca.arrays.packing import unpacked
from bayespca.arrays.types import FloatArray
from bayespca.missing.ratings.cells import RatingsSide
from bayespca.missing.ratings.kernels import RatingsRegressors, regressors


class Chances(NamedTuple):
    """Random numbers of a draw: a standard normal vector for each row (n, K), and a number from
    Γ(½(ν + Nᵢ), 1) for each, or none if all cells have the same noise.
    """

    normal: FloatArray
    gamma: FloatArray


class DrawTask(NamedTuple):
    """Parameters of a draw of rows: the other side φ (m, K) with its weights β, the precision Λ of
    the prior, Λ times its mean for each row (n, K), the noise precision τ, and ν.
    """

    other: FloatArray
    weights: FloatArray
    precision: FloatArray
    pull: FloatArray
    tau: float
    nu: float
    biases: bool

    @property
    def offsets(self) -> FloatArray:
        """The biases of the other side, which rows see as given."""
        return self.other[:, -1] if self.biases else np.zeros(len(self.other))

    def given(self) -> RatingsRegressors:
        """βzzᵀ, βz and βzv of each row of the other side."""
        found = regressors(self.other, np.empty((0, 0)), 0.0, biases=self.biases)
        w = self.weights[:, None]
        return RatingsRegressors(w * found.second, w * found.mean, w * found.drift)


class DrawnRows(NamedTuple):
    """Rows θ (n, K), their weights α (n,), and Σⱼ βⱼe²ᵢⱼ of their residuals e (n,)."""

    theta: FloatArray
    weights: FloatArray
    squares: FloatArray


def by_numpy(side: RatingsSide, task: DrawTask, old: FloatArray, chances: Chances) -> DrawnRows:
    """Draw αᵢ ~ Γ(½(ν + Nᵢ), ½(ν + τ Σⱼ βⱼe²ᵢⱼ)), with e the residuals of the `old` rows, then

        θᵢ ~ N(Pᵢ⁻¹(ταᵢrᵢ + Λμᵢ), Pᵢ⁻¹),    Pᵢ = ταᵢGᵢ + Λ,

    with Gᵢ = Σⱼ βⱼzⱼzⱼᵀ and rᵢ = Σⱼ βⱼzⱼ(xᵢⱼ − vⱼ) for z = (b, 1), or b without biases.
    """
    n, K = chances.normal.shape
    given, v = task.given(), task.offsets
    found = DrawnRows(np.empty((n, K)), np.ones(n), np.empty(n))
    for i in range(n):
        cells = slice(side.starts[i], side.starts[i + 1])
        j, x = side.other[cells], side.values[cells]
        G = unpacked(given.second[j].sum(axis=0)[None], K)[0]
        r = x @ given.mean[j] - given.drift[j].sum(axis=0)
        q = float(task.weights[j] @ (x - v[j]) ** 2)
        if chances.gamma.size:
            left = q - 2 * old[i] @ r + old[i] @ G @ old[i]
            found.weights[i] = chances.gamma[i] / (0.5 * (task.nu + task.tau * left))
        t = task.tau * found.weights[i]
        L = np.linalg.cholesky(t * G + task.precision)
        half = np.linalg.solve(L, t * r + task.pull[i]) + chances.normal[i]
        theta = np.linalg.solve(L.T, half)
        found.theta[i], found.squares[i] = theta, q - 2 * theta @ r + theta @ G @ theta
    return found
