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

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray
from bayespca.missing.ratings.cells import RatingsSide
from bayespca.missing.ratings.kernels import MANY

from .prior import LinearMean, NormalPrior, drawn_ridge


@dataclass(frozen=True, eq=False)
class Rated:
    """Who has rated what: `own` has the cells of each row, `other` those of each column."""

    own: RatingsSide
    other: RatingsSide

    @cached_property
    def scale(self) -> FloatArray:
        """1/√Nᵢ of each row, 0 of those without ratings."""
        counts = self.own.counts
        return np.where(counts > 0, 1 / np.sqrt(np.maximum(counts, 1)), 0.0)

    @cached_property
    def active(self) -> NDArray[np.bool_]:
        """Rows with ratings; the others have no shift."""
        return np.asarray(self.own.counts > 0)

    @cached_property
    def centre(self) -> FloatArray:
        """f̄ⱼ, means over all ratings."""
        return self.other.sums(self.scale * self.own.counts) / self.own.other.size

    @cached_property
    def totals(self) -> FloatArray:
        """Σᵢ [i rated j]/√Nᵢ"""
        return self.other.sums(self.scale)

    @cached_property
    def squares(self) -> FloatArray:
        """Σᵢ fᵢⱼ² over rows with ratings."""
        raw, n = self.other.sums(self.scale**2), int(self.active.sum())
        found = raw - 2 * self.centre * self.totals + n * self.centre**2
        return np.asarray(np.maximum(found, 0.0))

    @property
    def is_constant(self) -> bool:
        """Whether every row with ratings has rated the same columns, which says nothing."""
        return bool((self.squares <= 1e-12).all())

    def raw(self, y: FloatArray) -> FloatArray:
        """Σⱼ yⱼ/√Nᵢ over what row i has rated (n, K)."""
        shape = self.own.n_rows, self.other.n_rows
        values = np.repeat(self.scale, self.own.counts)
        return np.asarray(
            scipy.sparse.csr_array((values, self.own.other, self.own.starts), shape=shape) @ y
        )

    def shift(self, y: FloatArray) -> FloatArray:
        """Σⱼ fᵢⱼyⱼ of each row (n, K)."""
        if not len(y):
            return np.zeros((self.own.n_rows, y.shape[1]))
        return (self.raw(y) - self.centre @ y) * self.active[:, None]


def shift_of_new(y: FloatArray, centre: FloatArray, columns: NDArray[np.int32]) -> FloatArray:
    """Σⱼ fⱼyⱼ of someone who was not there and has rated some columns, for draws y (draw, m, K)."""
    if not columns.size:
        return np.zeros((len(y), y.shape[2]))
    own = y[:, columns].sum(axis=1, dtype=np.float64) / np.sqrt(columns.size)
    return np.asarray(own - centre @ y)


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
    from .compiled import implicit_by_loops

    return implicit_by_loops(rest, rated, now, noise)


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
