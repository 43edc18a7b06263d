"""ψ statistics: averages of a kernel over normal latent points, and their gradients.

Row n of the latent space is N(μₙ, diag Sₙ). With k(x, z) the kernel,

    ψ₀ₙ = ⟨k(xₙ, xₙ)⟩,   ψ₁ₙ = ⟨k(xₙ, z)⟩,   ψ₂ₙ = ⟨k(xₙ, z) k(xₙ, z)ᵀ⟩,

in closed form for the squared exponential (Titsias and Lawrence 2010, Sec. 3.2), the linear kernel,
a bias, white noise, and sums of them. ψ₂ is needed as a sum over rows, and where there are holes as
one sum for each group of columns with the same holes: all that is done with it is linear, so that
the mask times packed triangles gives all sums at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from bayespca.arrays.packing import packed, unpacked
from bayespca.arrays.parallel import in_turn
from bayespca.arrays.types import FloatArray

from .kernels import KernelHyper, distance_gradient, distance_gradient_of_scales, squared_distances
from .pairs import ArrayPairs, Four, first_gradients
from .rowwise import (
    Latent,
    contiguous,
    exponential_of_rows,
    first,
    loops,
    second,
    tilted_means,
    zeroth,
)

# Numbers of packed triangles that are worked on at a time, and rows for each thread.
BLOCK = 1 << 18
ROWS = 256


@dataclass(frozen=True, eq=False)
class Statistics:
    """ψ₀ (G,), ψ₁ (N, M), Σψ₂ (G, M, M), and Σψ₁ψ₁ᵀ (G, M, M), sums for each of G groups."""

    psi0: FloatArray
    psi1: FloatArray
    psi2: FloatArray
    outer: FloatArray


@dataclass(frozen=True, eq=False)
class Gradients:
    """Gradients of the means, the variances, the points and the parameters of the kernel."""

    mean: FloatArray
    variance: FloatArray
    Z: FloatArray
    hyper: FloatArray


# Which rows each group of columns has seen, (N, G); None where all of one group are there.
Seen: TypeAlias = FloatArray | None


def statistics(
    latent: Latent,
    Z: FloatArray,
    hyper: KernelHyper,
    seen: Seen = None,
    pairs: ArrayPairs | None = None,
) -> Statistics:
    """ψ statistics of all rows, summed for each group."""
    psi0 = zeroth(latent, hyper)
    if pairs is not None and seen is None and _is_plain(hyper):
        psi1 = pairs.first(latent.mean, latent.variance, Z, hyper.w)
    else:
        psi1 = first(latent, Z, hyper)
    if seen is not None:
        psi2, outer = _sums_by_group(latent, Z, hyper, psi1, seen)
        return Statistics(psi0 @ seen, psi1, psi2, outer)
    psi2 = _sum_of_all(latent, Z, hyper, pairs)
    return Statistics(np.array([psi0.sum()]), psi1, psi2[None], (psi1.T @ psi1)[None])


def gradients(
    latent: Latent,
    Z: FloatArray,
    hyper: KernelHyper,
    given: Statistics,
    at: Statistics,
    seen: Seen = None,
    pairs: ArrayPairs | None = None,
) -> Gradients:
    """Gradients of Σ given·statistics, where `given` holds the derivatives of what is summed.

    `at` are the statistics themselves. The derivative of Σψ₁ψ₁ᵀ is carried over to ψ₁ here.
    """
    found = _Sums.of(latent, Z, hyper)
    g1, psi1 = given.psi1.copy(), at.psi1
    if _is_plain(hyper):
        found.add_factor(-0.25 * (given.psi2 * at.psi2).sum(axis=0))
    if seen is None:
        g1 += 2 * psi1 @ given.outer[0]
        if _is_plain(hyper) and pairs is not None:
            found.add_elsewhere(latent, g1, given.psi2[0], pairs)
        elif _is_plain(hyper):
            found.add_exponential(latent, slice(None), _weights(given.psi2))
        else:
            g1 += found.add_total(latent, given.psi2[0])
        g0 = np.full(latent.shape[0], given.psi0[0])
    else:
        triangles, outers = packed(given.psi2), packed(given.outer)
        for rows in _blocks(latent.shape[0], len(Z)):
            R = unpacked(seen[rows] @ outers, len(Z))
            g1[rows] += 2 * np.einsum("nm,nmj->nj", psi1[rows], R)
            G = unpacked(seen[rows] @ triangles, len(Z))
            if _is_plain(hyper):
                found.add_exponential(latent.rows(rows), rows, _weights(G))
            else:
                g1[rows] += found.add_second(latent.rows(rows), rows, G)
        g0 = seen @ given.psi0
    if seen is not None or pairs is None or not _is_plain(hyper):
        found.add_first(latent, g1)
    found.add_zeroth(latent, g0)
    return found.finished()


def gradients_of_rows(
    latent: Latent,
    Z: FloatArray,
    hyper: KernelHyper,
    given: tuple[FloatArray, FloatArray, FloatArray],
) -> tuple[FloatArray, FloatArray]:
    """Gradients of means and variances, for derivatives of each row's own statistics: ψ₀ (N,),
    ψ₁ (N, M), and ψ₂ (N or 1, M, M).
    """
    g0, g1, G = given
    found = _Sums.of(latent, Z, hyper)
    if _is_plain(hyper):
        found.add_exponential(latent, slice(None), _weights(G))
        found.add_first(latent, g1)
    else:
        whole = np.broadcast_to(G, (len(g1), *G.shape[1:]))
        found.add_first(latent, g1 + found.add_second(latent, slice(None), whole))
    found.add_zeroth(latent, g0)
    return found.mean, found.variance


# --- sums over rows ----------------------------------------------------------------------------


def _is_plain(hyper: KernelHyper) -> bool:
    """Whether ψ₂ is that of the squared exponential alone."""
    return bool(hyper.w.size) and not hyper.v.size and not hyper.b.size


def _blocks(N: int, M: int) -> Iterator[slice]:
    step = max(BLOCK // (M * M), 1)
    return (slice(i, min(i + step, N)) for i in range(0, N, step))


def _sum_of_all(
    latent: Latent, Z: FloatArray, hyper: KernelHyper, pairs: ArrayPairs | None
) -> FloatArray:
    N, M = latent.shape[0], len(Z)
    if _is_plain(hyper) and pairs is not None:
        total = pairs.total(latent.mean, latent.variance, Z, hyper.w)
        return np.asarray(total * np.exp(-0.25 * squared_distances(Z, hyper.w)))
    if not _is_plain(hyper):
        return _sum_of_parts(latent, Z, hyper)

    def of_rows(rows: slice) -> FloatArray:
        total = np.zeros((M, M))
        loops().add_pairs(*contiguous(latent.rows(rows), Z), hyper.w, total)
        return total

    shares = [slice(i, min(i + ROWS, N)) for i in range(0, N, ROWS)]
    upper = sum(in_turn(of_rows, shares), np.zeros((M, M)))
    whole = upper + np.triu(upper, 1).T
    return np.asarray(whole * np.exp(-0.25 * squared_distances(Z, hyper.w)))


def _sum_of_parts(latent: Latent, Z: FloatArray, hyper: KernelHyper) -> FloatArray:
    """Σψ₂ of a sum of parts: all but the squared exponential are products of what rows sum up to,
    so that no row needs a matrix of its own.
    """
    found = np.zeros((len(Z), len(Z)))
    if hyper.w.size:
        found += _sum_of_all(latent, Z, _exponential_alone(hyper), None)
    if hyper.v.size:
        T = Z * hyper.v
        line = latent.mean @ T.T
        found += line.T @ line + (T * latent.variance.sum(axis=0)) @ T.T
        if hyper.w.size:
            cross = _total_tilted(latent, Z, hyper) @ T.T
            found += cross + cross.T
    if hyper.b.size:
        b = hyper.b[0]
        t = (first(latent, Z, hyper) - b).sum(axis=0)
        found += b * (t[:, None] + t + latent.shape[0] * b)
    return found


def _exponential_alone(hyper: KernelHyper) -> KernelHyper:
    return KernelHyper(hyper.w, *3 * (np.empty(0),))


def _shares(latent: Latent, w: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Tilted means are μ/(1 + wS) + z·wS/(1 + wS): the first term and the factor of z."""
    spread = 1 + w * latent.variance
    return latent.mean / spread, w * latent.variance / spread


def _total_tilted(latent: Latent, Z: FloatArray, hyper: KernelHyper) -> FloatArray:
    """Σ ψ₁·(tilted mean) over rows, ψ₁ that of the squared exponential: (M, Q)."""
    p, (own, pull) = exponential_of_rows(latent, Z, hyper.w), _shares(latent, hyper.w)
    return np.asarray(p.T @ own + Z * (p.T @ pull))


def _sums_by_group(
    latent: Latent, Z: FloatArray, hyper: KernelHyper, psi1: FloatArray, seen: FloatArray
) -> tuple[FloatArray, FloatArray]:
    G, M = seen.shape[1], len(Z)
    sums = np.zeros((2, G, M * (M + 1) // 2))
    for rows in _blocks(latent.shape[0], M):
        one = psi1[rows]
        sums[0] += seen[rows].T @ packed(second(latent.rows(rows), Z, hyper))
        sums[1] += seen[rows].T @ packed(one[:, :, None] * one[:, None, :])
    return unpacked(sums[0], M), unpacked(sums[1], M)


def _weights(G: FloatArray) -> FloatArray:
    """Packed derivatives of symmetric matrices; entries beside the diagonal count twice."""
    M = G.shape[-1]
    return np.ascontiguousarray(packed(2 * G - G * np.eye(M)))


@dataclass(frozen=True, eq=False)
class _Sums:
    """Gradients that are being summed up: `add_…` adds to the arrays in place."""

    points: FloatArray
    parameters: KernelHyper
    mean: FloatArray
    variance: FloatArray
    Z: FloatArray
    hyper: KernelHyper

    @classmethod
    def of(cls, latent: Latent, Z: FloatArray, hyper: KernelHyper) -> _Sums:
        zeros = np.zeros(latent.shape)
        return cls(Z, hyper, zeros, zeros.copy(), np.zeros_like(Z), KernelHyper.zeros_like(hyper))

    def finished(self) -> Gradients:
        return Gradients(self.mean, self.variance, self.Z, self.hyper.vector)

    def add_zeroth(self, latent: Latent, g0: FloatArray) -> None:
        if self.parameters.v.size:
            v, g = self.parameters.v, g0[:, None]
            self.mean[:] += 2 * g * latent.mean * v
            self.variance[:] += g * v
            self.hyper.v[:] += g0 @ (latent.mean**2 + latent.variance)
        if self.parameters.b.size:
            self.hyper.b[0] += g0.sum()
        if self.parameters.e.size:
            self.hyper.e[0] += g0.sum()

    def add_first(self, latent: Latent, g1: FloatArray) -> None:
        Z, hyper = self.points, self.parameters
        if hyper.w.size:
            self._add_first_exponential(latent, slice(None), g1)
        if hyper.v.size:
            self.mean[:] += (g1 @ Z) * hyper.v
            self.Z[:] += (g1.T @ latent.mean) * hyper.v
            self.hyper.v[:] += ((g1 @ Z) * latent.mean).sum(axis=0)
        if hyper.b.size:
            self.hyper.b[0] += g1.sum()

    def _add_first_exponential(self, latent: Latent, rows: slice, g1: FloatArray) -> None:
        parts = latent.mean, latent.variance, self.points, self.parameters.w
        self._add_four(rows, first_gradients(*parts, g1))

    def _add_four(self, rows: slice, found: Four[FloatArray]) -> None:
        """Gradients of means and variances of some rows, of points, and of scales."""
        self.mean[rows] += found[0]
        self.variance[rows] += found[1]
        self.Z[:] += found[2]
        self.hyper.w[:] += found[3]

    def add_exponential(self, latent: Latent, rows: slice, weights: FloatArray) -> None:
        """ψ₂ of the squared exponential, with packed derivatives of each row, or of all."""
        Z, w = self.points, self.parameters.w
        mu, S, points = contiguous(latent, Z)
        factor = packed(np.exp(-0.25 * squared_distances(Z, w)))
        gmu, gS, shared = np.zeros(mu.shape), np.zeros(mu.shape), len(weights) == 1
        scaled = weights * factor

        def of_rows(part: slice) -> tuple[FloatArray, FloatArray]:
            gZ, gw = np.zeros_like(Z), np.zeros_like(w)
            given = scaled if shared else scaled[part]
            at = gmu[part], gS[part], gZ, gw
            loops().add_gradients(mu[part], S[part], points, w, given, *at)
            return gZ, gw

        shares = [slice(i, min(i + ROWS, len(mu))) for i in range(0, len(mu), ROWS)]
        for gZ, gw in in_turn(of_rows, shares):
            self.Z[:] += gZ
            self.hyper.w[:] += gw
        self.mean[rows] += gmu
        self.variance[rows] += gS

    def add_elsewhere(
        self, latent: Latent, g1: FloatArray, G: FloatArray, pairs: ArrayPairs
    ) -> None:
        """ψ₁ and ψ₂ with one derivative of ψ₂ for all rows, where an accelerator has them."""
        Z, w = self.points, self.parameters.w
        factor = np.exp(-0.25 * squared_distances(Z, w))
        parts = latent.mean, latent.variance, Z, w
        self._add_four(slice(None), pairs.gradients(*parts, G * factor))
        self._add_four(slice(None), pairs.first_gradients(*parts, g1))

    def add_factor(self, g: FloatArray) -> None:
        """The factor exp(−¼ w(z − z')²) of all rows, with derivatives of the squared distances."""
        Z, w = self.points, self.parameters.w
        self.Z[:] += 2 * distance_gradient(Z, w, g)
        self.hyper.w[:] += distance_gradient_of_scales(Z, g)

    def add_total(self, latent: Latent, G: FloatArray) -> FloatArray:
        """Σψ₂ of a sum of parts, with one derivative for all rows: what it adds to those of ψ₁."""
        Z, hyper = self.points, self.parameters
        g1 = np.zeros((latent.shape[0], len(Z)))
        if hyper.w.size:
            self.add_exponential(latent, slice(None), _weights(G[None]))
            self.add_factor(-0.25 * G * _sum_of_all(latent, Z, _exponential_alone(hyper), None))
        if hyper.v.size:
            self._add_total_lines(latent, G)
            if hyper.w.size:
                self._add_total_cross(latent, G)
        if hyper.b.size:
            b, r = hyper.b[0], G.sum(axis=1)
            g1 += 2 * b * r
            self.hyper.b[0] += 2 * float(((first(latent, Z, hyper) - b) @ r).sum())
        return g1

    def _add_total_lines(self, latent: Latent, G: FloatArray) -> None:
        T = self.points * self.parameters.v
        along, GT = 2 * latent.mean @ T.T @ G, G @ T
        self.mean[:] += along @ T
        self.variance[:] += (T * GT).sum(axis=0)
        self._add_slopes(along.T @ latent.mean + 2 * GT * latent.variance.sum(axis=0))

    def _add_total_cross(self, latent: Latent, G: FloatArray) -> None:
        Z, w, v = self.points, self.parameters.w, self.parameters.v
        p, (own, pull) = exponential_of_rows(latent, Z, w), _shares(latent, w)
        GT = G @ (Z * v)
        self._add_slopes(2 * G @ _total_tilted(latent, Z, self.parameters))
        of_p = 2 * (own @ GT.T + pull @ (Z * GT).T)
        self._add_first_exponential(latent, slice(None), of_p)
        self._add_tilted(latent, slice(None), 2 * p @ GT, 2 * p @ (Z * GT))
        self.Z[:] += 2 * GT * (p.T @ pull)

    def add_second(self, latent: Latent, rows: slice, G: FloatArray) -> FloatArray:
        """ψ₂ of a sum of parts, with the derivatives of each row: what it adds to those of ψ₁."""
        Z, hyper = self.points, self.parameters
        g1 = np.zeros((len(G), len(Z)))
        if hyper.w.size:
            self.add_exponential(latent, rows, _weights(G))
            alone = second(latent, Z, _exponential_alone(hyper))
            self.add_factor(-0.25 * (G * alone).sum(axis=0))
        if hyper.v.size:
            self._add_lines(latent, rows, G)
            if hyper.w.size:
                self._add_cross(latent, rows, G)
        if hyper.b.size:
            b, r = hyper.b[0], G.sum(axis=2)
            t = first(latent, Z, hyper) - b
            g1 += 2 * b * r
            # ψ₁ has b in it as well, which must not be counted here.
            self.hyper.b[0] += 2 * float((t * r).sum()) + 2 * b * float(r.sum()) - float(g1.sum())
        return g1

    def _add_lines(self, latent: Latent, rows: slice, G: FloatArray) -> None:
        """(Tμ)(Tμ)ᵀ + T diag(S) Tᵀ with T = Z·v"""
        Z, v = self.points, self.parameters.v
        T = Z * v
        along = 2 * np.einsum("nmj,nj->nm", G, latent.mean @ T.T)
        GT = G @ T
        self.mean[rows] += along @ T
        self.variance[rows] += np.einsum("mq,nmq->nq", T, GT)
        gT = along.T @ latent.mean + 2 * np.einsum("nmq,nq->mq", GT, latent.variance)
        self._add_slopes(gT)

    def _add_cross(self, latent: Latent, rows: slice, G: FloatArray) -> None:
        """p_m x̂_m·T_j, both ways round, with x̂ the tilted means and p the ψ₁ of the exponential."""
        Z, w, v = self.points, self.parameters.w, self.parameters.v
        T, S = Z * v, latent.variance
        p = exponential_of_rows(latent, Z, w)
        x = tilted_means(latent, Z, self.parameters)
        GT = G @ T
        self._add_slopes(2 * np.einsum("nmj,nmq->jq", G, p[:, :, None] * x))
        self._add_first_exponential(latent, rows, 2 * (x * GT).sum(axis=2))
        gx = 2 * p[:, :, None] * GT
        self._add_tilted(latent, rows, gx.sum(axis=1), (gx * Z).sum(axis=1))
        self.Z[:] += np.einsum("nmq,nq->mq", gx, w * S / (1 + w * S))

    def _add_tilted(self, latent: Latent, rows: slice, total: FloatArray, at: FloatArray) -> None:
        """Tilted means x̂, with their derivatives summed over points: alone, and times z."""
        w, S = self.parameters.w, latent.variance
        spread = 1 + w * S
        self.mean[rows] += total / spread
        # ∂x̂/∂(wS) = (z − μ)/(1 + wS)²
        slope = (at - latent.mean * total) / spread**2
        self.variance[rows] += slope * w
        self.hyper.w[:] += (slope * S).sum(axis=0)

    def _add_slopes(self, gT: FloatArray) -> None:
        self.Z[:] += gT * self.parameters.v
        self.hyper.v[:] += (gT * self.points).sum(axis=0)
