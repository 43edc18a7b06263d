"""The posterior of the rows of one side given the other, and with the other integrated out.

Symmetric matrices are packed: their upper triangle, row by row, as `np.triu_indices` orders it.

Covariances of a factorised posterior take the other side as given, so intervals made of them are
too narrow if ratings are few. To a user, a rating measures zᵀθ, with noise of variance σ² plus the
uncertainty of the item, ⟨yᵀCy⟩:

    Σᵢ⁻¹ = Σⱼ zⱼzⱼᵀ/(σ² + ⟨yᵢᵀCⱼyᵢ⟩) + 1/c²

and likewise with the sides exchanged. Both are updated in turn for a few rounds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayespca.arrays.packing import packed, unpacked
from bayespca.arrays.types import FloatArray
from bayespca.lowrank.kernels import given_gram

from .cells import RatingsSide

# Rows above which compiled loops are worth the second that numba takes to import.
MANY = 200
# Number of rows whose matrices are inverted at a time.
BLOCK = 4096


class RatingsRegressors(NamedTuple):
    """Moments of one side as regressors of the other: for each row z = (b, 1), or b without biases.

    Attributes
    ----------
    second
        ⟨zzᵀ⟩, packed: (m, K(K + 1)/2).
    mean
        ⟨z⟩: (m, K).
    drift
        ⟨z·v⟩ with v the bias of the row, which the other side sees as given: (m, K).
    """

    second: FloatArray
    mean: FloatArray
    drift: FloatArray


class RowsTask(NamedTuple):
    """Inputs of an update of rows: the other side, their prior, the noise, and whether they are
    integrated out.
    """

    given: RatingsRegressors
    prior: FloatArray
    s2: float
    integrated: bool


class RatingsRows(NamedTuple):
    """The posterior of the rows of one side.

    Means (n, K), packed covariances, log|Σᵢ| (n,), and the change of Σx² by the fit,
    −2θᵀr + tr⟨θθᵀ⟩G (n,), for the θ, r and G of each row. If θ is point-estimated, covariances have
    no rows and log|Σᵢ| is 0.
    """

    mean: FloatArray
    cov: FloatArray
    log_dets: FloatArray
    fits: FloatArray

    @property
    def augmented(self) -> FloatArray:
        """Σ⟨(θ, 1)(θ, 1)ᵀ⟩ over the rows."""
        K = self.mean.shape[1]
        out = np.zeros((K + 1, K + 1))
        out[:K, :K] = self.mean.T @ self.mean
        if len(self.cov):
            out[:K, :K] += unpacked(self.cov.sum(axis=0), K)
        out[:K, K] = out[K, :K] = self.mean.sum(axis=0)
        out[K, K] = len(self.mean)
        return out

    def with_component(self, to: FloatArray, h: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """⟨aₕ⟩, ⟨(θ, 1)aₕ⟩ and ⟨aₕ²⟩ of each row, for component h after (θ, 1) ↦ to·(θ, 1)."""
        K = self.mean.shape[1]
        w, shift = to[h, :K], to[h, K]
        a = self.mean @ w + shift
        second = np.column_stack([self.mean * a[:, None], a])
        a2 = a * a
        if len(self.cov):
            spread = unpacked(self.cov, K) @ w
            second[:, :K] += spread
            a2 = a2 + spread @ w
        return a, second, a2


def regressors(
    mean: FloatArray, cov: FloatArray, location: float, *, biases: bool
) -> RatingsRegressors:
    """Regressors of the other side from moments of rows; m (`location`) is added to their bias."""
    K = mean.shape[1]
    i, j = np.triu_indices(K)
    second = mean[:, i] * mean[:, j]
    if len(cov):
        second += cov
    if not biases:
        return RatingsRegressors(second, mean, np.zeros_like(mean))
    last = j == K - 1
    z = mean.copy()
    z[:, -1] = 1.0
    drift = second[:, last] + location * mean
    drift[:, -1] = mean[:, -1] + location
    second[:, last] = z
    return RatingsRegressors(second, z, drift)


def quadratic(second: FloatArray, w: FloatArray) -> FloatArray:
    """wᵀ⟨zzᵀ⟩w of each row, from packed matrices."""
    i, j = np.triu_indices(w.size)
    return np.asarray(second @ (w[i] * w[j] * np.where(i == j, 1.0, 2.0)))


def by_numpy(side: RatingsSide, task: RowsTask) -> RatingsRows:
    """r(θᵢ) = N(Σᵢrᵢ/σ², Σᵢ), Σᵢ = (Gᵢ/σ² + 1/c²)⁻¹, Gᵢ = Σⱼ⟨zⱼzⱼᵀ⟩, rᵢ = Σⱼ(xᵢⱼ⟨zⱼ⟩ − ⟨zⱼvⱼ⟩)."""
    n, K, given = side.n_rows, task.prior.size, task.given
    G, r = np.zeros((n, K * (K + 1) // 2)), np.zeros((n, K))
    for i in range(n):
        cells = slice(side.starts[i], side.starts[i + 1])
        j, x = side.other[cells], side.values[cells]
        G[i] = given.second[j].sum(axis=0)
        r[i] = x @ given.mean[j] - given.drift[j].sum(axis=0)
    return given_sums(G, r, task.prior, task.s2, integrated=task.integrated)


def given_sums(
    G: FloatArray, r: FloatArray, prior: FloatArray, s2: float, *, integrated: bool
) -> RatingsRows:
    """The posterior of rows from their sums G, packed (n, K(K + 1)/2), and r (n, K)."""
    n, K = r.shape
    mean = np.zeros((n, K))
    cov = np.zeros((n if integrated else 0, G.shape[1]))
    log_dets, fits = np.zeros(n), np.zeros(n)
    for first in range(0, n, BLOCK):
        rows = slice(first, first + BLOCK)
        full, own = unpacked(G[rows], K), np.arange(len(r[rows]) + 1)
        mean[rows], C, log_det = given_gram(G[rows].T, r[rows].copy(), own, s2 / prior, s2)
        second = mean[rows, :, None] * mean[rows, None, :]
        if integrated:
            cov[rows], log_dets[rows] = packed(C), log_det
            second += C
        fits[rows] = -2 * np.einsum("ih,ih->i", mean[rows], r[rows])
        fits[rows] += np.einsum("ihk,ihk->i", second, full)
    return RatingsRows(mean, cov, log_dets, fits)


def updated(side: RatingsSide, task: RowsTask) -> RatingsRows:
    """The posterior of one side given the other, by NumPy or by compiled loops if rows are many."""
    if side.n_rows < MANY:
        return by_numpy(side, task)
    # numba takes a second to import, and its kernel a few more to compile for the first time.
    from .compiled import by_loops

    return by_loops(side, task)


# Rounds over both sides. With two, standard deviations for few ratings are within one per cent of
# those after many rounds.
ROUNDS = 2


class Known(NamedTuple):
    """Moments of one side: means (n, K), covariances, packed, and prior variances (K,)."""

    mean: FloatArray
    cov: FloatArray
    prior: FloatArray


def covariances_of_rows(
    side: RatingsSide, rows: Known, columns: Known, s2: float, *, biases: bool
) -> FloatArray:
    """Σᵢ of all rows, packed, given the covariances of columns."""
    # ⟨yᵢᵀCⱼyᵢ⟩ of each cell.
    unknown = side.products(_second(rows, biases=biases), _twice(columns))
    matrix = side.matrix(1 / (s2 + unknown), len(columns.mean))
    return inverted(matrix @ _outer(columns, biases=biases), rows.prior)


def information_of_columns(
    side: RatingsSide, rows: Known, columns: Known, s2: float, *, biases: bool
) -> FloatArray:
    """Σᵢ yᵢyᵢᵀ/(σ² + ⟨zⱼᵀCᵢzⱼ⟩) over the cells of each column, packed, given Cᵢ of rows."""
    unknown = side.products(_twice(rows), _second(columns, biases=biases))
    matrix = side.matrix(1 / (s2 + unknown), len(columns.mean))
    return np.asarray(matrix.T @ _outer(rows, biases=biases))


def inverted(information: FloatArray, prior: FloatArray) -> FloatArray:
    """(I + 1/c²)⁻¹ of packed matrices, packed."""
    out = np.empty_like(information)
    for first in range(0, len(information), BLOCK):
        some = slice(first, first + BLOCK)
        full = unpacked(information[some], prior.size) + np.diag(1 / prior)
        out[some] = packed(np.linalg.inv(full))
    return out


def _second(known: Known, *, biases: bool) -> FloatArray:
    return regressors(known.mean, known.cov, 0.0, biases=biases).second


def _outer(known: Known, *, biases: bool) -> FloatArray:
    return regressors(known.mean, known.cov[:0], 0.0, biases=biases).second


def _twice(known: Known) -> FloatArray:
    """Packed covariances with off-diagonal entries doubled, as packing stores each pair once."""
    i, j = np.triu_indices(known.prior.size)
    return np.asarray(known.cov * np.where(i == j, 1.0, 2.0))
