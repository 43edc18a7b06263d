"""Gaussians whose covariance is low-rank plus noise: densities of observed cells, and predictions
of holes.

With covariance LLᵀ + sI (of cells over their scale), and a and G⁻¹ the mean and the covariance of
the scores given the observed cells (`lowrank.density`), holes m have

    ⟨x_m⟩ = μ_m + L_m a,    Cov(x_m) = sI + L_m G⁻¹L_mᵀ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray
from bayespca.lowrank.density import LowRankNormal, log_density_of_complete, low_rank_normal
from bayespca.lowrank.holes import Block
from bayespca.spectrum.tolerances import LOG_2PI

from .data import MixtureRows

# Above this ratio of a direction's variance to the noise, residuals are formed before they are
# squared. Below it, squares are subtracted: half the cost, and ten digits remain. The same limit
# holds for squared distances of rows from the centre of all data.
FAR_ABOVE = 1e6
# Rows times directions computed at once: the numbers stay in a cache.
AT_ONCE = 1 << 18


@dataclass(frozen=True, eq=False)
class Gaussian:
    """(x − mean)/scale ~ N(0, Wᵀ diag(spread) W + noise·I), with orthonormal rows of W."""

    mean: FloatArray
    scale: FloatArray
    directions: FloatArray
    spread: FloatArray
    noise: float

    @cached_property
    def normal(self) -> LowRankNormal:
        """The distribution of (x − mean)/scale for rows with holes: L = Wᵀ·diag(spread)^½."""
        L = (self.directions * np.sqrt(self.spread)[:, None]).T
        return low_rank_normal(L, np.full(len(L), self.noise), scale=self.scale, like=L)

    @property
    def constant(self) -> float:
        """log|2πC| of the covariance C of x."""
        return float(self.log_noises.sum() + self.log_determinant)

    @property
    def shrinkage(self) -> FloatArray:
        return self.spread / (self.spread + self.noise)

    @cached_property
    def log_determinant(self) -> float:
        """log(|C|/noise^p), with C the covariance of (x − mean)/scale."""
        return float(np.log1p(self.spread / self.noise).sum())

    @property
    def log_noises(self) -> FloatArray:
        """log 2πψ of each feature, ψ = noise·scale²."""
        return LOG_2PI + np.log(self.noise) + 2 * np.log(self.scale)

    def standardised(self, values: FloatArray) -> FloatArray:
        out = values - self.mean
        out /= self.scale
        return out

    def off(self, block: Block) -> FloatArray:
        """`standardised` values of a block of rows, with 0 in holes."""
        return self.standardised(block.values) * block.mask[block.pattern]


def log_densities(gaussian: Gaussian, rows: MixtureRows) -> FloatArray:
    """Log density of the observed cells of each row."""
    if rows.is_complete:
        return np.asarray(_of_complete(gaussian, rows.values))
    out, normal = np.empty(rows.shape[0]), gaussian.normal
    for block in rows.blocks(len(normal.loadings) ** 2 + rows.shape[1]):
        out[block.rows] = normal.log_densities(gaussian.off(block), block.mask, block.starts)
    return out


def _of_complete(gaussian: Gaussian, values: FloatArray) -> FloatArray:
    Z, s = gaussian.standardised(values), gaussian.noise
    if gaussian.spread.max(initial=0.0) > FAR_ABOVE * s:
        return np.asarray(
            log_density_of_complete(
                Z, gaussian.directions, spread=gaussian.spread, noise=s, scale=gaussian.scale
            )
        )
    T = Z @ gaussian.directions.T
    T *= T
    distance = (np.einsum("ij,ij->i", Z, Z) - T @ gaussian.shrinkage) / s
    return np.asarray(-0.5 * (distance + gaussian.constant))


def densities_of_all(gaussians: Sequence[Gaussian], rows: MixtureRows) -> FloatArray:
    """`log_densities` of several Gaussians, in a few matrix products for all of them; (n, K)."""
    if not rows.is_complete:
        return np.stack([log_densities(gaussian, rows) for gaussian in gaussians], axis=1)
    together = _Together.of(gaussians)
    out, furthest = np.empty((len(rows.values), len(gaussians))), np.zeros(len(gaussians))
    size = max(64, AT_ONCE // max(sum(together.widths), 1))
    for start in range(0, len(out), size):
        some = slice(start, start + size)
        out[some], squares = together.densities(rows.values[some])
        furthest = np.maximum(furthest, squares)
    for k, gaussian in enumerate(gaussians):
        most = max(furthest[k], gaussian.spread.max(initial=0.0))
        if not most <= FAR_ABOVE * gaussian.noise:
            out[:, k] = _of_complete(gaussian, rows.values)
    return out


@dataclass(frozen=True, eq=False)
class _Together:
    """Gaussians side by side: means μ and precisions 1/scale², (K, p); the directions of all of
    them, divided by their scales, (R, p), and `which` Gaussian each belongs to.
    """

    means: FloatArray
    precisions: FloatArray
    directions: FloatArray
    shrinkages: FloatArray
    widths: list[int]
    which: NDArray[np.intp]
    noises: FloatArray
    constants: FloatArray

    @classmethod
    def of(cls, gaussians: Sequence[Gaussian]) -> _Together:
        widths = [one.spread.size for one in gaussians]
        scales = np.stack([one.scale for one in gaussians])
        noises = np.array([one.noise for one in gaussians])
        which = np.repeat(np.arange(len(widths)), widths)
        spread = np.concatenate([one.spread for one in gaussians]) / noises[which]
        log_dets = np.bincount(which, np.log1p(spread), len(widths))
        features = scales.shape[1] * (LOG_2PI + np.log(noises)) + 2 * np.log(scales).sum(axis=1)
        return cls(
            np.stack([one.mean for one in gaussians]),
            scales**-2.0,
            np.concatenate([one.directions for one in gaussians]) / scales[which],
            spread / (spread + 1),
            widths,
            which,
            noises,
            features + log_dets,
        )

    @cached_property
    def of_directions(self) -> FloatArray:
        """Shrinkages in the column of their Gaussian; (R, K)."""
        table = np.zeros((len(self.directions), len(self.widths)))
        table[np.arange(len(table)), self.which] = self.shrinkages
        return table

    @cached_property
    def offsets(self) -> FloatArray:
        """Wμ/scale of each direction."""
        return np.einsum("rj,rj->r", self.directions, self.means[self.which])

    def densities(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log densities of some rows, and the largest ‖x/scale‖² for each Gaussian."""
        T = X @ self.directions.T
        T -= self.offsets
        T *= T
        weighted = self.means * self.precisions
        squares = (X * X) @ self.precisions.T
        distance = squares - 2 * (X @ weighted.T) + (self.means * weighted).sum(axis=1)
        distance -= T @ self.of_directions
        distance /= self.noises
        distance += self.constants
        distance *= -0.5
        return distance, squares.max(axis=0, initial=0.0)


# --- holes -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ExpectedRows:
    """Rows with their holes filled by their means, and the total uncertainty of the holes.

    `covariance` is Σ wₙ·Cov(xₙ), 0 if the rows are complete, and `entropy` Σ wₙ·H(holes of xₙ).
    """

    values: FloatArray
    covariance: FloatArray | float
    entropy: float


def expected_values(gaussian: Gaussian, rows: MixtureRows) -> FloatArray:
    """Rows with their holes filled by their means given the observed cells."""
    if rows.is_complete:
        return rows.values
    return np.concatenate([found.values for found in _filled(gaussian, rows)])


def expected(gaussian: Gaussian, rows: MixtureRows) -> ExpectedRows:
    """`expected_values`, with the covariance and the entropy of the holes."""
    if rows.is_complete:
        return ExpectedRows(rows.values, 0.0, 0.0)
    n, p = rows.shape
    values, covariance, entropy = np.empty((n, p)), np.zeros((p, p)), 0.0
    for block, filled, cov, log_dets in _filled(gaussian, rows):
        values[block.rows], holes = filled, 1.0 - block.mask
        counts = np.bincount(block.pattern, rows.weights[block.rows], len(holes)).astype(float)
        # Σ over patterns of counts·(sI + L_m G⁻¹L_mᵀ), as one matrix product.
        root = np.linalg.cholesky(cov) * np.sqrt(counts)[:, None, None]
        parts = holes[:, :, None] * np.matmul((gaussian.normal.loadings * gaussian.scale).T, root)
        flat = parts.transpose(1, 0, 2).reshape(p, -1)
        covariance += flat @ flat.T
        covariance += np.diag(gaussian.noise * gaussian.scale**2 * (counts @ holes))
        entropies = holes @ (gaussian.log_noises + 1) + gaussian.log_determinant + log_dets
        entropy += 0.5 * float(counts @ entropies)
    return ExpectedRows(values, covariance, entropy)


class _Filled(NamedTuple):
    """A block of rows, its values with holes filled, and G⁻¹ and log|G⁻¹| of each pattern."""

    block: Block
    values: FloatArray
    cov: FloatArray
    log_dets: FloatArray


def _filled(gaussian: Gaussian, rows: MixtureRows) -> Iterator[_Filled]:
    normal = gaussian.normal
    k, p = normal.loadings.shape
    for block in rows.blocks(k * (k + p) + p):
        a, cov, log_dets = normal.scores(gaussian.off(block), block.mask, block.starts)
        found = gaussian.mean + a @ normal.loadings * gaussian.scale
        values = np.where(block.mask[block.pattern] > 0, block.values, found)
        yield _Filled(block, values, cov, log_dets)
