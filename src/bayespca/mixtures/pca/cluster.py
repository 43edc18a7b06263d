"""One cluster: its parameters, the Gaussian it expects of a row, and the cost of its rows.

Row n belongs to cluster k with probability rₙ (the letter k is left out here). Given that it does,
xₙ = μ + B aₙ + noise, and the posterior is r(B)·Πₙ r(aₙ). Row n adds its expected log-likelihood
and the divergence of aₙ from its prior, both rₙ times, so that the cluster's free energy is

    F = Σₙ rₙ [⟨−log p(xₙ | μ, B, aₙ)⟩ + KL(aₙ)] + KL(B).

All aₙ have the same covariance Σ_a; the rest of F depends only on the rows √rₙ(xₙ − μ) and √rₙ⟨aₙ⟩.
That is aistats2014 Eq. 16 and 17 for these rows, with N = Σ rₙ in place of M where Σ_a is counted.
One row of the N goes to the mean, as everywhere in this package: M = N − 1. So `spectrum.solve` of
the singular values of √rₙ(xₙ − x̄) gives the minimum over everything else: rank, noise, shrinkage
and prior variances.

Conversely, given all that, F is linear in r. With the best r(aₙ), a row costs

    ℓ(x) = ½[p log 2πσ² + (‖d‖² − Σₕ shrinkageₕ·tₕ²)/σ² + Σₕ log(cₐₕ²/σₐₕ²)],  d = x − μ, t = Wd,

which is −log of a Gaussian density with variance σ²/(1 − shrinkageₕ) along wₕ, plus a constant.
That Gaussian integrates holes out exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.lowrank.posterior import Posterior
from bayespca.lowrank.records import OfComponents
from bayespca.spectrum.methods import METHODS
from bayespca.spectrum.records import Solution, Spectrum
from bayespca.spectrum.solving import solve
from bayespca.spectrum.tolerances import EPS

from .gaussian import Gaussian

# Most noise of a feature, as a multiple of its least noise, which is a millionth of its variance.
WIDEST = 1e8


@dataclass(frozen=True, eq=False)
class Cluster(OfComponents):
    """A cluster at unit scale.

    Attributes
    ----------
    count
        N: the number of its rows, Σ rₙ.
    posterior
        Mean, directions and the moments of everything else.
    latent_cost
        ½Σ log(cₐ²/σₐ²): the cost of a row's scores.
    loading_cost
        KL(B) = ½p·Σ log(c_b²/σ_b²); 0 where B is point-estimated.
    """

    count: float
    posterior: Posterior
    latent_cost: float
    loading_cost: float

    @property
    def noise(self) -> float:
        return self.posterior.noise_variance

    @property
    def mean_noise(self) -> float:
        """The noise variance; the mean over the features if they differ."""
        return self.noise * float(np.mean(self.posterior.scale**2))

    @cached_property
    def gaussian(self) -> Gaussian:
        """The Gaussian rows are compared with: variance σ²/(1 − shrinkage) along each direction."""
        return compared(self.posterior)

    @cached_property
    def surplus(self) -> float:
        """ℓ(x) + log of that Gaussian's density, the same for every row."""
        return self.latent_cost - 0.5 * self.gaussian.log_determinant

    @property
    def first_row(self) -> float:
        """The part of ℓ that is the same for every row; F omits it for the row lost to the mean."""
        return 0.5 * float(self.gaussian.log_noises.sum()) + self.latent_cost

    @property
    def fixed_cost(self) -> float:
        """The part of F that does not depend on the number of rows."""
        return self.loading_cost - self.first_row


def compared(posterior: Posterior) -> Gaussian:
    """The Gaussian with variance σ²/(1 − shrinkage) along each direction."""
    s, shrinkage = posterior.noise_variance, posterior.shrinkage
    # Where there is hardly any noise, 1 − shrinkage rounds to 0.
    spread = s * shrinkage / np.maximum(1 - shrinkage, EPS)
    return Gaussian(posterior.mean, posterior.scale, posterior.components, spread, s)


@dataclass(frozen=True, eq=False)
class ClusterPlan:
    """The settings for solving a cluster's spectrum.

    `max_rank` is the largest rank, or the rank itself where the method needs one; the shape may
    limit it further. `least_noise` is a number where all features share one noise, else an array
    with one entry for each.
    """

    method: str
    max_rank: int | None
    least_noise: float | FloatArray

    @property
    def fewest(self) -> float:
        """Number of rows that a cluster needs to be estimated; with fewer it stays as it is.

        The mean and the noise need one each; a given rank needs as many more. A learned rank is 0
        with fewer.
        """
        return 2.0 + (self.max_rank or 0) * (METHODS[self.method].needs_rank)

    @property
    def is_per_feature(self) -> bool:
        return isinstance(self.least_noise, np.ndarray)

    def within(self, noise: FloatArray) -> FloatArray:
        """Noise of features, clipped. If a cluster has no cell of a feature, its mean may be
        anywhere, and nothing else limits its noise.
        """
        return np.asarray(np.clip(noise, self.least_noise, WIDEST * self.least_noise))

    @property
    def is_evb(self) -> bool:
        """Whether the method is EVB, whose closed forms are computed for all clusters at once."""
        return self.method == "evb"

    def solve(self, spectrum: Spectrum) -> Solution:
        """The closed form of any method. The noise variance is learned if all features share it,
        else it is 1.
        """
        least = self.least_noise if isinstance(self.least_noise, float) else 0.0
        return solve(
            spectrum,
            self.method,
            max_rank=self.cap(spectrum.full_rank),
            noise_variance=1.0 if self.is_per_feature else "auto",
            least_noise=least,
            other_ranks=False,
        )

    def cap(self, full: int) -> int:
        """The largest rank to consider for a matrix of full rank `full`."""
        return full if self.max_rank is None else min(self.max_rank, full)


def spherical(mean: FloatArray, scale: FloatArray, noise: float, count: float) -> Cluster:
    """A cluster without components."""
    none, no_directions = np.zeros(0), np.zeros((0, mean.size))
    posterior = Posterior(mean, scale, no_directions, none, none, none, none, noise)
    return Cluster(count, posterior, 0.0, 0.0)
