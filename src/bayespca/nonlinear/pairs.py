"""Statistics of the squared exponential for arrays of any library: NumPy, torch, CuPy.

With a = w/(1 + 2wS), the exponent of ψ₂ of a row and of two inducing points with midpoint z̄ is

    −Σ a(μ − z̄)² − ½ Σ log(1 + 2wS) = Σ a·(−z̄²) + Σ aμ·2z̄ − Σ(aμ² + ½ log(1 + 2wS)),

apart from the factor exp(−¼ w(z − z')²), which does not depend on the row. It is a product of
2Q + 1 numbers of the row with 2Q + 1 of the pair. So all exponents of a block of rows are one
matrix product, and so are gradients. Pairs are packed as in `arrays.packing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias, TypeVar

import numpy as np

from bayespca.arrays.namespaces import array_namespace, device, to_numpy
from bayespca.arrays.packing import packed, unpacked
from bayespca.arrays.parallel import in_turn
from bayespca.arrays.types import Array, FloatArray

# Numbers in a block of rows on an accelerator, and on the host, where it stays in a core's cache.
BLOCK, SMALL_BLOCK = 1 << 27, 1 << 15
# Least number of rows in a block.
LEAST_ROWS = 32

T = TypeVar("T")
Four: TypeAlias = tuple[T, T, T, T]


def first_exponential(mu: Array, S: Array, Z: Array, w: Array) -> Array:
    """ψ₁ = Π(1 + wS)^−½ exp(−½ w(μ − z)²/(1 + wS))"""
    xp = array_namespace(mu)
    spread = 1.0 + w * S
    a = w / spread
    rest = xp.sum(a * mu * mu + xp.log(spread), axis=1)[:, None]
    return xp.exp(-0.5 * (rest - 2.0 * (a * mu) @ Z.T + a @ (Z * Z).T))


def first_gradients(mu: Array, S: Array, Z: Array, w: Array, H: Array) -> Four[Array]:
    """Gradients of Σ g·ψ₁ with respect to mu, S, Z and w, for H = g·ψ₁."""
    xp = array_namespace(mu)
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


@dataclass(frozen=True, eq=False)
class _Factors:
    """The factors of the exponents: `of_rows` (N, 2Q + 1) and `of_pairs` (2Q + 1, P).

    Means and the midpoints of pairs, (Q, P), are relative to the mean of all inducing points,
    because their squares are subtracted from each other.
    """

    mean: Array
    wide: Array
    middle: Array
    of_rows: Array
    of_pairs: Array

    @classmethod
    def of(cls, mu: Array, S: Array, Z: Array, w: Array) -> _Factors:
        xp = array_namespace(mu)
        origin = xp.mean(Z, axis=0)
        mu, points = mu - origin, (Z - origin).T
        middle = packed(0.5 * (points[:, :, None] + points[:, None, :]))
        wide = 1.0 + 2.0 * w * S
        a = w / wide
        rest = -xp.sum(a * mu * mu + 0.5 * xp.log(wide), axis=1)[:, None]
        ones = xp.ones_like(middle[:1, :])
        return cls(
            mu,
            wide,
            middle,
            xp.concat([a, a * mu, rest], axis=1),
            xp.concat([-middle * middle, 2.0 * middle, ones], axis=0),
        )

    @property
    def ones(self) -> Array:
        """Ones, which are the last factor of all pairs: (1, P)."""
        return self.of_pairs[-1:, :]

    def exponents(self, rows: slice) -> Array:
        return self.of_rows[rows, :] @ self.of_pairs

    def row_gradients(self, g_rows: Array) -> tuple[Array, Array, Array]:
        """Gradients with respect to mu, S and a, from those of the factors of rows."""
        Q = self.mean.shape[1]
        mu, a, r, g_linear = self.mean, self.of_rows[:, :Q], g_rows[:, -1:], g_rows[:, Q : 2 * Q]
        ga = g_rows[:, :Q] + mu * (g_linear - r * mu)
        return a * (g_linear - 2.0 * r * mu), -a * (2.0 * ga * a + r), ga

    def gradients(self, g_rows: Array, g_pairs: Array, S: Array, M: int) -> Four[Array]:
        """Gradients with respect to mu, S, Z and w, from those of the factors."""
        xp, Q, wide = array_namespace(S), S.shape[1], self.wide
        gmu, gS, ga = self.row_gradients(g_rows)
        g_middle = unpacked(2.0 * (g_pairs[Q:, :] - self.middle * g_pairs[:Q, :]), M)
        gZ = 0.5 * (xp.sum(g_middle, axis=2) + xp.linalg.diagonal(g_middle)).T
        return gmu, gS, gZ, xp.sum(ga / wide**2 - g_rows[:, -1:] * S / wide, axis=0)


class Pairs:
    """Sums over rows of the exponentials of all pairs, on the host by compiled loops."""

    def moved(self, part: FloatArray) -> Array:
        """An array moved to the device on which sums are computed."""
        return np.ascontiguousarray(part, np.float64)

    def total(self, mu: Array, S: Array, Z: Array, w: Array, seen: Array | None = None) -> Array:
        """Σ exp(exponent) over the rows of each group, with `seen` (N, G): (G, P).

        Without groups, over all rows: (1, P).
        """
        factors = _Factors.of(mu, S, Z, w)

        def of_rows(rows: slice) -> Array:
            exponents = factors.exponents(rows)
            if seen is None:
                return self._summed(exponents)
            return seen[rows, :].T @ self._weighted(exponents, factors.ones)

        return _sum(self._over(factors, of_rows))

    def gradients(
        self, mu: Array, S: Array, Z: Array, w: Array, weights: Array, seen: Array | None = None
    ) -> Four[Array]:
        """Gradients of Σ weights·exp(exponent) with respect to mu, S, Z and w.

        Weights are those of each row or of all, (N or 1, P). With `seen` (N, G) they are those of
        groups, (G, P), and a row has the sum over its groups. A pair of two points counts once,
        with the weight of both orders.
        """
        xp, factors = array_namespace(mu), _Factors.of(mu, S, Z, w)

        def of_rows(rows: slice) -> tuple[Array, Array]:
            if seen is not None:
                given = seen[rows, :] @ weights
            else:
                given = weights if weights.shape[0] == 1 else weights[rows, :]
            E = self._weighted(factors.exponents(rows), given)
            # Gradients with respect to the factors of rows, and those of pairs but the last.
            return E @ factors.of_pairs.T, factors.of_rows[rows, :-1].T @ E

        g_rows, g_pairs = zip(*self._over(factors, of_rows), strict=True)
        return factors.gradients(xp.concat(g_rows), _sum(iter(g_pairs)), S, Z.shape[0])

    def each_row(
        self, mu: Array, S: Array, Z: Array, w: Array, weights: Array
    ) -> tuple[Array, Array, Array]:
        """Σ weights·exp(exponent) of each row, (N,), and its gradients with respect to mu and S.

        Weights are those of each row or of all: (N or 1, P).
        """
        xp, factors = array_namespace(mu), _Factors.of(mu, S, Z, w)

        def of_rows(rows: slice) -> Array:
            given = weights if weights.shape[0] == 1 else weights[rows, :]
            return self._weighted(factors.exponents(rows), given) @ factors.of_pairs.T

        g_rows = xp.concat(list(self._over(factors, of_rows)))
        # The last factor of all pairs is 1.
        return (g_rows[:, -1], *factors.row_gradients(g_rows)[:2])

    def of_rows(self, mu: Array, S: Array, Z: Array, w: Array) -> Array:
        """exp(exponent) of each row: (N, P)."""
        factors = _Factors.of(mu, S, Z, w)
        return self._weighted(factors.exponents(slice(None)), factors.ones)

    def _over(self, factors: _Factors, work: Callable[[slice], T]) -> Iterator[T]:
        return in_turn(work, list(_blocks(factors, SMALL_BLOCK)))

    def _summed(self, exponents: Array) -> Array:
        total = np.zeros(exponents.shape[1])
        _loops().add_exponentials(exponents, total)
        return total[None]

    def _weighted(self, exponents: Array, weights: Array) -> Array:
        _loops().weigh_exponentials(exponents, weights)
        return exponents


@dataclass(frozen=True, eq=False)
class ArrayPairs(Pairs):
    """`Pairs` on the device of an array: `like` is any array of its library there."""

    like: Array

    def moved(self, part: FloatArray) -> Array:
        xp = array_namespace(self.like)
        return xp.asarray(np.ascontiguousarray(part), device=device(self.like))

    def _over(self, factors: _Factors, work: Callable[[slice], T]) -> Iterator[T]:
        return map(work, _blocks(factors, BLOCK))

    def _summed(self, exponents: Array) -> Array:
        xp = array_namespace(exponents)
        return xp.sum(xp.exp(exponents), axis=0)[None, :]

    def _weighted(self, exponents: Array, weights: Array) -> Array:
        return weights * array_namespace(exponents).exp(exponents)


HOST = Pairs()


def brought(parts: Four[Array]) -> Four[FloatArray]:
    """Arrays of any library, brought to NumPy."""
    here = [np.asarray(to_numpy(part)) for part in parts]
    return here[0], here[1], here[2], here[3]


def _sum(parts: Iterator[Array]) -> Array:
    found = next(parts)
    for part in parts:
        found = found + part
    return found


def _blocks(factors: _Factors, size: int) -> Iterator[slice]:
    N, step = factors.of_rows.shape[0], max(size // factors.of_pairs.shape[1], LEAST_ROWS)
    return (slice(i, min(i + step, N)) for i in range(0, N, step))


@cache
def _loops() -> Any:
    """The compiled loops, imported on demand because of numba."""
    from . import compiled

    return compiled
