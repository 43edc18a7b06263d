"""The bound on the evidence, with inducing variables, signal and noise variances optimised out.

Column d of the data is f_d(x) + mean + noise with f_d ~ GP(0, σ_f² k). Inducing variables at Z with
their best posterior leave (Titsias and Lawrence 2010, Eq. 14)

    F = Σ_d ½[ n log(2πσ²) + log|I + sA| + yᵀy/σ² − (s/σ²)·cᵀ(I + sA)⁻¹c + s·(ψ₀ − tr K⁻¹Ψ₂) ] + KL

with K = LLᵀ the covariance of Z, A = L⁻¹Ψ₂L⁻ᵀ, c = L⁻¹Ψ₁ᵀy and s = σ_f²/σ². Given s, the best σ² is
a quotient, so only s is searched for, one for each noise variance, and neither scale is part of the
descent. The ratio s can also be held, as the start does.

**The mean has a flat prior** and is integrated out: n observed cells of a column count as n − 1,
y is centred, and Ψ₂ becomes Ψ₂ − (Ψ₂ + tt' − Σψ₁ψ₁')/n with t = Σψ₁, the average of the centred
product. The trace ψ₀ − tr K⁻¹Ψ₂ is not centred: centring could only lower it, so the bound holds.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from bayespca.arrays.parallel import beside, one_blas_thread
from bayespca.arrays.types import Array, FloatArray, Index, Vector

from . import statistics
from .data import GPData
from .kernels import KernelHyper, Latent, covariance, covariance_gradients
from .statistics import Gradients, Statistics

# Added to the diagonal of K, in units of its mean; it grows if K has no Cholesky factor.
JITTER, MOST_JITTER = 1e-6, 1e-2
# Range of log s, the most steps of Newton's method, and the step that ends them.
LEAST_RATIO, MOST_RATIO = -12.0, 18.0
NEWTON, SMALL = 60, 1e-9
# Least share of yᵀy that is left unexplained.
LEAST_LEFT = 1e-12


class NotPositiveError(np.linalg.LinAlgError):
    """K has no Cholesky factor, even with the largest jitter."""


@dataclass(frozen=True, eq=False)
class Evaluated:
    """The bound at a state.

    Attributes
    ----------
    energy
        F, in nats.
    log_ratios
        log s of each noise variance.
    noise
        The noise variances σ².
    gradients
        Gradients of F at these ratios.
    jitter
        Share of the mean of K's diagonal that was added to the diagonal.
    """

    energy: float
    log_ratios: Vector
    noise: Vector
    gradients: Gradients
    jitter: float


@dataclass(frozen=True, eq=False)
class Solved:
    """The posterior of the inducing variables, as predictions need it.

    Attributes
    ----------
    inverse
        K⁻¹: (M, M).
    precise
        (K + sΨ₂)⁻¹ of each group, or of each column if ratios differ: (C, M, M).
    weights
        Means of K⁻¹u: (M, D).
    ratios, noise
        s and σ² of each column: (D,).
    """

    inverse: FloatArray
    precise: FloatArray
    weights: FloatArray
    ratios: FloatArray
    noise: FloatArray


def evaluate(
    latent: Latent,
    Z: FloatArray,
    hyper: KernelHyper,
    data: GPData,
    log_ratios: FloatArray,
    *,
    held: bool,
) -> Evaluated:
    """The free energy and its gradients; ratios start at `log_ratios`, or stay there if held."""
    parts = _Parts.of(latent, Z, hyper, data)
    ratios = log_ratios if held else best_ratios(parts.units, log_ratios)
    energy, noise = profile(parts.units, ratios)
    with beside(data.rows.values):
        found = parts.gradients(latent, hyper, ratios, noise)
    mean = found.mean + latent.mean
    spread = found.variance + 0.5 * (1 - 1 / latent.variance)
    whole = Gradients(mean, spread, found.Z, found.hyper)
    return Evaluated(float(energy.sum()) + latent.divergence, ratios, noise, whole, parts.jitter)


def energy_at(
    latent: Latent,
    Z: FloatArray,
    hyper: KernelHyper,
    data: GPData,
    log_ratios: FloatArray,
    held: bool,
) -> float:
    """The free energy alone."""
    units = _Parts.of(latent, Z, hyper, data).units
    ratios = log_ratios if held else best_ratios(units, log_ratios)
    return float(profile(units, ratios)[0].sum()) + latent.divergence


def solve(
    latent: Latent, Z: FloatArray, hyper: KernelHyper, data: GPData, log_ratios: FloatArray
) -> Solved:
    """The posterior of the inducing variables at given ratios."""
    parts = _Parts.of(latent, Z, hyper, data)
    _, noise = profile(parts.units, log_ratios)
    s, s2 = np.exp(log_ratios)[data.unit_of], noise[data.unit_of]
    E = parts.pulls(s)
    W, lam = parts.W, parts.lam
    if data.n_units == 1:
        inner = 1 / (1 + s[0] * lam)
    else:
        inner = 1 / (1 + s[:, None] * lam[data.group_of])
        W = W[data.group_of] if len(W) > 1 else W
    precise = (W * inner[:, None, :]) @ W.transpose(0, 2, 1)
    return Solved(parts.Ki, precise, s * E.T, s, s2)


# --- scales ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Units:
    """The quantities that determine the free energy of each noise variance.

    Attributes
    ----------
    count, squares
        Number of cells, less those lost to the means, and their sum of squares: (U,).
    lam, times
        Eigenvalues of A, and the number of columns with each: (U, I).
    pull
        Squares of c in the basis of the eigenvectors, summed over these columns: (U, I).
    trace
        ψ₀ − tr K⁻¹Ψ₂ summed over columns: (U,).
    """

    count: FloatArray
    squares: FloatArray
    lam: FloatArray
    times: FloatArray
    pull: FloatArray
    trace: FloatArray

    def left(self, s: FloatArray) -> FloatArray:
        """yᵀy − s cᵀ(I + sA)⁻¹c"""
        explained = s * (self.pull / (1 + s[:, None] * self.lam)).sum(axis=1)
        return np.maximum(self.squares - explained, LEAST_LEFT * self.squares + 1e-300)


def profile(units: Units, log_ratios: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The free energy of each noise variance at its best, without KL; and these variances."""
    s = np.exp(log_ratios)
    noise = units.left(s) / units.count
    logs = (units.times * np.log1p(s[:, None] * units.lam)).sum(axis=1)
    energy = 0.5 * (units.count * (np.log(2 * np.pi * noise) + 1) + logs + s * units.trace)
    return energy, noise


def best_ratios(units: Units, log_ratios: FloatArray) -> FloatArray:
    """log s at which the free energy is lowest, by Newton's method for all at once."""
    x = np.clip(log_ratios, LEAST_RATIO, MOST_RATIO)
    for _ in range(NEWTON):
        s = np.exp(x)
        sl, left = s[:, None] * units.lam, units.left(s)
        down = s * (units.pull / (1 + sl) ** 2).sum(axis=1) / left
        bent = s * (units.pull * (1 - sl) / (1 + sl) ** 3).sum(axis=1) / left
        slope = -units.count * down + (units.times * sl / (1 + sl)).sum(axis=1) + s * units.trace
        logs = (units.times * sl / (1 + sl) ** 2).sum(axis=1)
        curvature = logs - units.count * (bent + down**2) + s * units.trace
        step = np.where(curvature > 0, slope / np.maximum(curvature, 1e-300), np.sign(slope))
        new = np.clip(x - np.clip(step, -1.0, 1.0), LEAST_RATIO, MOST_RATIO)
        moved, x = float(np.abs(new - x).max()), new
        if moved < SMALL:
            break
    return x


# --- matrices ----------------------------------------------------------------------------------


def factored(K: FloatArray, *, smooth: bool = True) -> tuple[FloatArray, float]:
    """The Cholesky factor of K, and the share of its mean diagonal that was added to the diagonal.

    Kernels that are not smooth need none unless there are more points than basis functions.
    """
    size, jitter = float(np.trace(K)) / len(K), JITTER
    if not smooth:
        with suppress(np.linalg.LinAlgError):
            return np.asarray(np.linalg.cholesky(K)), 0.0
    while jitter <= MOST_JITTER:
        try:
            return np.asarray(np.linalg.cholesky(K + jitter * size * np.eye(len(K)))), jitter
        except np.linalg.LinAlgError:
            jitter *= 10
    raise NotPositiveError("the covariance of the inducing points has no Cholesky factor")


@dataclass(frozen=True, eq=False)
class _Parts:
    """Matrices of the bound; W = L⁻ᵀV has the eigenvectors V of A in its columns."""

    at: Statistics
    psi1: Array
    Z: FloatArray
    data: GPData
    jitter: float
    Ki: FloatArray
    W: FloatArray
    lam: FloatArray
    c: FloatArray
    units: Units

    @classmethod
    def of(cls, latent: Latent, Z: FloatArray, hyper: KernelHyper, data: GPData) -> _Parts:
        at, psi1 = statistics.statistics(latent, Z, hyper, data.rows)
        # For matrices this small, starting threads takes longer than the work.
        with one_blas_thread():
            L, jitter = factored(covariance(Z, hyper), smooth=bool(hyper.w.size))
            Li = solve_triangular(L, np.eye(len(L)), lower=True)
            psi2 = at.psi2
            if data.center:
                # Centred, because the means of the columns are integrated out.
                n, t = data.seen_in_group[:, None, None], at.sums
                psi2 = psi2 - (psi2 + t[:, :, None] * t[:, None, :] - at.outer) / n
            A = Li @ psi2 @ Li.T
            lam, V = np.linalg.eigh(0.5 * (A + A.transpose(0, 2, 1)))
            lam, W = np.maximum(lam, 0.0), Li.T @ V
            each = W[data.group_of] if len(W) > 1 else None
            c = at.pulled.T @ W[0] if each is None else np.einsum("dmi,md->di", each, at.pulled)
            trace = at.psi0 - np.einsum("ij,gij->g", Li.T @ Li, at.psi2)
            units = _units(lam, c, np.maximum(trace, 0.0), data)
            return cls(at, psi1, Z, data, jitter, Li.T @ Li, W, lam, c, units)

    def pulls(self, s: FloatArray) -> FloatArray:
        """(K + sΨ₂)⁻¹Ψ₁ᵀy of each column: (D, M)."""
        inner = self.c / (1 + s[:, None] * self.lam[self.data.group_of])
        if len(self.W) == 1:
            return inner @ self.W[0].T
        return np.einsum("dmi,di->dm", self.W[self.data.group_of], inner)

    def gradients(
        self, latent: Latent, hyper: KernelHyper, log_ratios: FloatArray, noise: FloatArray
    ) -> Gradients:
        data, at = self.data, self.at
        s, s2 = np.exp(log_ratios)[data.unit_of], noise[data.unit_of]
        E = self.pulls(s)
        G = len(self.lam)
        inner = 1 / (1 + s[:, None] * self.lam[data.group_of])
        shrunk = _by_group(s[:, None] * inner, data.group_of, G)
        plain = _by_group(inner, data.group_of, G)
        WT = self.W.transpose(0, 2, 1)
        # Σ s²/σ²·EEᵀ over the columns of each group.
        weighted = E * (s**2 / s2)[:, None]
        members = (data.group_of == g for g in range(G))
        squares = np.stack([weighted[of].T @ E[of] for of in members])
        gC = 0.5 * ((self.W * shrunk[:, None, :]) @ WT + squares)
        ratios = _by_group(s[:, None], data.group_of, G)[:, 0]
        # Derivatives with respect to Σψ₂, Σψ₁ψ₁ᵀ and Σψ₁, from that of the centred sum.
        g2, g_outer, g_sums = gC, np.zeros_like(gC), np.zeros_like(at.sums)
        if data.center:
            n = data.seen_in_group[:, None, None]
            g2, g_outer = gC * (1 - 1 / n), gC / n
            g_sums = -2 * np.einsum("gij,gj->gi", gC, at.sums) / n[:, 0]
        g2 = g2 - 0.5 * ratios[:, None, None] * self.Ki
        given = Statistics(0.5 * ratios, -(s / s2) * E.T, g_sums, g2, g_outer)
        found = statistics.gradients(latent, self.Z, hyper, given, (at, self.psi1), data.rows)
        gK = 0.5 * ((self.W * plain[:, None, :]) @ WT).sum(axis=0) - 0.5 * len(s) * self.Ki
        gK += 0.5 * (E * (s / s2)[:, None]).T @ E
        gK += 0.5 * self.Ki @ np.einsum("g,gij->ij", ratios, at.psi2) @ self.Ki
        # The jitter is a share of the mean of the diagonal, so it has a gradient too.
        gK[np.diag_indices_from(gK)] += np.trace(gK) * self.jitter / len(gK)
        gZ, g_hyper = covariance_gradients(self.Z, hyper, 0.5 * (gK + gK.T))
        return Gradients(found.mean, found.variance, found.Z + gZ, found.hyper + g_hyper)


def _by_group(values: FloatArray, group_of: Index, G: int) -> FloatArray:
    """Sums of rows (D, …) by their group: (G, …)."""
    if G == 1:
        return values.sum(axis=0, keepdims=True)
    found = np.zeros((G, *values.shape[1:]))
    np.add.at(found, group_of, values)
    return found


def _units(lam: FloatArray, c: FloatArray, trace: FloatArray, data: GPData) -> Units:
    group = data.group_of
    if data.n_units == 1:
        pull = _by_group(c**2, group, len(lam))
        sizes = np.bincount(group, minlength=len(lam)).astype(float)
        times = np.repeat(sizes, lam.shape[1])
        return Units(
            np.array([data.count.sum()]),
            np.array([data.squares.sum()]),
            lam.reshape(1, -1),
            times[None],
            pull.reshape(1, -1),
            np.array([sizes @ trace]),
        )
    lam = lam[group]
    return Units(data.count, data.squares, lam, np.ones_like(lam), c**2, trace[group])
