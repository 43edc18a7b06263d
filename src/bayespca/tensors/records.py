"""The parts of the posterior of a Tucker factorization: rows of factors, and the core.

    Y ≈ G ×₁ A₁ ×₂ A₂ … ×_N A_N,  r = r(G)·∏ₙ r(Aₙ)   (aistats2014 Eq. 37–39)

The core's covariance has the square of the core's number of entries. Without holes it is never
formed: where ⟨AₙᵀAₙ⟩ and the prior of each mode are jointly diagonal, so is the covariance, and one
number for each entry of the core represents it. A core of 20×20×20 has 8,000 of them, where a full
covariance would have 64 million, and an update costs a few products along its modes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

# NumPy's linear algebra only: SciPy's has its own threads, which would compete with NumPy's.
import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.checks import are_finite, check_sizes
from bayespca.arrays.packing import packed
from bayespca.arrays.types import FloatArray, Matrices, Matrix

from .modes import mode_product, size_without, times, unfolded

Index = NDArray[np.intp]

# Largest core whose covariance is formed where there are holes.
LARGEST_CORE = 4096


@dataclass(frozen=True, eq=False)
class TuckerRows:
    """A factor: means of its rows (M, H) and their covariances, (1, H, H) if they share one.

    The covariances count for `count` rows in all, one less than there are if the mean took one. A
    point-estimated factor has covariance 0.
    """

    mean: Matrix
    cov: Matrices
    count: float

    @property
    def rank(self) -> int:
        return int(self.mean.shape[1])

    @property
    def second(self) -> FloatArray:
        """⟨AᵀA⟩"""
        return np.asarray(self.mean.T @ self.mean + self.count * self.cov.mean(axis=0))

    @property
    def root(self) -> FloatArray:
        """R with RᵀR = ⟨AᵀA⟩; each column is precise relative to its size, however they differ."""
        spread = np.linalg.cholesky(self.cov.mean(axis=0)).T if self.cov.any() else self.mean[:0]
        stacked = np.vstack([self.mean, np.sqrt(self.count) * spread])
        return np.asarray(np.linalg.qr(stacked, mode="r"))

    @property
    def log_det(self) -> float:
        """Σᵢ log|Σᵢ|"""
        return self.count * float(np.linalg.slogdet(self.cov)[1].mean())

    @property
    def second_of_each(self) -> FloatArray:
        """⟨aaᵀ⟩ of each row (M, H, H)."""
        share = self.count / len(self.mean)
        return np.asarray(outer_products(self.mean) + share * self.cov)

    def times(self, factors: FloatArray) -> TuckerRows:
        mean, cov = factors[:, None] * self.mean, factors[:, None, None] ** 2 * self.cov
        return replace(self, mean=mean, cov=cov)

    def turned(self, R: FloatArray) -> TuckerRows:
        """A·R"""
        return replace(self, mean=self.mean @ R, cov=R.T @ self.cov @ R)

    def kept(self, keep: Index) -> TuckerRows:
        cov = self.cov[:, keep[:, None], keep]
        return replace(self, mean=self.mean[:, keep], cov=cov)

    def check(self) -> None:
        """Raise ValueError unless the parts fit together."""
        M, H = self.mean.shape
        if self.cov.shape not in ((1, H, H), (M, H, H)):
            raise ValueError("the arrays of TuckerRows do not agree")
        if not (are_finite(self.mean, self.cov) and self.count > 0):
            raise ValueError("the moments of TuckerRows are not finite")


@dataclass(frozen=True, eq=False)
class KroneckerCore:
    """G = g ×₁ Q₁ ×₂ Q₂ …, with independent entries of g of variances `spread`.

    `mean` is that of G; a point-estimated core has spread 0.
    """

    mean: FloatArray
    bases: tuple[Matrix, ...]
    spread: FloatArray

    @property
    def log_det(self) -> float:
        """log|Σ_G|"""
        shape = self.mean.shape
        of_bases = sum(
            size_without(shape, n) * float(np.linalg.slogdet(Q)[1])
            for n, Q in enumerate(self.bases)
        )
        return float(np.log(self.spread).sum()) + 2 * of_bases

    def second_along(self, n: int, weights: tuple[FloatArray, ...]) -> FloatArray:
        """⟨G₍ₙ₎(⊗_{m≠n} Xₘ)G₍ₙ₎ᵀ⟩ for symmetric Xₘ."""
        of_mean = unfolded(times(self.mean, weights, skip=n), n) @ unfolded(self.mean, n).T
        along = [
            np.einsum("ah,ab,bh->h", Q, X, Q) for Q, X in zip(self.bases, weights, strict=True)
        ]
        spread = unfolded(_scaled(self.spread, along, skip=n), n).sum(axis=1)
        return np.asarray(of_mean + (self.bases[n] * spread) @ self.bases[n].T)

    def squares(self) -> FloatArray:
        """⟨G²⟩ of each entry."""
        return np.asarray(self.mean**2 + times(self.spread, [Q**2 for Q in self.bases]))

    def pairs(self, *, mean: bool, spread: bool) -> FloatArray:
        """⟨ggᵀ⟩, or the part of it due to the mean or the spread, packed along each mode."""
        total = _packed_pairs(np.outer(self.mean, self.mean), self.mean.shape) if mean else 0.0
        if spread:
            squares = [_packed_sum(outer_products(Q.T)).T for Q in self.bases]
            total = total + times(self.spread, squares)
        return np.asarray(total)

    def scaled(self, factor: float) -> KroneckerCore:
        return replace(self, mean=self.mean * factor, spread=self.spread * factor**2)

    def turned(self, n: int, back: FloatArray) -> KroneckerCore:
        """G ×ₙ R⁻¹"""
        bases = tuple(back @ Q if m == n else Q for m, Q in enumerate(self.bases))
        return replace(self, mean=mode_product(self.mean, back, n), bases=bases)

    def check(self) -> None:
        """Raise ValueError unless the parts fit together."""
        shape = self.mean.shape
        agree = self.spread.shape == shape and len(self.bases) == len(shape) >= 2
        agree = agree and all(Q.shape == (H, H) for Q, H in zip(self.bases, shape, strict=True))
        check_sizes("a KroneckerCore", agree)
        finite = are_finite(self.mean, self.spread, *self.bases)
        if not (finite and (self.spread >= 0).all()):
            raise ValueError(
                "the moments of a KroneckerCore are not finite, or a variance is negative"
            )


@dataclass(frozen=True, eq=False)
class DenseCore:
    """G with its full covariance Σ_G over the flattened entries; `log_det` is log|Σ_G|."""

    mean: FloatArray
    cov: Matrix
    log_det: float

    def second_along(self, n: int, weights: tuple[FloatArray, ...]) -> FloatArray:
        of_mean = unfolded(times(self.mean, weights, skip=n), n) @ unfolded(self.mean, n).T
        shape = self.mean.shape
        pairs = self.cov.reshape(*shape, *shape)
        for m in reversed(range(len(shape))):
            if m != n:
                now = pairs.ndim // 2
                pairs = np.tensordot(weights[m], pairs, axes=((0, 1), (m, m + now)))
        return np.asarray(of_mean + pairs)

    def squares(self) -> FloatArray:
        return np.asarray(self.mean**2 + np.diag(self.cov).reshape(self.mean.shape))

    def pairs(self, *, mean: bool, spread: bool) -> FloatArray:
        total = np.outer(self.mean, self.mean) * mean + self.cov * spread
        return _packed_pairs(total, self.mean.shape)

    def scaled(self, factor: float) -> DenseCore:
        log_det = self.log_det + 2 * self.mean.size * math.log(factor)
        return DenseCore(self.mean * factor, self.cov * factor**2, log_det)

    def turned(self, n: int, back: FloatArray) -> DenseCore:
        shape = self.mean.shape
        pairs = self.cov.reshape(*shape, *shape)
        pairs = mode_product(mode_product(pairs, back, n), back, n + len(shape))
        log_det = self.log_det + 2 * size_without(shape, n) * float(np.linalg.slogdet(back)[1])
        return DenseCore(mode_product(self.mean, back, n), pairs.reshape(self.cov.shape), log_det)

    def check(self) -> None:
        """Raise ValueError unless the parts fit together."""
        size = self.mean.size
        check_sizes("a DenseCore", self.mean.ndim >= 2 and self.cov.shape == (size, size))
        if not (are_finite(self.mean, self.cov) and (np.diag(self.cov) >= 0).all()):
            raise ValueError("the moments of a DenseCore are not finite, or a variance is negative")


Core = KroneckerCore | DenseCore


def _scaled(T: FloatArray, vectors: list[FloatArray], skip: int) -> FloatArray:
    """T times vₘ along each mode except one, in NumPy: `times_along` takes longer to dispatch."""
    for m, vector in enumerate(vectors):
        if m != skip:
            T = T * vector.reshape(-1, *(1,) * (T.ndim - 1 - m))
    return T


def spread_of_cells(rows: Sequence[TuckerRows], core: Core) -> FloatArray:
    """Posterior variance of G ×₁ a₁ ×₂ a₂ … for every cell.

    It is ⟨(G ×₁ a₁ …)²⟩ − (Ĝ ×₁ â₁ …)², written as a sum in which nothing cancels: the uncertainty
    of the core, then of a₁ at the mean of the core, then of a₂ at the means of both, and so on.
    """
    seconds = [packed(r.second_of_each) for r in rows]
    means = [packed(outer_products(r.mean)) for r in rows]
    spreads = [packed(np.broadcast_to(r.cov, (len(r.mean), r.rank, r.rank))) for r in rows]
    total = times(core.pairs(mean=False, spread=True), seconds)
    of_mean = core.pairs(mean=True, spread=False)
    for n in range(len(rows)):
        total = total + times(of_mean, [*means[:n], spreads[n], *seconds[n + 1 :]])
    return np.asarray(np.maximum(total, 0.0))


def spread_in_all(rows: Sequence[TuckerRows], core: Core) -> float:
    """The sum of `spread_of_cells` over all cells, for rows that share their covariances."""
    seconds = tuple(r.second for r in rows)
    bare = np.zeros_like(core.mean)
    total = np.vdot(replace(core, mean=bare).second_along(0, seconds), seconds[0])
    for n, r in enumerate(rows):
        grams = [s.mean.T @ s.mean for s in rows[:n]]
        weights = [*grams, r.count * r.cov.mean(axis=0), *seconds[n + 1 :]]
        total += np.vdot(times(core.mean, weights), core.mean)
    return float(total)


def outer_products(vectors: FloatArray) -> FloatArray:
    """vvᵀ of each row."""
    return np.asarray(vectors[:, :, None] * vectors[:, None, :])


def _packed_pairs(matrix: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """A matrix over entries of a core, with the two indices of each mode packed, halves summed."""
    N = len(shape)
    pairs = matrix.reshape(*shape, *shape).transpose([a for n in range(N) for a in (n, n + N)])
    for n in range(N):
        # The two axes of a mode become one, so those of mode n are now n and n + 1.
        pairs = np.moveaxis(_packed_sum(np.moveaxis(pairs, (n, n + 1), (-2, -1))), -1, n)
    return pairs


def _packed_sum(matrices: FloatArray) -> FloatArray:
    """Packed M + Mᵀ, with the diagonal counted once."""
    both = matrices + np.swapaxes(matrices, -1, -2)
    return np.asarray(packed(both * (1 - 0.5 * np.eye(matrices.shape[-1]))))
