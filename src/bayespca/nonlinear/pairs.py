"""Statistics of the squared exponential by arrays of any library: NumPy, torch, CuPy.

ψ₁ has its formulas here, for the host as for accelerators. Sums over pairs of inducing points are
the same as in `compiled`, for what that is compared with, and for accelerators: the exponents of a
block of rows are one batched product of their scaled differences, and so are gradients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np

from bayespca.arrays.namespaces import array_namespace, device, to_numpy
from bayespca.arrays.types import Array, FloatArray

# Numbers of a block on an accelerator, and on the host.
BLOCK, SMALL_BLOCK = 1 << 27, 1 << 20

T = TypeVar("T")
Four: TypeAlias = tuple[T, T, T, T]


def first_exponential(mu: Array, S: Array, Z: Array, w: Array) -> Array:
    """Π(1 + wS)^−½ exp(−½ w(μ − z)²/(1 + wS))"""
    xp = array_namespace(mu)
    spread = 1.0 + w * S
    a = w / spread
    squares = xp.sum(a * mu * mu, axis=1)[:, None] - 2.0 * (a * mu) @ Z.T + a @ (Z * Z).T
    squares = xp.where(squares > 0.0, squares, xp.zeros_like(squares))
    return xp.exp(-0.5 * (squares + xp.sum(xp.log(spread), axis=1)[:, None]))


def first_gradients(mu: Array, S: Array, Z: Array, w: Array, g1: Array) -> Four[Array]:
    """Gradients of Σ g1·(what `first_exponential` gives): of mu, S, Z and w."""
    xp = array_namespace(mu)
    H = g1 * first_exponential(mu, S, Z, w)
    r, HZ, HZ2 = xp.sum(H, axis=1)[:, None], H @ Z, H @ (Z * Z)
    spread = 1.0 + w * S
    a = w / spread
    ga = -0.5 * (r * mu * mu - 2.0 * mu * HZ + HZ2)
    return (
        -a * (r * mu - HZ),
        -(ga * a * a + 0.5 * r * a),
        H.T @ (a * mu) - Z * (H.T @ a),
        xp.sum(ga / spread**2 - 0.5 * r * S / spread, axis=0),
    )


def _four(parts: list[FloatArray]) -> Four[FloatArray]:
    return parts[0], parts[1], parts[2], parts[3]


@dataclass(frozen=True, eq=False)
class ArrayPairs:
    """Sums where an array lives: `like` is any array of the library, on the device."""

    like: Array

    def first(self, mu: FloatArray, S: FloatArray, Z: FloatArray, w: FloatArray) -> FloatArray:
        """ψ₁ of each row: (N, M)."""
        return np.asarray(to_numpy(first_exponential(*map(self._moved, (mu, S, Z, w)))))

    def first_gradients(
        self, mu: FloatArray, S: FloatArray, Z: FloatArray, w: FloatArray, g1: FloatArray
    ) -> Four[FloatArray]:
        """Gradients of Σ g1·ψ₁: of mu, S, Z and w."""
        found = first_gradients(*map(self._moved, (mu, S, Z, w, g1)))
        return _four([np.asarray(to_numpy(part)) for part in found])

    def total(self, mu: FloatArray, S: FloatArray, Z: FloatArray, w: FloatArray) -> FloatArray:
        """Σ exp(exponent) over rows, for all pairs: (M, M)."""
        xp = array_namespace(self.like)
        mean, spread, points, scales = (self._moved(part) for part in (mu, S, Z, w))
        found = xp.zeros((len(Z), len(Z)), dtype=mean.dtype, device=device(self.like))
        for rows in self._blocks(len(mu), len(Z)):
            found = found + xp.sum(
                _exponentials(mean[rows, :], spread[rows, :], points, scales)[1], axis=0
            )
        return np.asarray(to_numpy(found))

    def gradients(
        self, mu: FloatArray, S: FloatArray, Z: FloatArray, w: FloatArray, G: FloatArray
    ) -> Four[FloatArray]:
        """Gradients of Σ G·exp(exponent), G symmetric: of mu, S, Z and w."""
        xp = array_namespace(self.like)
        mean, spread, points, scales, given = (self._moved(part) for part in (mu, S, Z, w, G))
        means, spreads = [], []
        gZ, gw = xp.zeros_like(points), xp.zeros_like(scales)
        for rows in self._blocks(len(mu), len(Z)):
            D, E = _exponentials(mean[rows, :], spread[rows, :], points, scales)
            E = E * given
            sums = xp.sum(E, axis=2)
            g = -2.0 * (sums[:, :, None] * D + xp.matmul(E, D))
            wide = 2.0 * scales * spread[rows, :] + 1.0
            root = xp.sqrt(0.5 * scales / wide)
            total, radial = xp.sum(sums, axis=1)[:, None], xp.sum(g * D, axis=1)
            means.append(root * xp.sum(g, axis=1))
            spreads.append(-(radial + total) * scales / wide)
            gZ = gZ - xp.sum(g * root[:, None, :], axis=0)
            share = spread[rows, :] / wide
            gw = gw + xp.sum(radial * (0.5 / scales - share) - total * share, axis=0)
        parts = xp.concat(means), xp.concat(spreads), gZ, gw
        return _four([np.asarray(to_numpy(part)) for part in parts])

    def _moved(self, part: FloatArray) -> Array:
        xp = array_namespace(self.like)
        return xp.asarray(np.ascontiguousarray(part), device=device(self.like))

    def _blocks(self, N: int, M: int) -> list[slice]:
        step = max((SMALL_BLOCK if isinstance(self.like, np.ndarray) else BLOCK) // (M * M), 1)
        return [slice(i, min(i + step, N)) for i in range(0, N, step)]


def _exponentials(mu: Array, S: Array, Z: Array, w: Array) -> tuple[Array, Array]:
    """Scaled differences (N, M, Q), and exp of the exponents (N, M, M); see `compiled`."""
    xp = array_namespace(mu)
    wide = 2.0 * w * S + 1.0
    D = (mu[:, None, :] - Z[None, :, :]) * xp.sqrt(0.5 * w / wide)[:, None, :]
    h = -0.5 * xp.sum(D * D, axis=2) - 0.25 * xp.sum(xp.log(wide), axis=1)[:, None]
    products = xp.matmul(D, xp.permute_dims(D, (0, 2, 1)))
    return D, xp.exp(h[:, :, None] + h[:, None, :] - products)
