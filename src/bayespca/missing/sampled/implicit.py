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

from typing import NamedTuple

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.missing.ratings.kernels import MANY

from .prior import LinearMean, NormalPrior, drawn_ridge
from .rated import Rated


class Shifted(NamedTuple):
    """What is drawn, and the shift Σⱼ fᵢⱼyⱼ of each row (n, K) that follows from it."""

    mean: LinearMean
    shift: FloatArray


def drawn_implicit(
    rest: FloatArray, rated: Rated, prior: NormalPrior, now: Shifted, rng: np.random.Generator
) -> Shifted:
    """yⱼ one after another and λ, given what the rest of the mean leaves of rows, θ − μ − …:

    yⱼ ~ N(Σᵢ fᵢⱼ(rᵢ + fᵢⱼyⱼ)/(λ + Σᵢ fᵢⱼ²), ((λ + Σᵢ fᵢⱼ²)Λ)⁻¹),    r = rest − Σⱼ fᵢⱼyⱼ.
    """
    y, ridge = now.mean.weights, now.mean.ridge
    if not len(y):
        return now
    root = np.linalg.inv(np.linalg.cholesky(prior.precision))
    noise = rng.normal(size=y.shape) @ root / np.sqrt(ridge + rated.squares)[:, None]
    rest = rest * rated.active[:, None]
    found, left = _drawn(rest - now.shift, rated, now.mean, noise)
    # What is left says what the shift is, without another pass over the ratings.
    return Shifted(LinearMean(found, drawn_ridge(found, prior, rng)), rest - left)


def _drawn(
    left: FloatArray, rated: Rated, now: LinearMean, noise: FloatArray
) -> tuple[FloatArray, FloatArray]:
    if rated.own.n_rows < MANY:
        return by_numpy(left, rated, now, noise)
    # numba takes a second to import.
    from .implicit_loops import by_loops

    return by_loops(left, rated, now, noise)


def by_numpy(
    left: FloatArray, rated: Rated, now: LinearMean, noise: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """y, and what it leaves of the rows, given what the present y leaves of them, 0 of rows without
    ratings: with fᵢⱼ of all rows, one column after another.
    """
    y, left = now.weights.copy(), left.copy()
    for j in range(len(y)):
        f = -rated.centre[j] * rated.active
        there = rated.other.other[rated.other.starts[j] : rated.other.starts[j + 1]]
        f[there] += rated.scale[there]
        total = rated.squares[j]
        change = (f @ left + total * y[j]) / (now.ridge + total) + noise[j] - y[j]
        y[j] += change
        left -= np.outer(f, change)
    return y, left
