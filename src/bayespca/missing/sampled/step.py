"""Sweeps that draw users, items, their priors and the noise, each given all else.

    x_ij = u_i + v_j + aᵢᵀbⱼ + ε,    ε ~ N(0, 1/(ταᵢβⱼ)),

for the cells that are there, and the drift of users where times are known (`drift`); `prior` has
the priors. There is no m: the priors of the biases have
means. What is random comes from a generator of its own for each chain and sweep, and is drawn
before the loops over rows, so that a sweep is a pure function of its state, and threads do not
change it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from bayespca.arrays.threads import one_blas_thread
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
    """What is sampled: the constants of the priors, and the noise variance where it is given; how
    many sweeps come before the first draw that is kept.
    """

    prior: SampledPrior = field(default_factory=SampledPrior)
    biases: bool = True
    fixed_noise: float | None = None
    n_warmup: int = 0


@dataclass(frozen=True, eq=False)
class RatingsDraw:
    """One point of the posterior: rows (n, K) and columns (m, K), biases last, their weights and
    priors, the noise precision τ, ν of both sides, 0 where all weights are 1, and how the means of
    the priors follow from features, and from who rated what at all; `row_spread` and
    `column_spread` (K, K) say how much these means vary over ratings; and the drift of users.
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
    """All chains, and what has been kept of each, in single precision, and of the drifts of all;
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
    """One sweep of each chain. There is no free energy that could fall, or settle."""
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
    """u of each row, 0 without biases."""
    return rows[..., -1] if problem.biases else np.zeros(rows.shape[:-1])


def generator(seed: int, *counters: int) -> np.random.Generator:
    """The generator of a sweep of a chain, or of what is stored of it, by counters."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=counters)))


def swept(
    now: RatingsDraw, data: FeaturedRatings, problem: SampledProblem, rng: np.random.Generator
) -> RatingsDraw:
    """Priors and rows given columns, priors and columns given rows, drifts, then the noise."""
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
    """The prior of one side, how it follows from features and from who rated what, Λ times the
    mean of each row (n, K), and the mean square of shifts of the mean over ratings (K, K).
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
    """Drifts given rows and columns, and Σαᵢβⱼe²ᵢⱼ of what is left then."""
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
    """A draw in single precision, whose rounding is far below its spread."""
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
        # Nothing is predicted from it: items that were not there were rated by nobody.
        column_implicit=LinearMean.none(0, chain.columns.shape[1]),
        drift=replace(chain.drift, effects=()),
    )


def _shifted(
    theta: FloatArray, rated: Rated, implicit: LinearMean, rng: np.random.Generator
) -> FloatArray:
    """Rows; those without ratings have the shifts of rows of some ratings, drawn at random: what
    they would rate is not known, and so not what is expected of them.
    """
    new = np.flatnonzero(~rated.active)
    if not new.size or not len(implicit.weights):
        return theta
    like = rated.other.other[rng.integers(rated.other.other.size, size=new.size)]
    found = theta.copy()
    found[new] += rated.shift(implicit.weights)[like]
    return found
