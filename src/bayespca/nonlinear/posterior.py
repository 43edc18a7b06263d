"""Results of a fitted GP-LVM: predictions at latent points.

Latent coordinates are in units in which every length scale is 1: in every direction, functions
change over a distance of about 1. The prior variances of the coordinates are the relevances.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular
from scipy.stats import norm, qmc

from bayespca.arrays.checks import check_moments, check_sizes
from bayespca.arrays.types import FloatArray, Index, Matrices, Matrix, Vector

from .bound import factored
from .kernels import (
    KernelHyper,
    Latent,
    between,
    covariance,
    first,
    second,
    slopes_between,
    zeroth,
)

# Directions of K whose variance is below this share of the noise carry nothing.
LEAST_SHARE = 1e-4
# Numbers in the matrices of a block of rows.
AT_ONCE = 1 << 22
# Fewest pairs of draws over which predictions of point-estimated models are averaged.
LEAST_PAIRS = 16


@dataclass(frozen=True, eq=False)
class GPPosterior:
    """Posterior of a GP-LVM with Q dimensions, M inducing points and D features.

    Attributes
    ----------
    mean, variance
        Latent points of the training rows: (N, Q) each.
    prior
        Prior variances of the dimensions, largest first: (Q,).
    Z
        Inducing points: (M, Q).
    w, v, b, e
        Parameters of the kernel; see `kernels.KernelHyper`.
    inverse
        K⁻¹ of the inducing points: (M, M).
    precise
        (K + sΨ₂)⁻¹, once or for each of several kinds of columns: (C, M, M).
    kind
        The kind of each column: (D,).
    weights
        Means of K⁻¹u: (M, D).
    centre
        Means of ψ₁ over the rows of each kind of column: (C, M).
    offset
        Means of the columns: (D,).
    signal, noise
        Variances of functions and of noise: (D,) each.
    mean_variance
        Variance of each mean: (D,).
    """

    mean: Matrix
    variance: Matrix
    prior: Vector
    Z: Matrix
    w: Vector
    v: Vector
    b: Vector
    e: Vector
    inverse: Matrix
    precise: Matrices
    kind: Vector
    weights: Matrix
    centre: Matrix
    offset: Vector
    signal: Vector
    noise: Vector
    mean_variance: Vector

    @property
    def hyper(self) -> KernelHyper:
        return KernelHyper(self.w, self.v, self.b, self.e)

    @property
    def latent(self) -> Latent:
        return Latent(self.mean, self.variance)

    @property
    def n_components(self) -> int:
        return int(self.prior.size)

    @property
    def n_features(self) -> int:
        return int(self.offset.size)

    @property
    def kinds(self) -> Index:
        return self.kind.astype(np.intp)

    @property
    def has_points(self) -> bool:
        """Whether latent points are estimates, without variances: method="map"."""
        return not self.variance.any()

    @cached_property
    def root(self) -> Matrix:
        """R with RRᵀ = K⁻¹, where K contains the noise if latent points are estimates: (M, R).

        k(x, x) − |Rᵀk|² keeps the digits that k(x, x) − kᵀK⁻¹k loses where functions vary far more
        than the noise: errors of Rᵀk are small beside k(x, x), but those of K⁻¹ grow with its
        condition number. So R is made from K, and not from `inverse`.
        """
        K = covariance(self.Z, self.hyper)
        if not self.has_points:
            L, _ = factored(K, smooth=bool(self.w.size))
            return np.asarray(solve_triangular(L, np.eye(len(L)), lower=True).T)
        size, U = np.linalg.eigh(K)
        varying = self.signal > 0
        noise = float((self.noise[varying] / self.signal[varying])[0])
        matters = size > LEAST_SHARE * noise
        return np.asarray(U[:, matters] / np.sqrt(size[matters] + noise))

    def check(self) -> None:
        """Raise ValueError unless the parts fit together."""
        (M, Q), D, C = self.Z.shape, self.n_features, len(self.precise)
        agree = self.mean.shape[1] == Q and self.variance.shape == self.mean.shape
        agree &= self.prior.shape == (Q,) and self.inverse.shape == (M, M)
        agree &= self.precise.shape == (C, M, M) and self.centre.shape == (C, M)
        agree &= self.weights.shape == (M, D)
        columns = (self.kind, self.signal, self.noise, self.mean_variance)
        agree &= all(one.shape == (D,) for one in columns)
        agree &= self.w.size in (0, Q) and self.v.size in (0, Q)
        check_sizes("a GPPosterior", agree and self.b.size < 2 and self.e.size < 2)
        positive = all((one > 0).all() for one in (self.prior, self.noise))
        moments = (self.mean, self.variance, self.prior, self.weights, self.noise, self.precise)
        check_moments("a GPPosterior", *moments, positive=positive)
        if D and not (0 <= self.kind.min() and self.kind.max() < C):
            raise ValueError("a column of a GPPosterior has an unknown kind")


# --- predictions -------------------------------------------------------------------------------


def predicted(found: GPPosterior, X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of the functions at known latent points: (N, D) each."""
    k = between(X, found.Z, found.hyper)
    certain = Latent(X, np.zeros_like(X))
    own = zeroth(certain, found.hyper) - np.square(k @ found.root).sum(axis=1)
    mean = np.empty((len(X), found.n_features))
    spread = np.empty_like(mean)
    for c in range(len(found.precise)):
        of = found.kinds == c
        apart = k - found.centre[c]
        mean[:, of] = found.offset[of] + apart @ found.weights[:, of]
        known = np.einsum("nm,nm->n", apart @ found.precise[c], apart)
        spread[:, of] = np.maximum(own + known, 0.0)[:, None] * found.signal[of]
    return mean, spread + found.mean_variance


def slopes(found: GPPosterior, X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Derivatives of what `predicted` gives where latent points are estimates: (N, Q, D) each."""
    k = between(X, found.Z, found.hyper)
    dk = slopes_between(X, found.Z, found.hyper)
    apart = k - found.centre[0]
    down = 2 * (apart @ found.precise[0] - (k @ found.root) @ found.root.T)
    spread = np.einsum("nqm,nm->nq", dk, down)
    if found.v.size:
        spread += 2 * found.v * X
    return dk @ found.weights, spread[:, :, None] * found.signal


def averaged(found: GPPosterior, latent: Latent) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of the functions at normally distributed latent points: (N, D) each."""
    if found.has_points:
        return _drawn(found, latent)
    mean, spread = np.empty((2, latent.shape[0], found.n_features))
    step = max(AT_ONCE // len(found.Z) ** 2, 1)
    for start in range(0, latent.shape[0], step):
        rows = slice(start, start + step)
        mean[rows], spread[rows] = _averaged(found, latent.rows(rows))
    return mean, spread


def _drawn(found: GPPosterior, latent: Latent) -> tuple[FloatArray, FloatArray]:
    """Averages over draws, which do not lose the digits that ψ statistics lose.

    Draws come in pairs with opposite signs and have unit variances, so straight lines and the
    variances that they cause are averaged exactly.
    """
    mean, square, spread = np.zeros((3, latent.shape[0], found.n_features))
    middle = predicted(found, latent.mean)[0]
    std = np.sqrt(latent.variance)
    draws = _unit_draws(found.n_components)
    for draw in draws:
        m, v = predicted(found, latent.mean + std * draw)
        mean += m - middle
        square += (m - middle) ** 2
        spread += v
    mean /= len(draws)
    return middle + mean, (square + spread) / len(draws) - mean**2


def _unit_draws(Q: int) -> FloatArray:
    """Quasi-random normal draws in pairs ±z, with unit covariance: (2P, Q).

    P is a power of 2, because those are Sobol's balanced sets, and at least 2Q, so that the
    covariance of the draws can be inverted.
    """
    pairs = max(LEAST_PAIRS, 1 << (2 * Q - 1).bit_length())
    uniform = qmc.Sobol(Q, rng=np.random.default_rng(0)).random(pairs)
    z = norm.ppf(np.clip(uniform, 1e-9, 1 - 1e-9))
    z = solve_triangular(np.linalg.cholesky(z.T @ z / pairs), z.T, lower=True).T
    return np.concatenate([z, -z])


def _averaged(found: GPPosterior, latent: Latent) -> tuple[FloatArray, FloatArray]:
    psi1, psi2 = first(latent, found.Z, found.hyper), second(latent, found.Z, found.hyper)
    own = zeroth(latent, found.hyper) - np.einsum("mj,nmj->n", found.inverse, psi2)
    around = psi2 - psi1[:, :, None] * psi1[:, None, :]
    mean = np.empty((len(psi1), found.n_features))
    spread = np.empty_like(mean)
    for c in range(len(found.precise)):
        of = found.kinds == c
        apart, A = psi1 - found.centre[c], found.weights[:, of]
        mean[:, of] = found.offset[of] + apart @ A
        known = np.einsum("mj,nmj->n", found.precise[c], around)
        known += np.einsum("nm,mj,nj->n", apart, found.precise[c], apart)
        spread[:, of] = np.maximum(own + known, 0.0)[:, None] * found.signal[of]
        spread[:, of] += np.maximum(np.einsum("md,nmj,jd->nd", A, around, A, optimize=True), 0.0)
    return mean, spread + found.mean_variance


def sampled(found: GPPosterior, n: int, rng: np.random.Generator) -> FloatArray:
    """New rows: a latent point from the prior, functions there, and noise."""
    X = rng.normal(size=(n, found.n_components)) * np.sqrt(found.prior)
    mean, spread = predicted(found, X)
    return mean + np.sqrt(spread + found.noise) * rng.normal(size=mean.shape)
