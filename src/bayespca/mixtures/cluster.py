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

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from bayespca.engines import fixed_signs
from bayespca.engines.gram import Eigen, is_precise
from bayespca.engines.posterior import Posterior, from_solution
from bayespca.spectrum import Solution, Spectrum, solve

from .data import Rows
from .gaussian import Gaussian, expected

FloatArray = NDArray[np.float64]
Solve = Callable[[Spectrum], Solution]

LOG_2PI = float(np.log(2 * np.pi))
# A cluster of fewer rows is left as it is: it has too little spread to tell anything from.
FEWEST = 2.0
EPS = np.dtype(np.float64)


@dataclass(frozen=True, eq=False)
class Cluster:
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
    def rank(self) -> int:
        return int(self.posterior.components.shape[0])

    @property
    def noise(self) -> float:
        return self.posterior.noise_variance

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
        p = self.posterior.mean.size
        return 0.5 * p * (LOG_2PI + float(np.log(self.noise))) + self.latent_cost

    @property
    def fixed_cost(self) -> float:
        """The part of F that does not depend on how many rows there are."""
        return self.loading_cost - self.first_row


def compared(posterior: Posterior) -> Gaussian:
    """The Gaussian with variance σ²/(1 − shrinkage) along each direction."""
    s, shrinkage = posterior.noise_variance, posterior.shrinkage
    spread = s * shrinkage / (1 - shrinkage)
    return Gaussian(posterior.mean, posterior.components, spread, s)


@dataclass(frozen=True)
class Update:
    """A cluster after its update, its free energy, and the entropy of the holes in its rows."""

    cluster: Cluster
    free_energy: float
    entropy: float = 0.0


def plan(method: str, max_rank: int | None, least_noise: float) -> Solve:
    """What to make of a cluster's spectrum; a cap on the rank yields to what the shape allows."""

    def planned(spectrum: Spectrum) -> Solution:
        cap = None if max_rank is None else min(max_rank, spectrum.full_rank)
        return solve(spectrum, method, max_rank=cap, least_noise=least_noise)

    return planned


def spherical(mean: FloatArray, noise: float, count: float) -> Cluster:
    """A cluster without components."""
    p = mean.size
    none = np.zeros(0)
    posterior = Posterior(mean, np.ones(p), np.zeros((0, p)), none, none, none, none, noise)
    return Cluster(count, posterior, 0.0, 0.0)


def updated(rows: Rows, before: Gaussian | None, solve: Solve) -> Update:
    """The closed form on rows that count by their weights, holes expected as `before`."""
    found = expected(before, rows) if before is not None else None
    values = rows.values if found is None else found.values
    N = rows.total
    mean = rows.weights @ values / N
    scaled = (values - mean) * np.sqrt(rows.weights)[:, None]
    covariance = 0.0 if found is None else found.covariance
    spectrum, right, solution = _solved(scaled, covariance, N - 1, solve)
    cluster = _cluster(solution, right(solution.rank), spectrum, mean, N)
    return Update(cluster, solution.free_energy, 0.0 if found is None else found.entropy)


Right = Callable[[int], FloatArray]


def _solved(
    scaled: FloatArray, covariance: FloatArray | float, M: float, solve: Solve
) -> tuple[Spectrum, Right, Solution]:
    """Spectrum, directions on demand, and solution, through the shorter side's Gram matrix.

    Where rounding errors of that reach the noise, by the singular values themselves.
    """
    n, p = scaled.shape
    complete = isinstance(covariance, float)
    if n < p and complete:
        squares, right = _of_samples(scaled)
    else:
        squares, right = _of_features(scaled.T @ scaled + covariance)
    spectrum = _spectrum(squares, (p, M))
    solution = solve(spectrum)
    if complete and not is_precise(spectrum, solution, EPS):
        _, gamma, vectors = np.linalg.svd(scaled, full_matrices=False)
        spectrum, right = _spectrum(gamma**2, (p, M)), lambda k: vectors[:k]
        solution = solve(spectrum)
    return spectrum, right, solution


def _of_features(gram: FloatArray) -> tuple[FloatArray, Right]:
    eigen = Eigen.of(gram)
    return eigen.values[::-1], lambda k: eigen.top(k).T


def _of_samples(scaled: FloatArray) -> tuple[FloatArray, Right]:
    eigen = Eigen.of(scaled @ scaled.T)
    squares = eigen.values[::-1]
    return squares, lambda k: (eigen.top(k) / np.sqrt(squares[:k])).T @ scaled


def _spectrum(squares: FloatArray, shape: tuple[int, float]) -> Spectrum:
    """That of all squares of singular values, of which no more than the shape allows are named."""
    squares = np.maximum(squares, 0.0)
    named = np.sqrt(squares[: int(min(shape))])
    return Spectrum(named, shape, float(squares.sum()), n_values=shape[0])


def _cluster(
    solution: Solution, directions: FloatArray, spectrum: Spectrum, mean: FloatArray, N: float
) -> Cluster:
    k, moments, M = solution.rank, solution.moments, spectrum.shape[1]
    components = fixed_signs(np.ascontiguousarray(directions))
    posterior = from_solution(
        solution,
        components=components,
        gamma=spectrum.singular_values,
        mean=mean,
        scale=np.ones(mean.size),
        M=M,
    )
    log_ratio = partial(_log_ratio, k)
    latent = 0.5 * log_ratio(moments.prior_variance_a, moments.variance_a)
    loading = 0.5 * mean.size * log_ratio(moments.prior_variance_b, moments.variance_b)
    return Cluster(N, posterior, latent, loading)


def _log_ratio(k: int, prior: FloatArray, variance: FloatArray) -> float:
    """Σ log(c²/σ²) over the components kept; 0 for a point estimate."""
    alive = variance[:k] > 0
    return float(np.log(prior[:k][alive] / variance[:k][alive]).sum())
