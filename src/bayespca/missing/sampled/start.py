"""Starts of chains: draws from EVB's answer, with more components than it keeps."""

from __future__ import annotations

import numpy as np

from bayespca.arrays.packing import normal_vectors, unpacked
from bayespca.arrays.types import FloatArray
from bayespca.missing.ratings.step import RatingsProblem, RatingsState, task_of

from .data import FeaturedRatings
from .drift import DriftDraw
from .prior import LinearMean, NormalPrior
from .rated import Rated
from .step import RatingsDraw, SampledProblem, SampledState


def start(
    begin: RatingsState,
    data: FeaturedRatings,
    begun: RatingsProblem,
    problem: SampledProblem,
    *,
    rank: int,
    n_chains: int,
    rng: np.random.Generator,
) -> SampledState:
    """Start each chain at a draw from the posterior `begin` of the problem `begun`.

    Components beyond those that EVB keeps are normal draws with its smallest prior variance.
    """
    seed = int(rng.integers(2**62))
    rows, cov = data.rows(task_of(begin, begun), np.float64)
    nu = float(np.median(problem.prior.nus)) if problem.prior.nus else 0.0
    chains = []
    for own in rng.spawn(n_chains):
        a = _widened(_around(rows, cov, own), begin.prior_a, problem, rank, own)
        b = _widened(_around(begin.b, begin.b_cov, own), begin.prior_b, problem, rank, own)
        if problem.biases:
            b[:, -1] += begin.location
        K = a.shape[1]
        chains.append(
            RatingsDraw(
                *(a, b, np.ones(len(a)), np.ones(len(b)), _like(a), _like(b)),
                *(1 / begin.noise_variance, nu, nu),
                row_linear=LinearMean.none(data.row_features.shape[1], K),
                column_linear=LinearMean.none(data.column_features.shape[1], K),
                row_implicit=LinearMean.none(_counted(data, data.row_rated), K),
                column_implicit=LinearMean.none(_counted(data, data.column_rated), K),
                row_spread=np.zeros((K, K)),
                column_spread=np.zeros((K, K)),
                drift=DriftDraw.none(data.bins),
            )
        )
    return SampledState(tuple(chains), seed)


def _counted(data: FeaturedRatings, rated: Rated) -> int:
    """Number of columns with implicit weights; 0 if there is no implicit feedback."""
    return rated.other.n_rows if data.implicit and not rated.is_constant else 0


def _around(mean: FloatArray, cov: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draws from N(mean, cov) of each row."""
    if not mean.shape[1]:
        return mean
    full = unpacked(cov, mean.shape[1])
    return np.asarray(mean + normal_vectors(full, rng, np.arange(len(mean))))


def _widened(
    theta: FloatArray,
    prior: FloatArray,
    problem: SampledProblem,
    rank: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Add components before the bias, with the smallest variance of the existing ones."""
    H = prior.size - problem.biases
    least = float(prior[:H].min()) if H else problem.prior.scale
    more = np.sqrt(least) * rng.normal(size=(len(theta), rank - H))
    return np.concatenate([theta[:, :H], more, theta[:, H:]], axis=1)


def _like(theta: FloatArray) -> NormalPrior:
    """A placeholder prior, which is drawn anew before it is used."""
    K = theta.shape[1]
    return NormalPrior(np.zeros(K), np.eye(K))
