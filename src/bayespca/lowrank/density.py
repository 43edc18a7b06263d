"""Normal densities whose covariance is low-rank plus noise, for complete rows and rows with holes.

Under N(0, LLᵀ + diag ψ), with sums over the observed cells of a row,

    G = I + Σⱼ lⱼlⱼᵀ/ψⱼ,    a = G⁻¹Σⱼ lⱼzⱼ/ψⱼ,
    −2 log p(z) = Σⱼ(zⱼ − lⱼᵀa)²/ψⱼ + ‖a‖² + log|G| + Σⱼ log 2πψⱼ,

where a and G⁻¹ are mean and covariance of the scores given z. G depends on the pattern of holes
alone. Residuals off the components are formed before they are squared, so that rows near the
components lose no digits. `scale` are the divisors of the columns: densities are those of scale·z.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayespca.arrays.namespaces import array_namespace
from bayespca.arrays.packing import packed
from bayespca.arrays.places import at, taken
from bayespca.arrays.types import Array, FloatArray, Index
from bayespca.spectrum.tolerances import LOG_2PI

from .kernels import given_gram
from .patterns import pattern_of_rows


def distances_of_complete(
    Z: Array, directions: Array, *, spread: Array, noise: float, scale: Array
) -> tuple[Array, float]:
    """zᵀC⁻¹z of each row, C = Wᵀ diag(spread) W + noise·I, and log|C| + 2 Σ log scale.

    The `directions` W are orthonormal rows, so that nothing has to be inverted. Z is overwritten.
    """
    xp = array_namespace(Z)
    k, p = directions.shape
    T = xp.matmul(Z, directions.T)
    Z -= xp.matmul(T, directions)
    Z *= Z
    distance = xp.sum(Z, axis=1) / noise + xp.sum(T * T / (spread + noise), axis=1)
    log_det = float(xp.sum(xp.log(spread + noise))) + (p - k) * float(np.log(noise))
    return distance, log_det + 2 * float(xp.sum(xp.log(scale)))


def log_density_of_complete(
    Z: Array, directions: Array, *, spread: Array, noise: float, scale: Array
) -> Array:
    """log N(z; 0, C) of each row, less Σ log scale."""
    distance, log_det = distances_of_complete(
        Z, directions, spread=spread, noise=noise, scale=scale
    )
    return -0.5 * (distance + (directions.shape[1] * LOG_2PI + log_det))


@dataclass(frozen=True, eq=False)
class LowRankNormal:
    """N(0, LLᵀ + diag ψ) for rows with holes, made by `low_rank_normal`; arrays live with the rows.

    `outer` are packed lⱼlⱼᵀ/ψⱼ, `pull` is L/ψ, `loadings` Lᵀ, `precisions` 1/ψ, and `logs` are
    log 2πψ, those of the scale included.

    Rows are given by their values, 0 in holes, (n, p), sorted so that rows with the same holes are
    together: `mask` is 1.0 in the observed cells of each pattern (m, p), and `starts` (m + 1,) says
    where its rows begin.
    """

    outer: Array
    pull: Array
    loadings: Array
    precisions: Array
    logs: Array

    def scores(self, values: Array, mask: Array, starts: Index) -> tuple[Array, Array, Array]:
        """a of each row (n, k), and G⁻¹ (m, k, k) and log|G⁻¹| (m,) of each pattern."""
        xp = array_namespace(values)
        gram, pull = xp.matmul(mask, self.outer).T, xp.matmul(values, self.pull)
        return given_gram(gram, pull, starts, np.ones(self.loadings.shape[0]), 1.0)

    def log_densities(self, values: Array, mask: Array, starts: Index) -> Array:
        """Log density of the observed cells of each row."""
        distance, logs = self.distances(values, mask, starts)
        return -0.5 * (distance + logs)

    def distances(self, values: Array, mask: Array, starts: Index) -> tuple[Array, Array]:
        """zᵀC⁻¹z and log|2πC| of the observed cells of each row."""
        xp, pattern = array_namespace(values), pattern_of_rows(starts)
        a, _, log_dets = self.scores(values, mask, starts)
        rest = (values - xp.matmul(a, self.loadings)) * taken(mask, pattern)
        distance = xp.matmul(rest * rest, self.precisions) + xp.sum(a * a, axis=1)
        return distance, taken(xp.matmul(mask, self.logs) - log_dets, pattern)


def low_rank_normal(
    loadings: FloatArray, noises: FloatArray, *, scale: FloatArray, like: Array
) -> LowRankNormal:
    """The `LowRankNormal` of L (p, k) and ψ (p,), for rows on the device of `like`."""
    over = loadings / noises[:, None]
    outer = packed(over[:, :, None] * loadings[:, None, :])
    logs = np.log(2 * np.pi * noises) + 2 * np.log(scale)
    return LowRankNormal(*(at(like, a) for a in (outer, over, loadings.T, 1 / noises, logs)))
