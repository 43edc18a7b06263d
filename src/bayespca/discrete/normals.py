"""Many normal distributions, one for each row of a factor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.packing import inverses, packed, triangle, unpacked
from bayespca.arrays.types import FloatArray, Numbers


@dataclass(frozen=True, eq=False)
class Normals:
    """Mean (n, H), packed covariance (n, H(H+1)/2) and log|Σ| (n,) of each row."""

    mean: FloatArray
    cov: FloatArray
    log_dets: FloatArray

    @property
    def matrices(self) -> FloatArray:
        """Unpacked covariances: (n, H, H)."""
        return np.asarray(unpacked(self.cov, self.mean.shape[1]))

    @property
    def squares(self) -> FloatArray:
        """⟨x²⟩ of each entry: (n, H)."""
        k, l = self._pairs
        return np.asarray(self.mean**2 + self.cov[:, k == l])

    @property
    def second(self) -> FloatArray:
        """Packed ⟨xxᵀ⟩ of each row."""
        k, l = self._pairs
        return np.asarray(self.mean[:, k] * self.mean[:, l] + self.cov)

    @property
    def second_with_one(self) -> FloatArray:
        """Packed ⟨x̃x̃ᵀ⟩ of each row, x̃ = (x, 1)."""
        n, H = self.mean.shape
        k, l = triangle(H + 1)
        wide = np.concatenate([self.mean, np.ones((n, 1))], axis=1)
        found = wide[:, k] * wide[:, l]
        found[:, l < H] += self.cov
        return found

    @property
    def _pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows and columns of packed entries."""
        return triangle(self.mean.shape[1])

    def energies(self, prior: FloatArray) -> FloatArray:
        """KL divergence of each row from N(0, diag(prior))."""
        of_prior = np.log(prior).sum() - prior.size
        return np.asarray(0.5 * (self.squares @ (1 / prior) + of_prior - self.log_dets))

    def __getitem__(self, which: Any) -> Normals:
        return Normals(self.mean[which], self.cov[which], self.log_dets[which])

    def but(self, which: Numbers, others: Normals) -> Normals:
        """The normals with some rows replaced by others."""
        mean, cov, log_dets = self.mean.copy(), self.cov.copy(), self.log_dets.copy()
        mean[which], cov[which], log_dets[which] = others.mean, others.cov, others.log_dets
        return Normals(mean, cov, log_dets)

    def changed(self, change: FloatArray) -> Normals:
        """The distributions of change·x."""
        cov = packed(_turned(_turned(self.matrices, change), change))
        log_det = 2 * float(np.linalg.slogdet(change)[1])
        return Normals(self.mean @ change.T, cov, self.log_dets + log_det)

    def only(self, entries: NDArray[np.intp]) -> Normals:
        """The distributions of some of the entries of each row."""
        matrices = self.matrices[:, entries[:, None], entries]
        return Normals(self.mean[:, entries], packed(matrices), np.linalg.slogdet(matrices)[1])

    def among(self, entries: NDArray[np.intp], width: int) -> Normals:
        """Distributions of `width` entries: these at `entries`, the others exactly 0.

        log|Σ| stays that of `entries`.
        """
        n = len(self.mean)
        mean, cov = np.zeros((n, width)), np.zeros((n, width, width))
        mean[:, entries], cov[:, entries[:, None], entries] = self.mean, self.matrices
        return Normals(mean, packed(cov), self.log_dets)

    def beside_zero(self, entry: int) -> Normals:
        """The distributions of the other entries given that one is 0."""
        rest = np.delete(np.arange(self.mean.shape[1]), entry)
        matrices = self.matrices
        variance, beside = matrices[:, entry, entry], matrices[:, rest, entry]
        slope = beside / variance[:, None]
        cov = matrices[:, rest[:, None], rest] - slope[:, :, None] * beside[:, None, :]
        mean = self.mean[:, rest] - slope * self.mean[:, entry, None]
        return Normals(mean, packed(cov), self.log_dets - np.log(variance))

    def with_another(self, entry: int, mean: FloatArray, variance: FloatArray) -> Normals:
        """The normals with one more entry at position `entry`, independent of the others."""
        cov = np.insert(np.insert(self.matrices, entry, 0.0, axis=1), entry, 0.0, axis=2)
        cov[:, entry, entry] = variance
        wide = np.insert(self.mean, entry, mean, axis=1)
        return Normals(wide, packed(cov), self.log_dets + np.log(variance))

    def halfway(self, other: Normals) -> Normals:
        """The normals whose natural parameters are halfway between these and others."""
        one, two = (np.asarray(np.linalg.inv(each.matrices)) for each in (self, other))
        pull = 0.5 * (_times(one, self.mean) + _times(two, other.mean))
        return from_precisions(0.5 * (one + two), pull)


def from_precisions(precisions: FloatArray, pull: FloatArray) -> Normals:
    """N(Σ·pull, Σ) of each row, with Σ⁻¹ in `precisions`."""
    cov, log_dets = inverses(precisions)
    return Normals(_times(cov, pull), packed(cov), log_dets)


def _turned(matrices: FloatArray, change: FloatArray) -> FloatArray:
    """change·Mᵀ of each matrix M, in one product."""
    n, rows, width = matrices.shape
    product = matrices.reshape(n * rows, width) @ change.T
    return np.swapaxes(product.reshape(n, rows, len(change)), 1, 2)


def _times(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    return np.einsum("nhk,nk->nh", matrices, vectors)
