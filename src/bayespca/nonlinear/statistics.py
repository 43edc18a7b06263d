"""ψ statistics: averages of a kernel over normal latent points, and their gradients.

Row n of the latent space is N(μₙ, diag Sₙ). With k(x, z) the kernel,

    ψ₀ₙ = ⟨k(xₙ, xₙ)⟩,   ψ₁ₙ = ⟨k(xₙ, z)⟩,   ψ₂ₙ = ⟨k(xₙ, z) k(xₙ, z)ᵀ⟩,

in closed form for the squared exponential (Titsias and Lawrence 2010, Sec. 3.2), the linear kernel,
a bias, white noise, and sums of them. ψ₂ is needed as a sum over rows, and with holes as one sum
for each group of columns with the same holes. It is used linearly throughout, so the mask times
packed triangles gives all sums at once. Of ψ₁, its product with the data, its sum and the sum of
its outer products are needed. So apart from the gradients of the latent points, no array with a row
for each row of the data leaves the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bayespca.arrays.namespaces import array_namespace, to_numpy
from bayespca.arrays.packing import packed, unpacked
from bayespca.arrays.types import Array, FloatArray

from .data import GPRows
from .kernels import (
    KernelHyper,
    Latent,
    distance_gradient,
    distance_gradient_of_scales,
    exponential_of_rows,
    first,
    second,
    squared_distances,
    tilted_means,
    zeroth,
)
from .pairs import HOST, Four, brought, first_exponential, first_gradients

# Numbers in the matrices of a block of rows.
BLOCK = 1 << 18


@dataclass(frozen=True, eq=False)
class Statistics:
    """Sums over rows, for each of G groups of columns; or derivatives with respect to them.

    Attributes
    ----------
    psi0
        Σψ₀: (G,).
    pulled
        Ψ₁ᵀY: (M, D).
    sums
        Σψ₁: (G, M).
    psi2
        Σψ₂: (G, M, M).
    outer
        Σψ₁ψ₁ᵀ: (G, M, M).
    """

    psi0: FloatArray
    pulled: FloatArray
    sums: FloatArray
    psi2: FloatArray
    outer: FloatArray


@dataclass(frozen=True, eq=False)
class Gradients:
    """Gradients with respect to means, variances, inducing points and kernel parameters."""

    mean: FloatArray
    variance: FloatArray
    Z: FloatArray
    hyper: FloatArray


def statistics(
    latent: Latent, Z: FloatArray, hyper: KernelHyper, rows: GPRows
) -> tuple[Statistics, Array]:
    """ψ statistics of all rows, summed for each group; and ψ₁ of each row, left on its device."""
    if _is_plain(hyper):
        parts = _there(latent, Z, hyper, rows)
        triangles = np.asarray(to_numpy(rows.pairs.total(*parts, rows.seen)))
        psi2 = unpacked(triangles, len(Z)) * np.exp(-0.25 * squared_distances(Z, hyper.w))
        psi1 = first_exponential(*parts)
    else:
        rows, psi1 = _on_host(rows), first(latent, Z, hyper)
        psi2 = _of_parts(latent, Z, hyper, rows.seen)
    psi0 = rows.pairs.moved(zeroth(latent, hyper)[:, None])
    if rows.seen is None:
        outer = (psi1.T @ psi1)[None, :, :]
    else:
        groups = (rows.seen[:, g : g + 1] for g in range(rows.seen.shape[1]))
        outer = array_namespace(psi1).stack([(psi1 * there).T @ psi1 for there in groups])
    made = (rows.sums_of(psi0)[:, 0], psi1.T @ rows.values, rows.sums_of(psi1), outer)
    here = [np.asarray(to_numpy(part)) for part in made]
    return Statistics(here[0], here[1], here[2], psi2, here[3]), psi1


def gradients(
    latent: Latent,
    Z: FloatArray,
    hyper: KernelHyper,
    given: Statistics,
    at: tuple[Statistics, Array],
    rows: GPRows,
) -> Gradients:
    """Gradients of a function of the statistics, `given` its derivatives with respect to them.

    `at` is the result of `statistics`.
    """
    found = _Sums.of(latent, Z, hyper)
    if _is_plain(hyper):
        found.add_factor(-0.25 * (given.psi2 * at[0].psi2).sum(axis=0))
        found.add_of_exponential(latent, given, at[1], rows)
    else:
        here = _on_host(rows)
        g1 = _of_first(given, at[1], here)
        found.add_first(latent, g1 + found.add_of_parts(latent, given.psi2, here.seen))
    each = np.asarray(to_numpy(rows.of_groups(rows.pairs.moved(given.psi0[:, None]))))
    found.add_zeroth(latent, np.broadcast_to(each[:, 0], latent.shape[:1]))
    return found.finished()


def weights_of_rows(Z: FloatArray, hyper: KernelHyper, G: FloatArray) -> FloatArray:
    """Derivatives by ψ₂ of each row or of all, (N or 1, M, M), in the form that `of_rows` takes."""
    if not _is_plain(hyper):
        return G
    return np.asarray(_weights(G) * packed(np.exp(-0.25 * squared_distances(Z, hyper.w))))


def of_rows(
    latent: Latent,
    Z: FloatArray,
    hyper: KernelHyper,
    given: tuple[FloatArray, FloatArray, FloatArray],
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Σ given·statistics of each row, (N,), and its gradients with respect to means and variances.

    `given` are derivatives by each row's own statistics: ψ₀ (N,), ψ₁ (N, M), and ψ₂ as
    `weights_of_rows` returns them.
    """
    g0, g1, G = given
    values = g0 * zeroth(latent, hyper)
    found = _Sums.of(latent, Z, hyper)
    found.add_zeroth(latent, g0)
    if _is_plain(hyper):
        parts = latent.mean, latent.variance, Z, hyper.w
        H = g1 * first_exponential(*parts)
        of_first, (second_values, gmu, gS) = first_gradients(*parts, H), HOST.each_row(*parts, G)
        mean, variance = of_first[0] + gmu, of_first[1] + gS
        return values + H.sum(axis=1) + second_values, found.mean + mean, found.variance + variance
    whole = np.broadcast_to(G, (len(g1), *G.shape[1:]))
    values += (g1 * first(latent, Z, hyper)).sum(axis=1)
    values += np.einsum("nij,nij->n", whole, second(latent, Z, hyper))
    found.add_first(latent, g1 + found.add_second(latent, slice(None), whole))
    return values, found.mean, found.variance


# --- sums over rows ----------------------------------------------------------------------------


def _is_plain(hyper: KernelHyper) -> bool:
    """Whether ψ₂ is that of the squared exponential alone."""
    return bool(hyper.w.size) and not hyper.v.size and not hyper.b.size


def _blocks(N: int, M: int) -> Iterator[slice]:
    step = max(BLOCK // (M * M), 1)
    return (slice(i, min(i + step, N)) for i in range(0, N, step))


def _on_host(rows: GPRows) -> GPRows:
    seen = None if rows.seen is None else np.asarray(to_numpy(rows.seen))
    return GPRows(np.asarray(to_numpy(rows.values)), seen)


def _there(latent: Latent, Z: FloatArray, hyper: KernelHyper, rows: GPRows) -> Four[Array]:
    move = rows.pairs.moved
    return move(latent.mean), move(latent.variance), move(Z), move(hyper.w)


def _of_first(given: Statistics, psi1: Array, rows: GPRows) -> Array:
    """Derivatives by ψ₁ of each row: (N, M)."""
    move = rows.pairs.moved
    found = rows.values @ move(given.pulled.T) + rows.of_groups(move(given.sums))
    for g, outer in enumerate(given.outer):
        pulled = 2.0 * (psi1 @ move(outer))
        found = found + (pulled if rows.seen is None else pulled * rows.seen[:, g : g + 1])
    return found


def _of_parts(
    latent: Latent, Z: FloatArray, hyper: KernelHyper, seen: FloatArray | None
) -> FloatArray:
    """Σψ₂ of a sum of parts: (G, M, M)."""
    if seen is not None:
        sums = np.zeros((seen.shape[1], len(Z) * (len(Z) + 1) // 2))
        for some in _blocks(latent.shape[0], len(Z)):
            sums += seen[some].T @ packed(second(latent.rows(some), Z, hyper))
        return np.asarray(unpacked(sums, len(Z)))
    # Without holes all parts but the squared exponential are products of sums over rows, so that no
    # row needs its own matrix.
    found = np.zeros((len(Z), len(Z)))
    if hyper.w.size:
        found += _sum_of_exponentials(latent, Z, hyper.w)
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
    return found[None]


def _sum_of_exponentials(latent: Latent, Z: FloatArray, w: FloatArray) -> FloatArray:
    """Σψ₂ of the squared exponential on the host: (M, M)."""
    total = HOST.total(latent.mean, latent.variance, Z, w)
    return np.asarray(unpacked(total, len(Z))[0] * np.exp(-0.25 * squared_distances(Z, w)))


def _shares(latent: Latent, w: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The first term of the tilted means μ/(1 + wS) + z·wS/(1 + wS), and the factor of z."""
    spread = 1 + w * latent.variance
    return latent.mean / spread, w * latent.variance / spread


def _total_tilted(latent: Latent, Z: FloatArray, hyper: KernelHyper) -> FloatArray:
    """Σ ψ₁·(tilted mean) over rows, with ψ₁ of the squared exponential: (M, Q)."""
    p, (own, pull) = exponential_of_rows(latent, Z, hyper.w), _shares(latent, hyper.w)
    return np.asarray(p.T @ own + Z * (p.T @ pull))


def _weights(G: FloatArray) -> FloatArray:
    """Packed derivatives by symmetric matrices; off-diagonal entries count twice."""
    M = G.shape[-1]
    return np.ascontiguousarray(packed(2 * G - G * np.eye(M)))


@dataclass(frozen=True, eq=False)
class _Sums:
    """Running sums of gradients; methods `add_…` add gradients to the arrays in place."""

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
        self._add_four(rows, first_gradients(*parts, g1 * first_exponential(*parts)))

    def _add_four(self, rows: slice, found: Four[FloatArray]) -> None:
        """Add gradients by the means and variances of some rows, by points, and by scales."""
        self.mean[rows] += found[0]
        self.variance[rows] += found[1]
        self.Z[:] += found[2]
        self.hyper.w[:] += found[3]

    def add_exponential(self, latent: Latent, rows: slice, weights: FloatArray) -> None:
        """Add gradients of the squared exponential's ψ₂; packed `weights` of each row or of all."""
        Z, w = self.points, self.parameters.w
        scaled = weights * packed(np.exp(-0.25 * squared_distances(Z, w)))
        self._add_four(rows, HOST.gradients(latent.mean, latent.variance, Z, w, scaled))

    def add_of_exponential(
        self, latent: Latent, given: Statistics, psi1: Array, rows: GPRows
    ) -> None:
        """Add gradients of all statistics of the squared exponential alone, on any device."""
        Z, hyper = self.points, self.parameters
        parts = _there(latent, Z, hyper, rows)
        factor = packed(np.exp(-0.25 * squared_distances(Z, hyper.w)))
        weights = rows.pairs.moved(_weights(given.psi2) * factor)
        of_first = first_gradients(*parts, _of_first(given, psi1, rows) * psi1)
        of_second = rows.pairs.gradients(*parts, weights, rows.seen)
        whole = [one + other for one, other in zip(of_first, of_second, strict=True)]
        self._add_four(slice(None), brought((whole[0], whole[1], whole[2], whole[3])))

    def add_of_parts(self, latent: Latent, G: FloatArray, seen: FloatArray | None) -> FloatArray:
        """Add gradients of Σψ₂ of a sum of parts, given derivatives by group.

        Return the part that goes through ψ₁, to be added to the derivatives by ψ₁.
        """
        if seen is None:
            return self.add_total(latent, G[0])
        g1, triangles = np.zeros((latent.shape[0], len(self.points))), packed(G)
        for some in _blocks(*g1.shape):
            of_rows = unpacked(seen[some] @ triangles, g1.shape[1])
            g1[some] = self.add_second(latent.rows(some), some, of_rows)
        return g1

    def add_factor(self, g: FloatArray) -> None:
        """Add gradients of exp(−¼ w(z − z')²), given derivatives by the squared distances."""
        Z, w = self.points, self.parameters.w
        self.Z[:] += 2 * distance_gradient(Z, w, g)
        self.hyper.w[:] += distance_gradient_of_scales(Z, g)

    def add_total(self, latent: Latent, G: FloatArray) -> FloatArray:
        """`add_of_parts` with one derivative for all rows."""
        Z, hyper = self.points, self.parameters
        g1 = np.zeros((latent.shape[0], len(Z)))
        if hyper.w.size:
            self.add_exponential(latent, slice(None), _weights(G[None]))
            self.add_factor(-0.25 * G * _sum_of_exponentials(latent, Z, hyper.w))
        if hyper.v.size:
            T = Z * hyper.v
            along, GT = 2 * latent.mean @ T.T @ G, G @ T
            self.mean[:] += along @ T
            self.variance[:] += (T * GT).sum(axis=0)
            self._add_slopes(along.T @ latent.mean + 2 * GT * latent.variance.sum(axis=0))
            if hyper.w.size:
                self._add_total_cross(latent, G)
        if hyper.b.size:
            b, r = hyper.b[0], G.sum(axis=1)
            g1 += 2 * b * r
            self.hyper.b[0] += 2 * float(((first(latent, Z, hyper) - b) @ r).sum())
        return g1

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
        """`add_of_parts` with a derivative for each row."""
        Z, hyper = self.points, self.parameters
        g1 = np.zeros((len(G), len(Z)))
        if hyper.w.size:
            self.add_exponential(latent, rows, _weights(G))
            alone = second(latent, Z, KernelHyper(hyper.w, *3 * (np.empty(0),)))
            self.add_factor(-0.25 * (G * alone).sum(axis=0))
        if hyper.v.size:
            # Gradients of (Tμ)(Tμ)ᵀ + T diag(S) Tᵀ with T = Z·v.
            T = Z * hyper.v
            along = 2 * np.einsum("nmj,nj->nm", G, latent.mean @ T.T)
            GT = G @ T
            self.mean[rows] += along @ T
            self.variance[rows] += np.einsum("mq,nmq->nq", T, GT)
            spread = np.einsum("nmq,nq->mq", GT, latent.variance)
            self._add_slopes(along.T @ latent.mean + 2 * spread)
            if hyper.w.size:
                self._add_cross(latent, rows, G)
        if hyper.b.size:
            b, r = hyper.b[0], G.sum(axis=2)
            t = first(latent, Z, hyper) - b
            g1 += 2 * b * r
            # ψ₁ contains b too; `add_first` counts that part, so it is subtracted here.
            self.hyper.b[0] += 2 * float((t * r).sum()) + 2 * b * float(r.sum()) - float(g1.sum())
        return g1

    def _add_cross(self, latent: Latent, rows: slice, G: FloatArray) -> None:
        """Add gradients of p_m x̂_m·T_j and its transpose, with tilted means x̂.

        p is ψ₁ of the squared exponential.
        """
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
        """Add gradients of tilted means x̂, given derivatives summed over points: alone and ·z."""
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
