"""Gibbs sweeps that draw users, items, their priors and the noise, each given all else.

    x_ij = u_i + v_j + aᵢᵀbⱼ + ε,    ε ~ N(0, 1/(ταᵢβⱼ)),

for the observed cells, plus the drift of users if times are known (`drift`). The priors are in
`prior`. There is no m, since the priors of the biases have means. Random numbers come from a
separate generator for each chain and sweep, and are drawn before the loops over rows. So a sweep is
a pure function of its state, and does not depend on threads.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from bayespca.arrays.parallel import one_blas_thread
from bayespca.arrays.types import FloatArray, Matrix, Vector
from bayespca.inference.loop import Info
from bayespca.missing.ratings.cells import RatingsSide

from .data import FeaturedRatings
from .drift import DriftDraw, DriftSums, drawn_drift
from .features import Features
from .implicit import Shifted, drawn_implicit
from .kernels import Chances, DrawnRows, DrawTask, drawn
from .prior import LinearMean, NormalPrior, SampledPrior, drawn_linear, drawn_nu, drawn_prior
from .rated import Rated


@dataclass(frozen=True)
class SampledProblem:
    """The problem to sample: constants of the priors, the noise variance if it is given, and the
    number of sweeps before the first draw that is kept.
    """

    prior: SampledPrior = field(default_factory=SampledPrior)
    biases: bool = True
    fixed_noise: float | None = None
    n_warmup: int = 0


@dataclass(frozen=True, eq=False)
class RatingsDraw:
    """One draw from the posterior.

    It has rows (n, K) and columns (m, K), biases last, their weights and priors, the noise
    precision τ, and ν of both sides, which is 0 if all weights are 1. The means of the priors
    depend on features (`*_linear`) and on who rated what (`*_implicit`); `row_spread` and
    `column_spread` (K, K) are mean squares of their shifts over ratings. `drift` is that of users.
    """

    rows: Matrix
    columns: Matrix
    row_weights: Vector
    column_weights: Vector
    row_prior: NormalPrior
    column_prior: NormalPrior
    tau: float
    row_nu: float
    column_nu: float
    row_linear: LinearMean
    column_linear: LinearMean
    row_implicit: LinearMean
    column_implicit: LinearMean
    row_spread: Matrix
    column_spread: Matrix
    drift: DriftDraw


@dataclass(frozen=True, eq=False)
class SampledState:
    """All chains, the draws kept of each, in single precision, and sums over their drifts.

    `sweep` counts from 0.
    """

    chains: tuple[RatingsDraw, ...]
    seed: int
    sweep: int = 0
    kept: tuple[tuple[RatingsDraw, ...], ...] = ()
    drift: DriftSums = field(default_factory=DriftSums)


def step(
    state: SampledState, data: FeaturedRatings, problem: SampledProblem
) -> tuple[SampledState, Info]:
    """One sweep of each chain; the free energy is NaN, as sampling has none."""
    with one_blas_thread():
        chains = tuple(
            swept(chain, data, problem, generator(state.seed, c, state.sweep))
            for c, chain in enumerate(state.chains)
        )
    kept, drift = state.kept, state.drift
    if state.sweep >= problem.n_warmup:
        own = (generator(state.seed, c, state.sweep, 1) for c in range(len(chains)))
        kept = (*kept, tuple(_stored(*one, data) for one in zip(chains, own, strict=True)))
        for chain in chains:
            drift = drift.plus(chain.drift, data.bins, row_biases(chain.rows, problem))
    rank = chains[0].rows.shape[1] - problem.biases
    noise = float(np.mean([1 / chain.tau for chain in chains]))
    found = replace(state, chains=chains, sweep=state.sweep + 1, kept=kept, drift=drift)
    return found, Info(float("nan"), rank, noise)


def row_biases(rows: FloatArray, problem: SampledProblem) -> FloatArray:
    """u of each row; 0 without biases."""
    return rows[..., -1] if problem.biases else np.zeros(rows.shape[:-1])


def generator(seed: int, *counters: int) -> np.random.Generator:
    """The random generator for a sweep of a chain, or for storing its draw, by counters."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=counters)))


def swept(
    now: RatingsDraw, data: FeaturedRatings, problem: SampledProblem, rng: np.random.Generator
) -> RatingsDraw:
    """Draw priors and rows given columns, priors and columns given rows, drifts, then the noise."""
    by_rows, by_columns = data.without_drift(now.drift)
    of_rows = data.row_features, data.row_rated
    means = now.row_linear, now.row_implicit
    own = _drawn_prior(now.rows, of_rows, means, problem, rng)
    noise = now.tau, now.row_nu, problem.biases
    task = DrawTask(now.columns, now.column_weights, own.prior.precision, own.pull, *noise)
    rows = _drawn(by_rows, task, now.rows, rng)
    of_columns = data.column_features, data.column_rated
    means = now.column_linear, now.column_implicit
    other = _drawn_prior(now.columns, of_columns, means, problem, rng)
    noise = now.tau, now.column_nu, problem.biases
    task = DrawTask(rows.theta, rows.weights, other.prior.precision, other.pull, *noise)
    columns = _drawn(by_columns, task, now.columns, rng)
    drift, squares = _drawn_drift(now, rows, columns, data, problem, rng)
    return RatingsDraw(
        *(rows.theta, columns.theta, rows.weights, columns.weights),
        *(own.prior, other.prior),
        tau=_noise_precision(squares, data, problem, rng),
        row_nu=drawn_nu(rows.weights, problem.prior, rng),
        column_nu=drawn_nu(columns.weights, problem.prior, rng),
        row_linear=own.linear,
        column_linear=other.linear,
        row_implicit=own.implicit,
        column_implicit=other.implicit,
        row_spread=own.spread,
        column_spread=other.spread,
        drift=drift,
    )


class DrawnPrior(NamedTuple):
    """A draw of the prior of one side.

    `linear` and `implicit` give the mean's dependence on features and on who rated what, `pull` is
    Λ times the mean of each row (n, K), and `spread` the mean square over ratings of the shifts of
    the mean (K, K).
    """

    prior: NormalPrior
    linear: LinearMean
    implicit: LinearMean
    pull: FloatArray
    spread: FloatArray


def _drawn_prior(
    theta: FloatArray,
    known: tuple[Features, Rated],
    now: tuple[LinearMean, LinearMean],
    problem: SampledProblem,
    rng: np.random.Generator,
) -> DrawnPrior:
    (features, rated), (linear, implicit) = known, now
    by_features, by_rated = features @ linear.weights, rated.shift(implicit.weights)
    prior = drawn_prior(theta - by_features - by_rated, problem.prior, rng, linear, implicit)
    linear = drawn_linear(theta - by_rated, features, prior, linear, rng)
    by_features = features @ linear.weights
    rest = theta - prior.mean - by_features
    implicit, by_rated = drawn_implicit(rest, rated, prior, Shifted(implicit, by_rated), rng)
    shift = by_features + by_rated
    spread = (rated.own.counts[:, None] * shift).T @ shift / max(rated.own.other.size, 1)
    return DrawnPrior(prior, linear, implicit, prior.pull(shift), spread)


def _drawn(
    side: RatingsSide, task: DrawTask, old: FloatArray, rng: np.random.Generator
) -> DrawnRows:
    gamma = np.empty(0)
    if task.nu:
        gamma = rng.standard_gamma(0.5 * (task.nu + side.counts))
    return drawn(side, task, old, Chances(rng.normal(size=old.shape), gamma))


def _drawn_drift(
    now: RatingsDraw,
    rows: DrawnRows,
    columns: DrawnRows,
    data: FeaturedRatings,
    problem: SampledProblem,
    rng: np.random.Generator,
) -> tuple[DriftDraw, float]:
    """Draw drifts given rows and columns, and return them with Σαᵢβⱼe²ᵢⱼ of the residuals."""
    if data.bins is None:
        return now.drift, float(columns.weights @ columns.squares)
    side = data.by_rows
    rest = side.left_over(rows.theta, columns.theta, 0.0, biases=problem.biases)
    weights = np.repeat(rows.weights, side.counts) * columns.weights[side.other]
    drift, left = drawn_drift(now.drift, data.bins, rest, now.tau * weights, problem.prior, rng)
    return drift, float(np.einsum("c,c,c->", weights, left, left))


def _noise_precision(
    squares: float, data: FeaturedRatings, problem: SampledProblem, rng: np.random.Generator
) -> float:
    """τ ~ Γ(a + N/2, b + ½Σαᵢβⱼe²ᵢⱼ)"""
    if problem.fixed_noise is not None:
        return 1 / problem.fixed_noise
    prior = problem.prior
    rate = prior.b_tau + 0.5 * squares
    return float(rng.standard_gamma(prior.a_tau + 0.5 * data.n_cells) / rate)


def _stored(chain: RatingsDraw, rng: np.random.Generator, data: FeaturedRatings) -> RatingsDraw:
    """The draw to keep, in single precision, whose rounding is far below the posterior spread."""
    rows = _shifted(chain.rows, data.row_rated, chain.row_implicit, rng)
    columns = _shifted(chain.columns, data.column_rated, chain.column_implicit, rng)
    return replace(
        chain,
        rows=rows.astype(np.float32),
        columns=columns.astype(np.float32),
        row_weights=chain.row_weights.astype(np.float32),
        column_weights=chain.column_weights.astype(np.float32),
        row_implicit=replace(
            chain.row_implicit, weights=chain.row_implicit.weights.astype(np.float32)
        ),
        # Predictions do not need it: new items have been rated by nobody.
        column_implicit=LinearMean.none(0, chain.columns.shape[1]),
        drift=replace(chain.drift, effects=()),
    )


def _shifted(
    theta: FloatArray, rated: Rated, implicit: LinearMean, rng: np.random.Generator
) -> FloatArray:
    """The rows, where those without ratings get the shift of the row of a random rating.

    What they would rate is unknown, and so is the shift of their mean.
    """
    new = np.flatnonzero(~rated.active)
    if not new.size or not len(implicit.weights):
        return theta
    like = rated.other.other[rng.integers(rated.other.other.size, size=new.size)]
    found = theta.copy()
    found[new] += rated.shift(implicit.weights)[like]
    return found
