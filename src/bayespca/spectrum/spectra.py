"""Many spectra side by side under EVB: the answers of `solve`, in a few calls for all of them.

Letters as in `closed_form`. With x = z + L + M + LM/z, both factors of a kept component have
variance s/γ in the balanced scale of `moments`, and the ratios of prior to posterior variances are

    cₐ²/σₐ² = 1 + z/M,    c_b²/σ_b² = 1 + z/L.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .closed_form import evb_thresholds, learned_edge, learned_strength
from .free_energy import evb_residual
from .records import FloatArray, Moments
from .tolerances import EPS, LOG_2PI, ROUNDING_ERRORS


@dataclass(frozen=True, eq=False)
class Spectra:
    """Squares of singular values of matrices with L features each.

    Attributes
    ----------
    L
        Number of features.
    M
        Number of samples of each matrix, which need not be whole; (K,).
    squares
        All squares that are not 0, in rows of equal length, decreasing; (K, P).
    caps
        The largest rank of each; (K,).
    least
        The smallest noise variance allowed; (K,).
    """

    L: int
    M: FloatArray
    squares: FloatArray
    caps: NDArray[np.intp]
    least: FloatArray

    @cached_property
    def g2(self) -> FloatArray:
        """Squares of those that may be kept, 0 for the others."""
        width = min(int(self.caps.max(initial=0)), self.squares.shape[1])
        return np.where(np.arange(width) < self.caps[:, None], self.squares[:, :width], 0.0)

    @cached_property
    def tails(self) -> FloatArray:
        """Sums of squares from the k-th on, k = 0, 1, …, added up from the small end."""
        width = self.g2.shape[1]
        sums = np.zeros((len(self.M), width + 1))
        sums[:, :width] = self.squares[:, :width]
        sums[:, width] = self.squares[:, width:].sum(axis=1)
        return np.cumsum(sums[:, ::-1], axis=1)[:, ::-1]

    @cached_property
    def sizes(self) -> tuple[FloatArray, FloatArray]:
        """L and M as columns."""
        return np.full((1, 1), float(self.L)), self.M[:, None]

    @cached_property
    def cells(self) -> FloatArray:
        return self.L * self.M

    @cached_property
    def thresholds(self) -> FloatArray:
        """x above which a component is kept."""
        return evb_thresholds(self.L, self.M)

    @cached_property
    def drop_noise(self) -> FloatArray:
        """The noise above which a component is dropped."""
        return self.g2 / self.thresholds[:, None]

    @cached_property
    def rounding(self) -> FloatArray:
        """The noise whose singular values are as small as rounding errors of the largest one."""
        largest = self.squares.max(axis=1, initial=0.0)
        return (ROUNDING_ERRORS * EPS / (np.sqrt(self.L) + np.sqrt(self.M))) ** 2 * largest


@dataclass(frozen=True, eq=False)
class EVBForms:
    """Closed forms of many spectra, each at its own noise variance.

    `x` and `z` of each spectrum count up to its rank; `free_energy` has all constants.
    `latent_cost` is ½Σ log(cₐ²/σₐ²), `loading_cost` is ½L·Σ log(c_b²/σ_b²).
    """

    spectra: Spectra
    noise: FloatArray
    rank: NDArray[np.intp]
    x: FloatArray
    z: FloatArray
    latent_cost: FloatArray
    loading_cost: FloatArray
    free_energy: FloatArray

    @cached_property
    def gamma(self) -> FloatArray:
        return np.sqrt(self.spectra.g2[:, : self.x.shape[1]])

    @property
    def threshold(self) -> FloatArray:
        """The singular value above which components are kept."""
        return np.sqrt(self.spectra.thresholds * self.noise)

    def of(self, i: int) -> EVBForm:
        """The closed form of one spectrum."""
        k = int(self.rank[i])
        return EVBForm(
            *(self.spectra.L, float(self.spectra.M[i]), float(self.noise[i])),
            *(self.gamma[i, :k], self.x[i, :k], self.z[i, :k]),
            *(float(self.latent_cost[i]), float(self.loading_cost[i])),
        )


@dataclass(frozen=True, eq=False)
class EVBForm:
    """Components that EVB keeps of one spectrum: singular values γ with their x and z."""

    L: int
    M: float
    noise: float
    gamma: FloatArray
    x: FloatArray
    z: FloatArray
    latent_cost: float
    loading_cost: float

    @cached_property
    def shrinkage(self) -> FloatArray:
        return self.z / self.x

    @property
    def score_variance(self) -> FloatArray:
        """⟨b⟩²σₐ²"""
        return self.noise * self.shrinkage

    @property
    def loading_variance(self) -> FloatArray:
        """σ_b²/⟨b⟩²"""
        return 1 / self.z

    @property
    def moments(self) -> Moments:
        mean, variance = np.sqrt(self.gamma * self.shrinkage), self.noise / self.gamma
        prior_a, prior_b = variance * (1 + self.z / self.M), variance * (1 + self.z / self.L)
        return Moments(mean, mean, variance, variance, prior_a, prior_b)


def closed_forms(spectra: Spectra, noise: FloatArray) -> EVBForms:
    """EVB's closed form of each spectrum at its noise variance."""
    (L, M), s = spectra.sizes, noise[:, None]
    rank = (spectra.drop_noise > s).sum(axis=1)
    kept = np.arange(int(rank.max(initial=0))) < rank[:, None]
    x = np.maximum(spectra.g2[:, : kept.shape[1]] / s, learned_edge(L, M, L, M))
    z = learned_strength(x, L, M, L, M)
    latent, loading = _paid(z, M, kept), spectra.L * _paid(z, L, kept)
    left = np.where(kept, evb_residual(z, L, M), 0.0).sum(axis=1)
    tail = spectra.tails[np.arange(len(rank)), rank]
    energy = spectra.cells * (LOG_2PI + np.log(noise)) + tail / noise + left
    F = 0.5 * energy + spectra.M * latent + loading
    return EVBForms(spectra, noise, rank, x, z, latent, loading, F)


def _paid(z: FloatArray, size: FloatArray, kept: NDArray[np.bool_]) -> FloatArray:
    """½Σ log(1 + z/size)"""
    return np.asarray(0.5 * np.where(kept, np.log1p(z / size), 0.0).sum(axis=1))
