"""Starts of chains: draws from EVB's answer, with more components than it keeps."""

from __future__ import annotations

import numpy as np

from bayespca.arrays.packing import normal_vectors, unpacked
from bayespca.arrays.types import FloatArray
from bayespca.missing.ratings.step import RatingsProblem, RatingsState, task_of

from .data import FeaturedRatings
from .drift import DriftDraw
from .prior import LinearMean, NormalPrior
from .step import DrawnSide, RatingsDraw, SampledProblem, SampledState


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
    # Columns with implicit weights; none if there is no implicit feedback.
    counts = [
        rated.other.n_rows if data.implicit and not rated.is_constant else 0
        for rated in (data.row_rated, data.column_rated)
    ]
    given = data.row_features, data.column_features
    chains = []
    for own in rng.spawn(n_chains):
        a = _drawn(rows, cov, begin.prior_a, problem, rank, own)
        b = _drawn(begin.b, begin.b_cov, begin.prior_b, problem, rank, own)
        if problem.biases:
            b[:, -1] += begin.location
        K = a.shape[1]
        of_rows, of_columns = (
            DrawnSide(
                theta=theta,
                weights=np.ones(len(theta)),
                nu=nu,
                # The prior is drawn anew before it is used.
                prior=NormalPrior(np.zeros(K), np.eye(K)),
                linear=LinearMean.none(features.shape[1], K),
                implicit=LinearMean.none(count, K),
                spread=np.zeros((K, K)),
            )
            for theta, features, count in zip((a, b), given, counts, strict=True)
        )
        drift = DriftDraw.none(data.bins)
        chains.append(RatingsDraw(of_rows, of_columns, 1 / begin.noise_variance, drift))
    return SampledState(tuple(chains), seed)


def _drawn(
    mean: FloatArray,
    cov: FloatArray,
    prior: FloatArray,
    problem: SampledProblem,
    rank: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Draw each row from N(mean, cov), with more components before the bias, up to `rank`.

    These have the smallest prior variance of the others.
    """
    if mean.shape[1]:
        full = unpacked(cov, mean.shape[1])
        mean = mean + normal_vectors(full, rng, np.arange(len(mean)))
    H = prior.size - problem.biases
    least = float(prior[:H].min()) if H else problem.prior.scale
    more = np.sqrt(least) * rng.normal(size=(len(mean), rank - H))
    return np.concatenate([mean[:, :H], more, mean[:, H:]], axis=1)
