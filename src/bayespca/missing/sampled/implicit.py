"""Implicit feedback: a prior mean of users that is linear in which items they have rated.

In SVD++ (Koren, "Factorization meets the neighborhood: a multifaceted collaborative filtering
model", KDD 2008) a user's factors are shifted by vectors of all items that they have rated. Here
the shift is in the mean of the prior and includes biases, and items are shifted by who rated them:

    θᵢ ~ N(μ + Σⱼ fᵢⱼyⱼ, Λ⁻¹),    fᵢⱼ = [i rated j]/√Nᵢ − f̄ⱼ,    yⱼ ~ N(0, (λΛ)⁻¹).

f̄ⱼ is the mean over ratings, so that μ is the mean for the user of a random rating, and for a user
of whom nothing is known. Each yⱼ is drawn given the others, in time proportional to the number of
ratings; a draw of all at once would need a matrix of all pairs of columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.missing.ratings.kernels import MANY

from .prior import LinearMean, NormalPrior, drawn_ridge
from .rated import Rated


class Shifted(NamedTuple):
    """The draw of y and λ, and the shift Σⱼ fᵢⱼyⱼ of each row (n, K) that follows from it."""

    mean: LinearMean
    shift: FloatArray


def drawn_implicit(
    rest: FloatArray, rated: Rated, prior: NormalPrior, now: Shifted, rng: np.random.Generator
) -> Shifted:
    """Draw each yⱼ in turn, then λ, given `rest`, the rows minus the rest of their mean, θ − μ − …:

    yⱼ ~ N(Σᵢ fᵢⱼ(rᵢ + fᵢⱼyⱼ)/(λ + Σᵢ fᵢⱼ²), ((λ + Σᵢ fᵢⱼ²)Λ)⁻¹),    r = rest − Σⱼ fᵢⱼyⱼ.
    """
    y, ridge = now.mean.weights, now.mean.ridge
    if not len(y):
        return now
    root = np.linalg.inv(np.linalg.cholesky(prior.precision))
    noise = rng.normal(size=y.shape) @ root / np.sqrt(ridge + rated.squares)[:, None]
    rest = rest * rated.active[:, None]
    found, left = _drawn(rest - now.shift, rated, now.mean, noise)
    # The shift follows from the residuals without another pass over the ratings.
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
    """Draw y column by column, with fᵢⱼ written out, and return it with the residuals of rows.

    `left` holds the residuals under the present y, which are 0 for rows without ratings.
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
