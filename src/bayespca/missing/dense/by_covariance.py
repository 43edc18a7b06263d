"""Starts and trial ranks by EM over the covariance of the features, if that is cheaper than sweeps.

A round of EM (`lowrank.covariance`) works on h×h matrices for h holes and on p×p matrices; a sweep
works on H×H matrices for H components. If most directions carry signal, a hundred rounds take the
time of a few sweeps and leave few sweeps to be made.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayespca.arrays.namespaces import is_numpy_array, to_numpy
from bayespca.arrays.types import Counts
from bayespca.inference.loop import Info, Run, run
from bayespca.inference.search import searched
from bayespca.lowrank.covariance import CovarianceChart, CovarianceEM, RowNormal, row_normal
from bayespca.lowrank.filling import Filled
from bayespca.lowrank.holes import Holes, IncompleteRows

from .state import DenseProblem, DenseState

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
            callback=_has_hardly_noise,
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


def _has_hardly_noise(number: int, info: Info) -> bool:
    return info.noise_variance <= LEAST_NOISE
