"""What is rated at all says something of who rates it: a prior mean that is linear in it.

In SVD++ (Koren, "Factorization meets the neighborhood: a multifaceted collaborative filtering
model", KDD 2008) a user's factors are shifted by vectors of all items that they have rated. Here
the shift is in the mean of the prior, of biases too, and items are shifted by who has rated them:

    θᵢ ~ N(μ + Σⱼ fᵢⱼyⱼ, Λ⁻¹),    fᵢⱼ = [i rated j]/√Nᵢ − f̄ⱼ,    yⱼ ~ N(0, (λΛ)⁻¹).

f̄ⱼ is the mean over ratings, so that μ is the mean of whoever has a rating, and of whom nothing is
known. Each yⱼ is drawn given the others, in time proportional to the number of ratings; a draw of
all at once would need a matrix of all pairs of columns.
"""

from __future__ import annotations

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.missing.ratings.kernels import MANY

from .prior import LinearMean, NormalPrior, drawn_ridge
from .rated import Rated


def drawn_implicit(
    rest: FloatArray, rated: Rated, prior: NormalPrior, now: LinearMean, rng: np.random.Generator
) -> LinearMean:
    """yⱼ one after another and λ, given what the rest of the mean leaves of rows, θ − μ − …:

    yⱼ ~ N(Σᵢ fᵢⱼ(rᵢ + fᵢⱼyⱼ)/(λ + Σᵢ fᵢⱼ²), ((λ + Σᵢ fᵢⱼ²)Λ)⁻¹),    r = rest − Σⱼ fᵢⱼyⱼ.
    """
    y = now.weights
    if not len(y):
        return now
    root = np.linalg.inv(np.linalg.cholesky(prior.precision))
    noise = rng.normal(size=y.shape) @ root / np.sqrt(now.ridge + rated.squares)[:, None]
    found = _drawn(rest, rated, now, noise)
    return LinearMean(found, drawn_ridge(found, prior, rng))


def _drawn(rest: FloatArray, rated: Rated, now: LinearMean, noise: FloatArray) -> FloatArray:
    if rated.own.n_rows < MANY:
        return by_numpy(rest, rated, now, noise)
    # numba takes a second to import.
    from .implicit_loops import by_loops

    return by_loops(rest, rated, now, noise)


def by_numpy(rest: FloatArray, rated: Rated, now: LinearMean, noise: FloatArray) -> FloatArray:
    """With fᵢⱼ of all rows, one column after another."""
    y = now.weights.copy()
    left = (rest - rated.shift(y)) * rated.active[:, None]
    for j in range(len(y)):
        f = -rated.centre[j] * rated.active
        there = rated.other.other[rated.other.starts[j] : rated.other.starts[j + 1]]
        f[there] += rated.scale[there]
        total = rated.squares[j]
        change = (f @ left + total * y[j]) / (now.ridge + total) + noise[j] - y[j]
        y[j] += change
        left -= np.outer(f, change)
    return y
