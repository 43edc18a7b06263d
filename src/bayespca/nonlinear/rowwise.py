"""ψ statistics of single rows of the latent space; see `statistics`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayespca.arrays.packing import unpacked
from bayespca.arrays.types import FloatArray, Index, Matrix

from .kernels import KernelHyper, squared_distances
from .pairs import HOST, first_exponential


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
            tilted = exponential_of_rows(latent, Z, hyper.w)[:, :, None] * tilted_means(
                latent, Z, hyper
            )
            cross = tilted @ T.T
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
