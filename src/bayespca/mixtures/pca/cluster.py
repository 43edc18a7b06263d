"""One cluster: the closed form on its weighted spectrum, and what it expects of a row.

Row n belongs to cluster k with probability rₙ (the letter k is left out here). Given that it does,
xₙ = μ + B aₙ + noise, and the posterior is r(B)·Πₙ r(aₙ). Row n brings its expected log-likelihood
and the divergence of aₙ from its prior, both rₙ times, so that the cluster's free energy is

    F = Σₙ rₙ [⟨−log p(xₙ | μ, B, aₙ)⟩ + KL(aₙ)] + KL(B).

All aₙ have the same covariance Σ_a; the rest of F depends on the rows √rₙ(xₙ − μ) and √rₙ⟨aₙ⟩ only.
That is aistats2014 Eq. 16 and 17 for these rows, with N = Σ rₙ in the place of M where Σ_a is
counted. One row of the N goes to the mean, as everywhere in this package: M = N − 1. So
`spectrum.solve` of the singular values of √rₙ(xₙ − x̄) is the minimum over everything else: rank,
noise, shrinkage and prior variances.

Backwards, given all that, F is linear in r. With the best r(aₙ), a row costs

    ℓ(x) = ½[p log 2πσ² + (‖d‖² − Σₕ shrinkageₕ·tₕ²)/σ² + Σₕ log(cₐₕ²/σₐₕ²)],  d = x − μ, t = Wd,

which is −log of a Gaussian density with variance σ²/(1 − shrinkageₕ) along wₕ, and a constant more.
Holes are integrated out with that Gaussian, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayespca.arrays.signs import fixed_signs
from bayespca.arrays.types import FloatArray
from bayespca.engines.gram import solved
from bayespca.lowrank.posterior import Posterior, from_solution
from bayespca.lowrank.records import OfComponents
from bayespca.spectrum.methods import METHODS
from bayespca.spectrum.records import Solution, Spectrum
from bayespca.spectrum.solving import solve
from bayespca.spectrum.tolerances import EPS

from .data import MixtureRows
from .feature_noise import best_noise
from .gaussian import ExpectedRows, Gaussian, expected


@dataclass(frozen=True, eq=False)
class Cluster(OfComponents):
    """A cluster at unit scale.

    Attributes
    ----------
    count
        N: how many rows it has.
    posterior
        Mean, directions and the moments of everything else.
    latent_cost
        ½Σ log(cₐ²/σₐ²): what a row pays for its scores.
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
        """Over the features, where they differ."""
        return self.noise * float(np.mean(self.posterior.scale**2))

    @cached_property
    def gaussian(self) -> Gaussian:
        """What a row is compared with: variance σ²/(1 − shrinkage) along each direction."""
        return compared(self.posterior)

    @property
    def surplus(self) -> float:
        """ℓ(x) + log of that Gaussian's density, the same for every row."""
        return self.latent_cost - 0.5 * self.gaussian.log_determinant

    @property
    def first_row(self) -> float:
        """What is the same for every row, and does not count for the one that goes to the mean."""
        return 0.5 * float(self.gaussian.log_noises.sum()) + self.latent_cost

    @property
    def fixed_cost(self) -> float:
        """The part of F that does not depend on how many rows there are."""
        return self.loading_cost - self.first_row


def compared(posterior: Posterior) -> Gaussian:
    """The Gaussian with variance σ²/(1 − shrinkage) along each direction."""
    s, shrinkage = posterior.noise_variance, posterior.shrinkage
    # Where there is hardly any noise, nothing is shrunk.
    spread = s * shrinkage / np.maximum(1 - shrinkage, EPS)
    return Gaussian(posterior.mean, posterior.scale, posterior.components, spread, s)


@dataclass(frozen=True)
class Update:
    """A cluster after its update, its free energy, and the entropy of the holes in its rows."""

    cluster: Cluster
    free_energy: float
    entropy: float = 0.0


@dataclass(frozen=True, eq=False)
class ClusterPlan:
    """What to make of a cluster's spectrum.

    `max_rank` is the largest rank, or the rank itself where the method needs one; it yields to what
    the shape allows. `least_noise` is a number where the noise is the same for all features, else
    one for each.
    """

    method: str
    max_rank: int | None
    least_noise: float | FloatArray

    @property
    def fewest(self) -> float:
        """The rows from which a cluster can be told; with fewer it is left as it is.

        One goes to the mean. Ranks that are given need as many rows, and one for the noise; a rank
        that is found is 0 below that.
        """
        return 2.0 + (self.max_rank or 0) * (METHODS[self.method].needs_rank)

    @property
    def is_per_feature(self) -> bool:
        return isinstance(self.least_noise, np.ndarray)

    def solve(self, spectrum: Spectrum) -> Solution:
        cap = None if self.max_rank is None else min(self.max_rank, spectrum.full_rank)
        if not isinstance(self.least_noise, float):
            return solve(spectrum, self.method, max_rank=cap, noise_variance=1.0)
        return solve(
            spectrum,
            self.method,
            max_rank=cap,
            least_noise=self.least_noise,
            other_ranks=False,
        )


def spherical(mean: FloatArray, scale: FloatArray, noise: float, count: float) -> Cluster:
    """A cluster without components."""
    none, no_directions = np.zeros(0), np.zeros((0, mean.size))
    posterior = Posterior(mean, scale, no_directions, none, none, none, none, noise)
    return Cluster(count, posterior, 0.0, 0.0)


def updated(rows: MixtureRows, before: Cluster | None, plan: ClusterPlan) -> Update:
    """The closed form on rows that count by their weights; holes are expected as `before`.

    Where each feature has its own noise, the closed form is that of data divided by its root, in
    turns with that noise, as in `linear.per_feature`.
    """
    found = ExpectedRows(rows.values, 0.0, 0.0)
    if before is not None:
        found = expected(before.gaussian, rows)
    moments = _moments(rows, found)
    if not plan.is_per_feature:
        decomposed = _decomposed(moments, np.ones(moments.mean.size), plan)
        return _update(decomposed, moments, found.entropy)
    if before is None:
        return _update(_decomposed(moments, _first_scale(moments, plan), plan), moments, 0.0)
    decomposed = _decomposed(moments, before.posterior.scale, plan)
    decomposed = _decomposed(moments, _best_scale(decomposed, moments, plan), plan)
    return _update(decomposed, moments, found.entropy)


@dataclass(frozen=True, eq=False)
class _Moments:
    """Weighted moments: √rₙ(xₙ − x̄), and what the uncertainty of holes adds to their products."""

    mean: FloatArray
    rows: FloatArray
    covariance: FloatArray | float
    count: float

    @property
    def M(self) -> float:
        return self.count - 1

    @property
    def is_complete(self) -> bool:
        return isinstance(self.covariance, float)

    @cached_property
    def gram(self) -> FloatArray:
        return self.rows.T @ self.rows + self.covariance

    @cached_property
    def squares(self) -> FloatArray:
        if self.is_complete:
            return np.einsum("ij,ij->j", self.rows, self.rows)
        return np.diag(self.gram).copy()


def _moments(rows: MixtureRows, found: ExpectedRows) -> _Moments:
    N = rows.total
    mean = rows.weights @ found.values / N
    scaled = (found.values - mean) * np.sqrt(rows.weights)[:, None]
    return _Moments(mean, scaled, found.covariance, N)


@dataclass(frozen=True, eq=False)
class _Decomposed:
    """Spectrum and solution of moments that were divided by a scale, and the directions kept."""

    scale: FloatArray
    spectrum: Spectrum
    solution: Solution
    components: FloatArray


def _decomposed(moments: _Moments, scale: FloatArray, plan: ClusterPlan) -> _Decomposed:
    """The plan's solution for the moments divided by a scale, through the shorter side."""
    n, p = moments.rows.shape
    rows = moments.rows if moments.is_complete else None
    found = solved(
        None if rows is not None and n < p else moments.gram,
        rows,
        scale,
        spectrum=lambda squares: _spectrum(squares, (p, moments.M)),
        plan=plan.solve,
    )
    components = fixed_signs(np.ascontiguousarray(found.right(found.solution.rank)))
    return _Decomposed(scale, found.spectrum, found.solution, components)


def _first_scale(moments: _Moments, plan: ClusterPlan) -> FloatArray:
    """Half of each feature's variance is noise to begin with."""
    return np.sqrt(np.maximum(0.5 * moments.squares / moments.M, plan.least_noise))


def _best_scale(found: _Decomposed, moments: _Moments, plan: ClusterPlan) -> FloatArray:
    psi = best_noise(
        found.scale**2,
        moments.squares,
        solution=found.solution,
        spectrum=found.spectrum,
        components=found.components,
    )
    return np.sqrt(np.maximum(psi, plan.least_noise))


def _spectrum(squares: FloatArray, shape: tuple[int, float]) -> Spectrum:
    """That of all squares of singular values, of which no more than the shape allows are named."""
    squares = np.maximum(squares, 0.0)
    named = np.sqrt(squares[: int(min(shape))])
    return Spectrum(named, shape, float(squares.sum()), n_values=shape[0])


def _update(found: _Decomposed, moments: _Moments, entropy: float) -> Update:
    solution, k, M = found.solution, found.solution.rank, moments.M
    posterior = from_solution(
        solution,
        components=found.components,
        gamma=found.spectrum.singular_values,
        mean=moments.mean,
        scale=found.scale,
        M=M,
    )
    both, p = solution.moments, moments.mean.size
    latent = 0.5 * _log_ratio(k, both.prior_variance_a, both.variance_a)
    loading = 0.5 * p * _log_ratio(k, both.prior_variance_b, both.variance_b)
    cluster = Cluster(moments.count, posterior, latent, loading)
    F = solution.free_energy + M * float(np.log(found.scale).sum())
    return Update(cluster, F, entropy)


def _log_ratio(k: int, prior: FloatArray, variance: FloatArray) -> float:
    """Σ log(c²/σ²) over the components kept; 0 for a point estimate."""
    alive = variance[:k] > 0
    return float(np.log(prior[:k][alive] / variance[:k][alive]).sum())
