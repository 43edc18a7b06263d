"""Gibbs sweeps that draw users, items, their priors and the noise, each given all else.

    x_ij = u_i + v_j + aᵢᵀbⱼ + ε,    ε ~ N(0, 1/(ταᵢβⱼ)),

for the observed cells, plus the drift of users if times are known (`drift`). The priors are in
`prior`. There is no m, since the priors of the biases have means. Random numbers come from a
separate generator for each chain and sweep, and are drawn before the loops over rows. So a sweep is
a pure function of its state, and does not depend on threads.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from bayespca.arrays.parallel import one_blas_thread
from bayespca.arrays.types import FloatArray, Matrix, Vector
from bayespca.inference.loop import Info
from bayespca.missing.ratings.cells import RatingsSide
from bayespca.missing.ratings.kernels import MANY

from .data import FeaturedRatings
from .drift import DriftDraw, DriftSums, drawn_drift
from .features import Features, Rated
from .kernels import Chances, DrawTask, by_numpy
from .prior import (
    LinearMean,
    NormalPrior,
    SampledPrior,
    Shifted,
    drawn_implicit,
    drawn_linear,
    drawn_nu,
    drawn_prior,
)


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
class DrawnSide:
    """A draw of one side: rows θ (n, K), biases last, their weights, ν, and their prior.

    ν is 0 if all weights are 1. The mean of the prior depends on features (`linear`) and on who
    rated what (`implicit`); `spread` (K, K) is the mean square of its shifts over ratings.
    """

    theta: Matrix
    weights: Vector
    nu: float
    prior: NormalPrior
    linear: LinearMean
    implicit: LinearMean
    spread: Matrix


@dataclass(frozen=True, eq=False)
class RatingsDraw:
    """One draw from the posterior: both sides, the noise precision τ, and the drift of users."""

    rows: DrawnSide
    columns: DrawnSide
    tau: float
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
            drift = drift.plus(chain.drift, data.bins, row_biases(chain.rows.theta, problem))
    rank = chains[0].rows.theta.shape[1] - problem.biases
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
    known = data.row_features, data.row_rated
    rows, _ = _drawn_side(now.rows, now.columns, by_rows, known, now.tau, problem, rng)
    known = data.column_features, data.column_rated
    columns, squares = _drawn_side(now.columns, rows, by_columns, known, now.tau, problem, rng)
    drift, total = now.drift, float(columns.weights @ squares)
    if data.bins is not None:
        # Drifts given rows and columns, and Σαᵢβⱼe²ᵢⱼ of the residuals.
        cells = data.by_rows
        rest = cells.left_over(rows.theta, columns.theta, 0.0, biases=problem.biases)
        weights = np.repeat(rows.weights, cells.counts) * columns.weights[cells.other]
        gamma = problem.prior.a_drift, problem.prior.b_drift
        drift, left = drawn_drift(drift, data.bins, rest, now.tau * weights, gamma, rng)
        total = float(np.einsum("c,c,c->", weights, left, left))
    if problem.fixed_noise is None:
        # τ ~ Γ(a + N/2, b + ½Σαᵢβⱼe²ᵢⱼ)
        shape, rate = problem.prior.a_tau + 0.5 * data.n_cells, problem.prior.b_tau + 0.5 * total
        tau = float(rng.standard_gamma(shape) / rate)
    else:
        tau = 1 / problem.fixed_noise
    rows = replace(rows, nu=drawn_nu(rows.weights, problem.prior, rng))
    columns = replace(columns, nu=drawn_nu(columns.weights, problem.prior, rng))
    return RatingsDraw(rows, columns, tau, drift)


def _drawn_side(
    now: DrawnSide,
    other: DrawnSide,
    side: RatingsSide,
    known: tuple[Features, Rated],
    tau: float,
    problem: SampledProblem,
    rng: np.random.Generator,
) -> tuple[DrawnSide, FloatArray]:
    """Draw the prior and the rows of one side, and return them with Σⱼ βⱼe²ᵢⱼ of the residuals."""
    (features, rated), linear, implicit = known, now.linear, now.implicit
    by_features, by_rated = features @ linear.weights, rated.shift(implicit.weights)
    prior = drawn_prior(now.theta - by_features - by_rated, problem.prior, rng, linear, implicit)
    linear = drawn_linear(now.theta - by_rated, features, prior, linear, rng)
    by_features = features @ linear.weights
    rest = now.theta - prior.mean - by_features
    implicit, by_rated = drawn_implicit(rest, rated, prior, Shifted(implicit, by_rated), rng)
    shift = by_features + by_rated
    spread = (rated.own.counts[:, None] * shift).T @ shift / max(rated.own.other.size, 1)
    noise = tau, now.nu, problem.biases
    task = DrawTask(other.theta, other.weights, prior.precision, prior.pull(shift), *noise)
    gamma = rng.standard_gamma(0.5 * (now.nu + side.counts)) if now.nu else np.empty(0)
    chances = Chances(rng.normal(size=now.theta.shape), gamma)
    if side.n_rows < MANY:
        found = by_numpy(side, task, now.theta, chances)
    else:
        # numba takes a second to import, and its kernel a few more to compile for the first time.
        from .compiled import by_loops

        found = by_loops(side, task, now.theta, chances)
    new = DrawnSide(found.theta, found.weights, now.nu, prior, linear, implicit, spread)
    return new, found.squares


def _stored(chain: RatingsDraw, rng: np.random.Generator, data: FeaturedRatings) -> RatingsDraw:
    """The draw to keep, in single precision, whose rounding is far below the posterior spread."""
    rows, columns = (
        replace(
            side,
            theta=_shifted(side.theta, rated, side.implicit, rng).astype(np.float32),
            weights=side.weights.astype(np.float32),
            implicit=replace(side.implicit, weights=side.implicit.weights.astype(np.float32)),
        )
        for side, rated in ((chain.rows, data.row_rated), (chain.columns, data.column_rated))
    )
    # Predictions do not need it: new items have been rated by nobody.
    columns = replace(columns, implicit=LinearMean.none(0, columns.theta.shape[1]))
    return RatingsDraw(rows, columns, chain.tau, replace(chain.drift, effects=()))


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
