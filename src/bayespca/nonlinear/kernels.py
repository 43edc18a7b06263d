"""Covariance functions of the latent space: the parts of a kernel, their parameters, the covariance
of points, and averages over normal latent points, one row at a time (ψ; see `statistics`).

Variances are relative: the whole kernel is multiplied by the signal variance, which the bound finds
in closed form. The squared exponential has variance 1.

    squared-exponential   exp(−½ Σ w_q (x_q − x'_q)²)
    linear                Σ v_q x_q x'_q
    bias                  b
    white                 e, for a point with itself
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from bayespca.arrays.packing import unpacked
from bayespca.arrays.types import FloatArray, Index, Matrix

from .pairs import HOST, first_exponential

PARTS = ("squared-exponential", "linear", "bias", "white")
SHORT = {"se": "squared-exponential", "rbf": "squared-exponential"}
# Variances of bias and white noise at the start, relative to the squared exponential.
FIRST_BIAS, FIRST_WHITE = 0.1, 1e-3


class Kernel(str):
    """A sum of parts: its name, with "+" between them. Kernels can be added.

    >>> from bayespca.nonlinear.kernels import BIAS, SQUARED_EXPONENTIAL
    >>> SQUARED_EXPONENTIAL + BIAS
    'squared-exponential+bias'
    """

    __slots__ = ()

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.split("+"))

    def __add__(self, other: str) -> Kernel:
        both = (*self.parts, *other.split("+"))
        return Kernel("+".join(part for part in PARTS if part in both))


# Smooth functions with a length scale for each dimension; straight lines, which alone are
# probabilistic PCA; a constant; noise of the functions themselves, in addition to that of the data.
SQUARED_EXPONENTIAL, LINEAR, BIAS, WHITE = map(Kernel, PARTS)


def kernel_named(name: str) -> Kernel:
    """The kernel with a name like "squared-exponential+linear".

    Raises ValueError for unknown parts, and for sums that do not depend on the latent points.
    """
    given = [SHORT.get(part.strip(), part.strip()) for part in name.split("+")]
    unknown = [part for part in given if part not in PARTS]
    if unknown:
        raise ValueError(
            f"kernel={name!r} has the unknown part {unknown[0]!r}; known parts are "
            f"{', '.join(map(repr, PARTS))}, joined by '+'."
        )
    if not set(given) & {"squared-exponential", "linear"}:
        raise ValueError(
            f"kernel={name!r} does not depend on the latent points: add 'squared-exponential' or "
            "'linear'."
        )
    return Kernel("+".join(part for part in PARTS if part in given))


@dataclass(frozen=True, eq=False)
class KernelHyper:
    """Parameters of a kernel in Q dimensions; those of parts that it lacks are empty.

    Attributes
    ----------
    w
        Inverse squared length scales: (Q,).
    v
        Variances of slopes: (Q,).
    b, e
        Variances of bias and white noise: (1,).
    """

    w: FloatArray
    v: FloatArray
    b: FloatArray
    e: FloatArray

    @classmethod
    def zeros_like(cls, other: KernelHyper) -> Self:
        return cls(*(np.zeros_like(getattr(other, part.name)) for part in fields(cls)))

    @property
    def logs(self) -> FloatArray:
        """Logarithms of all parameters, as one vector."""
        return np.log(np.concatenate([self.w, self.v, self.b, self.e]))

    @property
    def vector(self) -> FloatArray:
        return np.concatenate([self.w, self.v, self.b, self.e])

    def with_logs(self, logs: FloatArray) -> KernelHyper:
        """Parameters of the same kernel with other logarithms."""
        sizes = [self.w.size, self.v.size, self.b.size]
        return KernelHyper(*np.split(np.exp(logs), np.cumsum(sizes)))

    def of_dimensions(self, kept: Index) -> KernelHyper:
        """Parameters of some dimensions, given by an index or a mask."""
        w = self.w[kept] if self.w.size else self.w
        v = self.v[kept] if self.v.size else self.v
        return KernelHyper(w, v, self.b, self.e)

    def scaled(self, factor: FloatArray) -> KernelHyper:
        """Parameters for latent points divided by `factor` in each dimension."""
        w = self.w * factor**2 if self.w.size else self.w
        v = self.v * factor**2 if self.v.size else self.v
        return KernelHyper(w, v, self.b, self.e)

    @property
    def relevance(self) -> FloatArray:
        """Rate at which the functions change along each dimension, w + v: (Q,)."""
        return np.asarray(sum(part for part in (self.w, self.v) if part.size))


def first_hyper(kernel: Kernel, relevance: FloatArray) -> KernelHyper:
    """Parameters at the start, with the given relevance of each dimension."""
    has = {part: part in kernel.parts for part in PARTS}
    none = np.empty(0)
    return KernelHyper(
        w=relevance.copy() if has["squared-exponential"] else none,
        v=relevance.copy() if has["linear"] else none,
        b=np.array([FIRST_BIAS]) if has["bias"] else none,
        e=np.array([FIRST_WHITE]) if has["white"] else none,
    )


def covariance(Z: FloatArray, hyper: KernelHyper) -> FloatArray:
    """The covariance of points with each other: (M, M)."""
    K = np.zeros((len(Z), len(Z)))
    if hyper.w.size:
        K += np.exp(-0.5 * squared_distances(Z, hyper.w))
    if hyper.v.size:
        K += (Z * hyper.v) @ Z.T
    if hyper.b.size:
        K += hyper.b[0]
    if hyper.e.size:
        K[np.diag_indices_from(K)] += hyper.e[0]
    return K


def covariance_gradients(
    Z: FloatArray, hyper: KernelHyper, gK: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Gradients of Σ gK·K, with a symmetric gK, with respect to the points and the parameters."""
    gZ = np.zeros_like(Z)
    found = KernelHyper.zeros_like(hyper)
    if hyper.w.size:
        part = -0.5 * gK * np.exp(-0.5 * squared_distances(Z, hyper.w))
        gZ += 2 * distance_gradient(Z, hyper.w, part)
        found.w[:] = distance_gradient_of_scales(Z, part)
    if hyper.v.size:
        gZ += 2 * (gK @ Z) * hyper.v
        found.v[:] = ((gK @ Z) * Z).sum(axis=0)
    if hyper.b.size:
        found.b[0] = gK.sum()
    if hyper.e.size:
        found.e[0] = np.trace(gK)
    return gZ, found.vector


def between(X: FloatArray, Z: FloatArray, hyper: KernelHyper) -> FloatArray:
    """The covariance of points with other points, without white noise: (N, M)."""
    K = np.zeros((len(X), len(Z)))
    if hyper.w.size:
        root = np.sqrt(hyper.w)
        A, B = X * root, Z * root
        squares = (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1) - 2 * A @ B.T
        K += np.exp(-0.5 * np.maximum(squares, 0.0))
    if hyper.v.size:
        K += (X * hyper.v) @ Z.T
    return K + (hyper.b[0] if hyper.b.size else 0.0)


def slopes_between(X: FloatArray, Z: FloatArray, hyper: KernelHyper) -> FloatArray:
    """Derivatives of `between` with respect to each coordinate of X: (N, Q, M)."""
    found = np.zeros((*X.shape, len(Z)))
    if hyper.w.size:
        smooth = KernelHyper(hyper.w, *(np.empty(0),) * 3)
        apart = Z.T - X[:, :, None]
        found += hyper.w[:, None] * apart * between(X, Z, smooth)[:, None, :]
    if hyper.v.size:
        found += hyper.v[:, None] * Z.T
    return found


def squared_distances(Z: FloatArray, w: FloatArray) -> FloatArray:
    """Σ w_q (z_q − z'_q)² of all pairs."""
    A = Z * np.sqrt(w)
    squares = (A**2).sum(axis=1)
    return np.maximum(squares[:, None] + squares - 2 * A @ A.T, 0.0)


def distance_gradient(Z: FloatArray, w: FloatArray, g: FloatArray) -> FloatArray:
    """Half of the gradient of Σ g·(squared distances) with respect to Z, for symmetric g."""
    return 2 * w * (g.sum(axis=1)[:, None] * Z - g @ Z)


def distance_gradient_of_scales(Z: FloatArray, g: FloatArray) -> FloatArray:
    """The gradient of Σ g·(squared distances) with respect to w, for symmetric g."""
    return 2 * (g.sum(axis=1) @ Z**2 - ((g @ Z) * Z).sum(axis=0))


# --- averages over normal latent points ----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Latent:
    """Normal latent points: means and variances, (N, Q) each."""

    mean: Matrix
    variance: Matrix

    def rows(self, which: slice | Index) -> Latent:
        return Latent(self.mean[which], self.variance[which])

    @property
    def shape(self) -> tuple[int, int]:
        return self.mean.shape[0], self.mean.shape[1]

    @property
    def divergence(self) -> float:
        """KL divergence of all points from N(0, I)."""
        squares = self.mean**2 + self.variance
        return 0.5 * float((squares - 1 - np.log(self.variance)).sum())


def zeroth(latent: Latent, hyper: KernelHyper) -> FloatArray:
    """ψ₀ of each row: (N,)."""
    found = np.full(latent.shape[0], 1.0 if hyper.w.size else 0.0)
    if hyper.v.size:
        found += (latent.mean**2 + latent.variance) @ hyper.v
    return found + hyper.b.sum() + hyper.e.sum()


def first(latent: Latent, Z: FloatArray, hyper: KernelHyper) -> FloatArray:
    """ψ₁ of each row: (N, M)."""
    found = np.zeros((latent.shape[0], len(Z)))
    if hyper.w.size:
        found += exponential_of_rows(latent, Z, hyper.w)
    if hyper.v.size:
        found += (latent.mean * hyper.v) @ Z.T
    return found + (hyper.b[0] if hyper.b.size else 0.0)


def second(latent: Latent, Z: FloatArray, hyper: KernelHyper) -> FloatArray:
    """ψ₂ of each row: (N, M, M)."""
    N, M = latent.shape[0], len(Z)
    found = np.zeros((N, M, M))
    if hyper.w.size:
        triangles = HOST.of_rows(latent.mean, latent.variance, Z, hyper.w)
        found += unpacked(triangles, M) * np.exp(-0.25 * squared_distances(Z, hyper.w))
    if hyper.v.size:
        T = Z * hyper.v
        line = latent.mean @ T.T
        found += line[:, :, None] * line[:, None, :]
        found += (T * latent.variance[:, None, :]) @ T.T
        if hyper.w.size:
            p = exponential_of_rows(latent, Z, hyper.w)
            cross = (p[:, :, None] * tilted_means(latent, Z, hyper)) @ T.T
            found += cross + cross.transpose(0, 2, 1)
    if hyper.b.size:
        b = hyper.b[0]
        t = first(latent, Z, hyper) - b
        found += b * (t[:, :, None] + t[:, None, :] + b)
    return found


def exponential_of_rows(latent: Latent, Z: FloatArray, w: FloatArray) -> FloatArray:
    """ψ₁ of the squared exponential: (N, M)."""
    return np.asarray(first_exponential(latent.mean, latent.variance, Z, w))


def tilted_means(latent: Latent, Z: FloatArray, hyper: KernelHyper) -> FloatArray:
    """Means of x under N(x; μ, S) times the squared exponential at z: (N, M, Q)."""
    wS = hyper.w * latent.variance
    return (latent.mean[:, None, :] + wS[:, None, :] * Z) / (1 + wS)[:, None, :]
