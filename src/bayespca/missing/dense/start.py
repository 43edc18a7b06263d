"""Starts of the iteration: closed forms of matrices with filled holes, random draws, and EM.

EM over the covariance of the features also gives trial ranks, if that is cheaper than sweeps. A
round of it (`lowrank.covariance`) works on h×h matrices for h holes and on p×p matrices; a sweep
works on H×H matrices for H components. If most directions carry signal, a hundred rounds take the
time of a few sweeps and leave few sweeps to be made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bayespca.arrays.namespaces import array_namespace, is_numpy_array, to_numpy
from bayespca.arrays.places import at, taken
from bayespca.arrays.types import Array, Counts, FloatArray
from bayespca.engines.decomposing import decompose
from bayespca.inference.loop import Run, run
from bayespca.inference.search import searched
from bayespca.lowrank.cells import given_cells
from bayespca.lowrank.covariance import CovarianceChart, CovarianceEM, RowNormal, row_normal
from bayespca.lowrank.filling import Filled
from bayespca.lowrank.holes import Holes, IncompleteRows, floats
from bayespca.lowrank.rows import Columns, device_blocks, latent_means
from bayespca.lowrank.scales import FAR
from bayespca.spectrum.solving import solve

from .state import DenseProblem, DenseState, start_idle

# Standard deviation over the median absolute value of a normal distribution.
USUAL = 1.4826


def start(data: IncompleteRows, problem: DenseProblem, filled: Filled) -> DenseState:
    """Start from the low-rank part of a filled matrix."""
    b = np.ascontiguousarray(filled.right.T * np.sqrt(np.maximum(filled.spread, 1e-6)))
    prior_b = np.maximum((b**2).mean(axis=0), 1e-6)
    return _with_loadings(b, prior_b, filled.noise_variance, data, problem)


def random_start(
    data: IncompleteRows, problem: DenseProblem, noise: float | None, rng: np.random.Generator
) -> DenseState:
    """Start with all components from normal draws, together as large as the data; half is noise."""
    p, rank = data.shape[1], problem.most
    b = rng.normal(size=(p, rank)) / np.sqrt(max(rank, 1))
    prior_b = np.full(rank, 1 / max(rank, 1))
    return _with_loadings(b, prior_b, 0.5 if noise is None else noise, data, problem)


def _with_loadings(
    b: FloatArray, prior_b: FloatArray, noise: float, data: IncompleteRows, problem: DenseProblem
) -> DenseState:
    p, rank = b.shape
    # A has unit size until the first sweep has found the best coordinates.
    prior_a = np.ones(rank)
    if not problem.factors.prior.is_learned:
        prior_a, prior_b = problem.factors.priors(prior_a, prior_b)
    idle = start_idle(data, problem.factors, noise) if problem.has_idle else None
    b, b_cov = np.column_stack([b, np.zeros(p)]), np.zeros((p, rank + 1, rank + 1))
    return DenseState(b, b_cov, prior_a, prior_b, noise, idle=idle)


def with_one_more(state: DenseState, data: IncompleteRows) -> DenseState:
    """The state with one more component: the strongest in the residuals of observed cells.

    Its size is divided by the share of observed cells, because zeros in the holes weaken it.
    """
    n, p = data.shape
    data = state.scales.applied(data)
    rest = data.matrix(_rest, state.columns(), state.scales.root)
    found = decompose(rest, plan=solve, center=data.centred, n_needed=1)
    gamma = float(found.spectrum.singular_values[0] * found.spectrum.scale)
    size = max(gamma * np.sqrt(n * p) / float(data.column_counts.sum()), 1e-6)
    H = state.rank
    new = to_numpy(found.right(1)[0, :]) * np.sqrt(p * size)
    b = np.insert(to_numpy(state.b), H, new, axis=1)
    b_cov = np.insert(np.insert(to_numpy(state.b_cov), H, 0.0, axis=1), H, 0.0, axis=2)
    prior_a, prior_b = (np.append(prior, size) for prior in (state.prior_a, state.prior_b))
    return replace(state, b=b, b_cov=b_cov, prior_a=prior_a, prior_b=prior_b, energy=np.inf)


def _rest(data: Holes, columns: Columns, root: FloatArray | None) -> Array:
    """√w·x/root − b̃ᵀã in observed cells, times the root of cell weights; 0 elsewhere."""
    xp = array_namespace(data.values)
    over = 1.0 if root is None else at(data.values, root)
    rest = data.values / over
    right, a = at(rest, columns.b.T), latent_means(replace(data, values=rest), columns)
    if data.unweighted is not None:
        rest = data.unweighted / over
    for block in device_blocks(data, columns.rank):
        ones = xp.ones_like(rest[block.rows, :1])
        counts = ones if block.weights is None else at(rest, block.weights.root)[:, None]
        both = xp.concat([a[block.rows, :], counts], axis=1)
        left = rest[block.rows, :] * counts - xp.matmul(both, right)
        seen = taken(block.seen, block.pattern)
        if data.unweighted is not None:
            left, seen = left * xp.sqrt(seen), seen > 0
        rest[block.rows, :] = xp.where(seen, left, 0 * left)
    return rest


def with_equal_cells(state: DenseState, data: IncompleteRows) -> DenseState:
    """The state with noise of cells that is still equal, apart from known errors."""
    assert isinstance(data, Holes)
    precision = floats(data.mask) if data.known is None else data.known
    scales = replace(state.scales, cells=given_cells(precision))
    return replace(state, scales=scales, energy=np.inf)


def clipped(data: IncompleteRows) -> IncompleteRows:
    """Data with gross errors clipped to `FAR` robust standard deviations of their column."""
    assert isinstance(data, Holes)
    sizes = np.abs(np.where(data.mask, data.values, np.nan))
    most = FAR * USUAL * np.nanmedian(sizes, axis=0)
    return replace(data, values=np.clip(data.values, -most, most))


# Most rounds, and the relative fall of the free energy at which they end.
ROUNDS = 500
CALM = 1e-8
# Tolerance while ranks are still being compared.
ROUGHLY_CALM = 1e-5
# Rounds that may cost no more than one sweep: about as many are run for each sweep saved.
FOR_A_SWEEP = 1.5
# Fixed cost of the calls in a round and in a sweep, in multiplications.
CALLS_OF_ROUND, CALLS_OF_SWEEP = 1.5e6, 1.5e6
# Noise, relative to the mean square of the data, below which only sweeps are used: if columns
# depend on each other, there are many minima with hardly any noise.
LEAST_NOISE = 1e-4


@dataclass(frozen=True)
class Sizes:
    """Sizes that determine the work: rows, columns, and the number of holes in each pattern."""

    n: int
    p: int
    holes: Counts

    @classmethod
    def of(cls, data: Holes) -> Sizes:
        n, p = data.shape
        seen = np.asarray(data.patterns, dtype=np.bool_)
        return cls(n, p, np.asarray(p - seen.sum(axis=1), dtype=np.int64))

    def work_of_round(self) -> float:
        """Multiplications in a round of EM.

        It takes two products with p×p matrices, an inverse for the holes of each pattern with its
        gathering, and eigenvectors of a p×p matrix.
        """
        h = self.holes.astype(np.float64)
        of_patterns = float((h**3 + 10 * h**2).sum())
        return 2.0 * self.n * self.p**2 + of_patterns + 10.0 * self.p**3 + CALLS_OF_ROUND

    def work_of_sweep(self, H: int) -> float:
        """Multiplications in a sweep: Gram matrices, column sums, inverses by pattern, scores."""
        m = self.holes.size
        of_patterns = m * (1.0 * self.p * H**2 + H**3)
        return of_patterns + 2.0 * self.n * self.p * H + CALLS_OF_SWEEP


def covariance_pays(sizes: Sizes, rank: int) -> bool:
    """Whether rounds over the covariance of the features cost less than the sweeps they save."""
    enough = sizes.n > sizes.p
    return enough and FOR_A_SWEEP * sizes.work_of_round() <= sizes.work_of_sweep(rank)


def by_covariance(
    data: IncompleteRows,
    problem: DenseProblem,
    *,
    rank: int,
    noise_variance: float,
    given: float | None = None,
) -> ByCovariance | None:
    """EM over the covariance of the features if it applies and pays, otherwise None.

    It applies to empirical VB of rows on the host that all have the same weight. `rank` and
    `noise_variance` are what sweeps would start with; `given` is a noise variance that is fixed.
    """
    if not (problem.prunes and isinstance(data, Holes) and is_numpy_array(data.values)):
        return None
    counts_differ = data.weights is not None or data.unweighted is not None
    if counts_differ or data.known is not None or noise_variance <= LEAST_NOISE:
        return None
    return ByCovariance(data, problem, given) if covariance_pays(Sizes.of(data), rank) else None


@dataclass(frozen=True, eq=False)
class ByCovariance:
    """Runs of EM over rows that were divided by the root of their scales."""

    data: Holes
    problem: DenseProblem
    noise: float | None = None

    @cached_property
    def _em(self) -> CovarianceEM:
        noise = "auto" if self.noise is None else self.noise
        return CovarianceEM(self.data, self.problem.most, noise, self.problem.least_noise or 0.0)

    def start(self, filled: Filled) -> DenseState | None:
        """State that rounds reach from a filled matrix at the best rank; None if it lacks noise.

        Each round keeps the components that filled the holes in the one before, so superfluous
        ones do not vanish by themselves. The search therefore tries lower ranks.
        """
        L = (filled.right * np.sqrt(filled.spread)[:, None]).T
        begun = row_normal(np.zeros(len(L)), L, filled.noise_variance)
        if self.problem.exactly:
            return self._state(self._run(begun))
        rough = self._run(begun, tol=ROUGHLY_CALM)
        best, _ = searched(
            rough,
            self._em.step,
            less=RowNormal.with_one_less,
            more=lambda _: None,
            max_iter=ROUNDS,
            tol=CALM,
            chart=CovarianceChart(),
            slack=np.inf,
        )
        return self._state(self._run(best.state) if best is rough else best)

    def with_rank(self, state: DenseState, rank: int) -> DenseState | None:
        """Continue from a state of the sweeps with another rank; None if that has no solution."""
        b = to_numpy(state.b)
        L = b[:, : state.rank] * np.sqrt(state.prior_a)
        begun = row_normal(b[:, -1].copy(), L[:, :rank], state.noise_variance, rank)
        found = self._state(self._run(begun))
        return None if found is None or found.rank != rank else found

    def _run(self, begun: RowNormal, *, tol: float = CALM) -> Run[RowNormal]:
        """Run rounds until they settle or hardly any noise is left."""
        return run(
            self._em.step,
            begun,
            max_iter=ROUNDS,
            tol=tol,
            # With an imposed rank a round may raise the free energy; it is a start all the same.
            slack=np.inf,
            callback=lambda number, info: info.noise_variance <= LEAST_NOISE,
            chart=CovarianceChart(),
        )

    def _state(self, found: Run[RowNormal]) -> DenseState | None:
        """State of the sweeps where rounds have ended; None if hardly any noise is left.

        Loadings are as uncertain as the observed cells of their column leave them.
        """
        normal = found.state
        if normal.noise_variance <= LEAST_NOISE:
            return None
        assert normal.moments is not None
        data, H, s2 = self.data, normal.rank, normal.noise_variance
        p, n = normal.mean.size, data.shape[0]
        moments = normal.moments.with_equal_priors()
        counts = np.maximum(data.column_counts, 1)
        b_cov = np.zeros((p, H + 1, H + 1))
        h = np.arange(H)
        b_cov[:, h, h] = moments.variance_b[:H] * (n / counts)[:, None]
        b_cov[:, H, H] = s2 / counts * data.centred
        b = np.column_stack([normal.directions * moments.mean_b[:H], normal.mean])
        prior_a, prior_b = moments.prior_variance_a[:H].copy(), moments.prior_variance_b[:H].copy()
        return DenseState(b, b_cov, prior_a, prior_b, s2)
