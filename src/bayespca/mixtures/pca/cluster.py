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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bayespca.arrays.signs import fixed_signs
from bayespca.arrays.types import FloatArray
from bayespca.engines.gram import SquaredSpectrum, has_digits, squares_of, squares_of_rows
from bayespca.lowrank.posterior import Posterior, from_solution
from bayespca.lowrank.records import OfComponents
from bayespca.spectrum.methods import METHODS
from bayespca.spectrum.noise import Objective
from bayespca.spectrum.noises import noises
from bayespca.spectrum.priors import EmpiricalVB
from bayespca.spectrum.records import Solution, Spectrum
from bayespca.spectrum.solving import solve
from bayespca.spectrum.tolerances import EPS

from .data import MixtureRows
from .feature_noise import best_noise
from .gaussian import ExpectedRows, Gaussian, expected

# The most noise of a feature over the least, which is a millionth of its variance.
WIDEST = 1e8


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


@dataclass(frozen=True, eq=False)
class Update:
    """The free energy of an updated cluster, and the entropy of the holes in its rows.

    The cluster itself is made when it is needed: those that are only tried need none.
    """

    made: Callable[[], Cluster]
    count: float
    free_energy: float
    entropy: float = 0.0

    @cached_property
    def cluster(self) -> Cluster:
        return self.made()


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

    def within(self, noise: FloatArray) -> FloatArray:
        """Noise of features within bounds: one without a cell in a cluster has a mean that may be
        anywhere, and no end to the noise that suits it.
        """
        return np.asarray(np.clip(noise, self.least_noise, WIDEST * self.least_noise))

    def objective(self, spectrum: Spectrum) -> Objective | None:
        """The free energy over the noise, where that has to be minimised."""
        prior = METHODS[self.method].prior(*spectrum.shape, np.inf)
        if not isinstance(self.least_noise, float) or not isinstance(prior, EmpiricalVB):
            return None
        return Objective(spectrum, prior, self._cap(spectrum), self.least_noise)

    def solve(self, spectrum: Spectrum, noise: float | None) -> Solution:
        """The closed form at a noise variance, or at that of the method."""
        least = 0.0
        if isinstance(self.least_noise, float):
            least = self.least_noise
        else:
            noise = 1.0
        return solve(
            spectrum,
            self.method,
            max_rank=self._cap(spectrum),
            noise_variance="auto" if noise is None else noise,
            least_noise=least,
            other_ranks=False,
        )

    def _cap(self, spectrum: Spectrum) -> int:
        full = spectrum.full_rank
        return full if self.max_rank is None else min(self.max_rank, full)


def spherical(mean: FloatArray, scale: FloatArray, noise: float, count: float) -> Cluster:
    """A cluster without components."""
    none, no_directions = np.zeros(0), np.zeros((0, mean.size))
    posterior = Posterior(mean, scale, no_directions, none, none, none, none, noise)
    return Cluster(count, posterior, 0.0, 0.0)


class ClusterRows(NamedTuple):
    """The rows of a cluster, which count by their weights, and what to make of their spectrum.

    Holes are expected as in the cluster `before`.
    """

    rows: MixtureRows
    before: Cluster | None
    plan: ClusterPlan


def updated(rows: MixtureRows, before: Cluster | None, plan: ClusterPlan) -> Update:
    """The closed form of one cluster."""
    return updated_together([ClusterRows(rows, before, plan)])[0]


def updated_together(parts: Sequence[ClusterRows]) -> list[Update]:
    """The closed forms of some clusters.

    Where each feature has its own noise, the closed form is that of data divided by its root, in
    turns with that noise, as in `linear.per_feature`.
    """
    found = [_expected(part) for part in parts]
    scaled = [_scaled(part, rows) for part, rows in zip(parts, found, strict=True)]
    updates = zip(_decomposed(scaled), found, strict=True)
    return [_update(decomposed, rows.entropy) for decomposed, rows in updates]


def _expected(part: ClusterRows) -> ExpectedRows:
    if part.before is None:
        return ExpectedRows(part.rows.values, 0.0, 0.0)
    return expected(part.before.gaussian, part.rows)


def _scaled(part: ClusterRows, found: ExpectedRows) -> _Scaled:
    """Moments, and what they are divided by: after a closed form of its own, where that differs
    from feature to feature.
    """
    moments, plan = _moments(part.rows, found), part.plan
    if not plan.is_per_feature:
        return _Scaled(moments, np.ones(moments.mean.size), plan)
    if part.before is None:
        return _Scaled(moments, _first_scale(moments, plan), plan)
    (decomposed,) = _decomposed([_Scaled(moments, part.before.posterior.scale, plan)])
    return _Scaled(moments, _best_scale(decomposed), plan)


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


class _Scaled(NamedTuple):
    """Moments that are divided by a scale, and what to make of their spectrum."""

    moments: _Moments
    scale: FloatArray
    plan: ClusterPlan

    @property
    def complete_rows(self) -> FloatArray | None:
        return self.moments.rows if self.moments.is_complete else None

    def squares(self) -> SquaredSpectrum:
        """Through the shorter side."""
        n, p = self.moments.rows.shape
        gram = None if self.moments.is_complete and n < p else self.moments.gram
        return squares_of(gram, self.complete_rows, self.scale)

    def spectrum(self, squares: FloatArray) -> Spectrum:
        """That of all squares, of which no more than the shape allows are named."""
        if not np.isfinite(squares).all():
            raise np.linalg.LinAlgError("a cluster has no spectrum")
        squares, shape = np.maximum(squares, 0.0), (self.scale.size, self.moments.M)
        named = np.sqrt(squares[: int(min(shape))])
        return Spectrum(named, shape, float(squares.sum()), n_values=shape[0])


class _Found(NamedTuple):
    """The noise of a spectrum, the singular value above which components are kept, and F; all of
    the closed form where that was made for it.
    """

    noise: float
    threshold: float
    free_energy: float
    solution: Solution | None = None


@dataclass(frozen=True, eq=False)
class _Decomposed:
    """The spectrum of scaled moments, and its noise; the rest of the closed form on demand."""

    of: _Scaled
    spectrum: Spectrum
    right: Callable[[int], FloatArray]
    found: _Found

    @cached_property
    def solution(self) -> Solution:
        known = self.found.solution
        return self.of.plan.solve(self.spectrum, self.found.noise) if known is None else known

    @cached_property
    def components(self) -> FloatArray:
        return fixed_signs(np.ascontiguousarray(self.right(self.solution.rank)))

    @property
    def is_precise(self) -> bool:
        return has_digits(
            self.spectrum, self.found.noise, self.found.threshold, np.dtype(np.float64)
        )


def _decomposed(parts: Sequence[_Scaled]) -> list[_Decomposed]:
    """Closed forms whose noise is looked for together; by singular values where rounding errors of
    squares reach the noise, if there are rows.
    """
    found = _joined(parts, [part.squares() for part in parts])
    return [_by_rows(one) for one in found]


def _by_rows(found: _Decomposed) -> _Decomposed:
    part, rows = found.of, found.of.complete_rows
    if rows is None or found.is_precise:
        return found
    return _joined([part], [squares_of_rows(rows, part.scale)])[0]


def _joined(parts: Sequence[_Scaled], squares: Sequence[SquaredSpectrum]) -> list[_Decomposed]:
    """Each part with what follows from its squares."""
    spectra = [part.spectrum(known.squares) for part, known in zip(parts, squares, strict=True)]
    every = zip(parts, spectra, squares, _noises(parts, spectra), strict=True)
    return [
        _Decomposed(part, spectrum, known.right, found) for part, spectrum, known, found in every
    ]


def _noises(parts: Sequence[_Scaled], spectra: Sequence[Spectrum]) -> list[_Found]:
    """Noise, threshold and free energy of each spectrum."""
    pairs = [(part.plan, spectrum) for part, spectrum in zip(parts, spectra, strict=True)]
    objectives = [plan.objective(spectrum) for plan, spectrum in pairs]
    searched = iter(zip(*noises([one for one in objectives if one is not None]), strict=True))
    return [
        _solved(*pair) if objective is None else _at(objective, *next(searched))
        for pair, objective in zip(pairs, objectives, strict=True)
    ]


def _solved(plan: ClusterPlan, spectrum: Spectrum) -> _Found:
    solution = plan.solve(spectrum, None)
    return _Found(solution.noise_variance, solution.threshold, solution.free_energy, solution)


def _at(objective: Objective, noise: float, free_energy: float) -> _Found:
    threshold = np.sqrt(objective.prior.threshold(noise) * noise)
    return _Found(float(noise), float(threshold), float(free_energy))


def _first_scale(moments: _Moments, plan: ClusterPlan) -> FloatArray:
    """Half of each feature's variance is noise to begin with."""
    return np.sqrt(np.maximum(0.5 * moments.squares / moments.M, plan.least_noise))


def _best_scale(found: _Decomposed) -> FloatArray:
    psi = best_noise(
        found.of.scale**2,
        found.of.moments.squares,
        solution=found.solution,
        spectrum=found.spectrum,
        components=found.components,
    )
    return np.sqrt(found.of.plan.within(psi))


def _update(found: _Decomposed, entropy: float) -> Update:
    F = found.found.free_energy + found.of.moments.M * float(np.log(found.of.scale).sum())
    return Update(lambda: _cluster(found), found.of.moments.count, F, entropy)


def _cluster(found: _Decomposed) -> Cluster:
    solution, moments, k = found.solution, found.of.moments, found.solution.rank
    posterior = from_solution(
        solution,
        components=found.components,
        gamma=found.spectrum.singular_values,
        mean=moments.mean,
        scale=found.of.scale,
        M=moments.M,
    )
    both, p = solution.moments, moments.mean.size
    latent = 0.5 * _log_ratio(k, both.prior_variance_a, both.variance_a)
    loading = 0.5 * p * _log_ratio(k, both.prior_variance_b, both.variance_b)
    return Cluster(moments.count, posterior, latent, loading)


def _log_ratio(k: int, prior: FloatArray, variance: FloatArray) -> float:
    """Σ log(c²/σ²) over the components kept; 0 for a point estimate."""
    alive = variance[:k] > 0
    return float(np.log(prior[:k][alive] / variance[:k][alive]).sum())
