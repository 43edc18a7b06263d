"""The problem that is solved for a matrix with holes, and the state of its sweeps.

A state has coordinates (`DenseChart`) and may have idle components. Under VB with a given prior,
components with mean zero are idle: they differ from the prior. All of them are alike, and
independent of each other and of the other components, with one variance vᵢ for each row of A and
one sⱼ for each row of B,

    1/vᵢ = 1/cₐ² + Σⱼsⱼ/σ²,  1/sⱼ = 1/c_b² + Σᵢvᵢ/σ²

over observed cells, whatever the number of idle components. They raise the noise by what they fit.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from bayespca.arrays.namespaces import array_namespace, to_numpy
from bayespca.arrays.packing import turned
from bayespca.arrays.places import at, taken
from bayespca.arrays.types import Array, FloatArray, Vector
from bayespca.inference.accelerating import StatePoint
from bayespca.lowrank.aligning import FURTHEST, Loadings, change_of_root, logarithm
from bayespca.lowrank.factors import Factors
from bayespca.lowrank.holes import Holes, IncompleteRows
from bayespca.lowrank.noise_models import ISOTROPIC, NoiseModel
from bayespca.lowrank.rows import Columns
from bayespca.lowrank.scales import learned, most_likely
from bayespca.spectrum.families import VB
from bayespca.spectrum.tolerances import LEAST_NOISE_WITH_HOLES

from .scales import Estimate, NoiseScales


@dataclass(frozen=True)
class DenseProblem:
    """The problem: family and priors of A and B, and the largest number of components, `most`.

    `least_noise` is None if the noise is given, otherwise the smallest noise allowed. With
    `keeps_all`, the rank is `most`. With `exactly`, components stay unless they vanish, even if the
    free energy is lower without them. `noise` says what has noise of its own.
    """

    factors: Factors
    most: int
    least_noise: float | None = LEAST_NOISE_WITH_HOLES
    keeps_all: bool = False
    exactly: bool = False
    noise: NoiseModel = ISOTROPIC

    @property
    def prunes(self) -> bool:
        """Whether components are dropped when the free energy is lower without them."""
        is_empirical = self.factors.prior.is_learned and self.factors.family == VB
        return is_empirical and not self.exactly

    @property
    def estimate(self) -> Estimate:
        """The function that estimates variances from squares."""
        return most_likely if self.keeps_all else learned

    @property
    def scale_is_free(self) -> bool:
        """Whether a common factor may move freely between the noise variance and the scales.

        A given prior is in units of the scales, whose geometric mean is fixed at 1.
        """
        prior = self.factors.prior
        return prior.is_learned or not np.isfinite(prior.variance)

    @property
    def has_idle(self) -> bool:
        """Whether idle components differ from their prior, and so have to be counted."""
        return not self.factors.prior.is_learned and self.factors.family == VB


@dataclass(frozen=True, eq=False)
class DenseState:
    """Everything the next sweep needs; A follows from it.

    `b` and `b_cov` are mean (p, H+1) and covariance (p, H+1, H+1) of the rows of (B, μ). `scales`
    holds the noise of rows, columns and cells; everything else, priors included, refers to data
    divided by its root. `idle` is the variance of the loadings of each idle component, whose mean
    is zero; `n_gone` counts components that have become 0; `energy` is the free energy, and `batch`
    the number of components to try to drop at once. `reach` is the factor by which the last change
    of the noise (of each column's, if they have their own) must be multiplied to arrive where many
    sweeps would.
    """

    b: Array
    b_cov: Array
    prior_a: FloatArray
    prior_b: FloatArray
    noise_variance: float
    scales: NoiseScales = field(default_factory=NoiseScales)
    idle: FloatArray | None = None
    n_gone: int = 0
    energy: float = np.inf
    batch: int = 1
    reach: FloatArray = field(default_factory=lambda: np.ones(1))

    @property
    def rank(self) -> int:
        return int(self.prior_a.size)

    def columns(self, *, integrated: bool = True) -> Columns:
        """The moments of (B, μ), the prior and the noise that the update of rows needs."""
        return Columns(self.b, self.b_cov, self.prior_a, self.noise_variance, integrated)

    def at_unit_scale(self) -> DenseState:
        """The state with scales of unit size; noise, priors and loadings absorb the former size."""
        scales = self.scales
        rows, columns, cells = (
            1.0 if side is None else side.size
            for side in (scales.rows, scales.columns, scales.cells)
        )
        return replace(
            self,
            scales=scales.at_unit_scale(),
            b=self.b * columns**0.5,
            b_cov=self.b_cov * columns,
            prior_a=self.prior_a * rows,
            prior_b=self.prior_b * columns,
            noise_variance=self.noise_variance * rows * columns * cells,
            idle=None if self.idle is None else self.idle * columns,
        )

    def without(self, h: int) -> DenseState:
        """The state with one component less."""
        keep = np.delete(np.arange(self.rank + 1), h)
        return replace(
            self,
            b=taken(self.b, keep, axis=1),
            b_cov=taken(taken(self.b_cov, keep, axis=1), keep, axis=2),
            prior_a=np.delete(self.prior_a, h),
            prior_b=np.delete(self.prior_b, h),
        )

    def without_weakest(self, count: int) -> DenseState:
        """The state without its last `count` components."""
        state = self
        for h in range(self.rank - 1, self.rank - 1 - count, -1):
            state = state.without(h)
        return state


@dataclass(frozen=True, eq=False)
class Idle:
    """Moments of `count` idle components.

    `b` is s (p,), `a` is Σᵢvᵢ over the observed rows of each column (p,), `total_a` is Σᵢvᵢ over
    all rows, and `log_a` is Σᵢlog vᵢ.
    """

    count: int
    b: FloatArray
    a: FloatArray
    total_a: float
    log_a: float
    factors: Factors

    @property
    def overlap(self) -> FloatArray:
        """Contribution of idle components to Σ⟨(x − b̃ᵀã)²⟩ of each column."""
        return self.count * self.a * self.b

    @property
    def energy(self) -> float:
        """KL divergence of all idle components from the prior."""
        prior_a, prior_b = self.factors.priors(np.ones(1), np.ones(1))
        of_a = self.factors.energy_of_a(np.array([self.total_a]), prior_a, self.log_a)
        log_b = float(np.log(self.b).sum())
        of_b = self.factors.energy_of_b(np.array([self.b.sum()]), prior_b, log_b)
        return self.count * (of_a + of_b)


def start_idle(data: IncompleteRows, factors: Factors, noise_variance: float) -> FloatArray:
    """s, with v at its prior."""
    prior = factors.prior
    return 1 / (
        1 / prior.variance + data.share * data.column_counts * prior.variance_a / noise_variance
    )


def update_idle(
    b: FloatArray, data: IncompleteRows, factors: Factors, count: int, noise_variance: float
) -> Idle:
    """Update v, then s, then the scale that v and s share."""
    prior, s2 = factors.prior, noise_variance
    a, total, log_a = data.total(_over_rows, b / s2, 1 / prior.variance_a, data.share)
    b = 1 / (1 / prior.variance + a / s2)
    found = factors.best_turn(np.array([[total]]), np.array([[b.sum()]]))
    if found is not None:
        f2 = float(found[0][0, 0]) ** 2
        a, total, b = a * f2, total * f2, b / f2
        log_a += data.freedom * float(np.log(f2))
    return Idle(count, b, a, total, log_a, factors)


def gain_of_idle(state: DenseState, data: IncompleteRows, problem: DenseProblem) -> FloatArray:
    """−½ log vᵢ/cₐ² of each row, summed over all idle components."""
    assert state.idle is not None
    prior = problem.factors.prior.variance_a
    more = data.total(_summed_over_columns, state.idle * prior / state.noise_variance)
    return 0.5 * (problem.most - state.rank) * np.log1p(np.concatenate(more))


def squares_of_idle(state: DenseState, data: Holes, problem: DenseProblem) -> FloatArray:
    """Contribution of all idle components to the expected squares of cells, over σ²."""
    assert state.idle is not None
    prior, s2 = problem.factors.prior, state.noise_variance
    v = data.share * data.shares / (1 / prior.variance_a + data.over_columns(state.idle / s2))
    return (problem.most - state.rank) / s2 * v[:, None] * state.idle


def _summed_over_columns(data: Holes, of_columns: FloatArray) -> list[FloatArray]:
    return [data.over_columns(of_columns)[data.pattern]]


def _over_rows(
    data: Holes, of_columns: FloatArray, of_prior: float, share: float
) -> tuple[FloatArray, float, float]:
    """Σᵢvᵢ over the observed rows of each column, Σᵢvᵢ and Σᵢlog vᵢ over all."""
    v = 1 / (of_prior + data.over_columns(of_columns))
    weights = share * data.shares
    return data.over_patterns(weights * v), float(weights @ v), float(weights @ np.log(v))


def with_more(state: DenseState, problem: DenseProblem, count: int) -> DenseState:
    """Give `count` idle components a mean as large as their spread.

    If the data support them, they grow from there; otherwise they become idle again.
    """
    assert state.idle is not None
    p, H = state.b.shape[0], state.rank
    wide = H + count + 1
    b, b_cov = np.zeros((p, wide)), np.zeros((p, wide, wide))
    old, new = np.append(np.arange(H), wide - 1), np.arange(H, H + count)
    b[:, old], b_cov[:, old[:, None], old] = to_numpy(state.b), to_numpy(state.b_cov)
    b_cov[:, new, new] = state.idle[:, None]
    # Any directions will do; random signs are unrelated to the data.
    signs = np.random.default_rng(H).choice([-1.0, 1.0], size=(p, count))
    b[:, new] = np.sqrt(state.idle)[:, None] * signs
    prior_a, prior_b = problem.factors.priors(np.ones(count), np.ones(count))
    return replace(
        state,
        b=b,
        b_cov=b_cov,
        prior_a=np.append(state.prior_a, prior_a),
        prior_b=np.append(state.prior_b, prior_b),
    )


@dataclass(frozen=True)
class DenseChart:
    """Coordinates of a state: W = B·diag(cₐ), the log covariance of W, μ, and log noise.

    The scores of W have unit prior variance. The covariance is summed over columns. The noise is
    σ², or σ²v of each column; it is left out if it is given. W·Q with an orthogonal Q fits as well,
    so W is turned to be like another one. The covariances of all columns are scaled alike; the rest
    of the state follows in a step.
    """

    data: IncompleteRows
    problem: DenseProblem

    def point(self, state: DenseState, like: Vector | None) -> StatePoint:
        parts = self._parts(state).aligned(like)
        reach, size = np.ones(parts.vector.size), parts.rest.size - len(parts.W)
        reach[reach.size - size :] = state.reach[:size]
        return StatePoint(parts.vector, self._errors(state, parts), reach)

    def at(self, state: DenseState, vector: Vector) -> DenseState:
        here = self._parts(state)
        goal = here.at(vector).turned_to(here.W)
        (mean, noise), before = (np.split(x.rest, [len(x.W)]) for x in (goal, here))
        new = self._with_noise(state, np.clip(noise, before[1] - FURTHEST, before[1] + FURTHEST))
        b = np.column_stack([goal.W / np.sqrt(state.prior_a), mean])
        new = replace(new, b=at(state.b, b / _root(new)[:, None]), energy=np.inf)
        if goal.spread.size:
            # The logarithm of their sum for W becomes that of the goal.
            H, c = state.rank, np.sqrt(state.prior_a)
            change = np.eye(H + 1)
            change[:H, :H] = change_of_root(here.spread, goal.spread) * c / c[:, None]
            new = replace(new, b_cov=turned(state.b_cov, at(state.b, change)))
        if not self.problem.factors.prior.is_learned:
            return new
        # Learned priors of B grow as the loadings do.
        size, after = _squares(state), _squares(new)
        growth = np.divide(after, size, out=np.ones_like(size), where=size > 0)
        return replace(new, prior_b=np.maximum(new.prior_b * growth, self.problem.factors.least))

    def _parts(self, state: DenseState) -> Loadings:
        xp, problem = array_namespace(state.b), self.problem
        H, root, c = state.rank, _root(state), np.sqrt(state.prior_a)
        b, noise = to_numpy(state.b) * root[:, None], np.empty(0)
        if problem.noise.columns:
            noise = np.log(state.noise_variance) + 2 * np.log(root)
        elif problem.least_noise is not None:
            noise = np.log([state.noise_variance])
        spread, total = np.empty((0, 0)), to_numpy(xp.sum(state.b_cov, axis=0))[:H, :H]
        if problem.factors.family.integrates_b and (np.diag(total) > 0).all():
            spread = logarithm(total * c * c[:, None])
        return Loadings(b[:, :H] * c, spread, np.concatenate([b[:, H], noise]))

    def _errors(self, state: DenseState, parts: Loadings) -> FloatArray:
        (n, p), counts = self.data.shape, np.maximum(self.data.column_counts, 1)
        error = np.sqrt(state.noise_variance / n) * _root(state)
        total = counts if self.problem.noise.columns else counts.sum(keepdims=True)
        noise = np.sqrt(2 * state.reach / total)[: parts.rest.size - p]
        spread = np.full(parts.spread.size, np.sqrt(2 / p))
        return np.concatenate([np.repeat(error, state.rank), spread, error, noise])

    def _with_noise(self, state: DenseState, logs: FloatArray) -> DenseState:
        problem, scales, noise = self.problem, state.scales, state.noise_variance
        if not logs.size:
            return state
        if not problem.noise.columns:
            assert problem.least_noise is not None
            return replace(state, noise_variance=max(float(np.exp(logs[0])), problem.least_noise))
        if not problem.scale_is_free:
            logs = logs - logs.mean() + np.log(noise)
        return replace(state, scales=scales.with_columns(noise * np.exp(-logs)))


def _root(state: DenseState) -> FloatArray:
    """Numbers by which columns are divided."""
    root = state.scales.root
    return np.ones(state.b.shape[0]) if root is None else root


def _squares(state: DenseState) -> FloatArray:
    """⟨‖b‖²⟩ of each component."""
    xp, H = array_namespace(state.b), state.rank
    cov = to_numpy(xp.sum(xp.linalg.diagonal(state.b_cov), axis=0))
    return np.asarray((to_numpy(state.b)[:, :H] ** 2).sum(axis=0) + cov[:H])
