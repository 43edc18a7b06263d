"""Sweeps over ratings: factors, biases, priors and the noise of a matrix that is mostly empty.

    x_ij = m + u_i + v_j + Σₕ a_ih b_jh + ε,  u ~ N(0, c_u²), v ~ N(0, c_v²), a ~ N(0, cₐ²), …

for the observed cells (aistats2014 Section 4.1, with biases). The posterior is r(A, u)·r(B, v),
where each row θᵢ = (aᵢ, uᵢ) and each column (bⱼ, vⱼ) has its own covariance, which is 0 if the
factor is point-estimated. All prior variances are learned. m has a flat prior and no uncertainty.

After each sweep, means are shifted between A and v, between B and u, and between biases and m, and
the latent space is turned and stretched, to where the free energy is lowest; none of this changes
the likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.packing import packed, turned, unpacked
from bayespca.arrays.types import FloatArray, Vector
from bayespca.inference.accelerating import StatePoint
from bayespca.inference.loop import Info
from bayespca.lowrank.aligning import FURTHEST, Loadings, change_of_root, logarithm
from bayespca.lowrank.factors import FactorMoments, Factors
from bayespca.spectrum.families import VB
from bayespca.spectrum.tolerances import LEAST_NOISE_WITH_HOLES, VANISHED

from .data import RatingsCells, Sweep, SweepTask
from .kernels import regressors

# Nats per row or column that a component hardly ever costs.
COSTLY = 5.0


@dataclass(frozen=True)
class RatingsProblem:
    """The problem to solve; `fixed_noise` is None if the noise is learned."""

    factors: Factors
    biases: bool
    fixed_noise: float | None = None

    @property
    def prunes(self) -> bool:
        """Whether components are dropped when the free energy is lower without them."""
        return self.factors.family == VB


@dataclass(frozen=True, eq=False)
class RatingsState:
    """Everything the next sweep needs; rows follow from it.

    `b` holds the means of the columns' (b, v) (m, K), and `b_cov` their packed covariances, which
    have no rows if columns are point-estimated; `prior_a` and `prior_b` (K,) end with the biases.
    """

    b: FloatArray
    b_cov: FloatArray
    prior_a: FloatArray
    prior_b: FloatArray
    noise_variance: float
    location: float = 0.0
    n_gone: int = 0
    biases: bool = True

    @property
    def rank(self) -> int:
        return int(self.prior_a.size) - self.biases

    def without(self, h: int) -> RatingsState:
        i, j = np.triu_indices(self.b.shape[1])
        return replace(
            self,
            b=np.delete(self.b, h, axis=1),
            b_cov=self.b_cov[:, (i != h) & (j != h)],
            prior_a=np.delete(self.prior_a, h),
            prior_b=np.delete(self.prior_b, h),
        )


# --- one sweep ---------------------------------------------------------------------------------


def step(
    state: RatingsState, data: RatingsCells, problem: RatingsProblem
) -> tuple[RatingsState, Info]:
    """One sweep: update rows, columns, coordinates, priors, noise and rank."""
    sweep = data.swept(task_of(state, problem))
    settled = _settled(sweep, state.n_gone, data, problem)
    settled = _with_components_that_pay(settled, sweep, data)
    columns, kept, K = sweep.columns, settled.kept, sweep.task.prior_b.size
    to_b = settled.coordinates.to_b[kept]
    T, shift = to_b[:, :K], to_b[:, K]
    cov = np.zeros((0, kept.size * (kept.size + 1) // 2))
    if len(columns.cov):
        cov = packed(T @ unpacked(columns.cov, K) @ T.T)
    new = RatingsState(
        b=columns.mean @ T.T + shift,
        b_cov=cov,
        prior_a=settled.moments.prior_a,
        prior_b=settled.moments.prior_b,
        noise_variance=settled.noise_variance,
        location=settled.coordinates.location,
        n_gone=settled.moments.n_gone,
        biases=problem.biases,
    )
    return new, Info(settled.free_energy, settled.rank, settled.noise_variance)


def task_of(state: RatingsState, problem: RatingsProblem) -> SweepTask:
    """The part of a state that a sweep needs."""
    family, biases = problem.factors.family, problem.biases
    return SweepTask(
        given=regressors(state.b, state.b_cov, state.location, biases=biases),
        prior_a=state.prior_a,
        prior_b=state.prior_b,
        s2=state.noise_variance,
        location=state.location,
        integrates_a=family.integrates_a,
        integrates_b=family.integrates_b,
        biases=biases,
    )


# --- coordinates -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Coordinates:
    """New coordinates (a, u, 1) ↦ Tₐ(a, u, 1), likewise for columns, and the m that goes with them.

    `Ma` and `Mb` are Σ⟨(θ, 1)(θ, 1)ᵀ⟩ over rows and over columns in these coordinates.
    """

    to_a: FloatArray
    to_b: FloatArray
    Ma: FloatArray
    Mb: FloatArray
    location: float

    def moved(self, of_a: FloatArray, of_b: FloatArray, shift: float = 0.0) -> Coordinates:
        return Coordinates(
            of_a @ self.to_a,
            of_b @ self.to_b,
            of_a @ self.Ma @ of_a.T,
            of_b @ self.Mb @ of_b.T,
            self.location - shift,
        )


@dataclass(frozen=True, eq=False)
class SettledRatings:
    """Result of a sweep in the best coordinates.

    `moments` are those in these coordinates, `kept` the components that stay, bias included, and
    `residual` is Σ⟨(x − ãᵀb̃)²⟩ over the cells.
    """

    problem: RatingsProblem
    coordinates: Coordinates
    moments: FactorMoments
    residual: float
    n_cells: int
    kept: NDArray[np.intp]

    @property
    def rank(self) -> int:
        return int(self.kept.size) - self.problem.biases

    @property
    def noise_variance(self) -> float:
        if self.problem.fixed_noise is not None:
            return self.problem.fixed_noise
        return max(self.residual / self.n_cells, LEAST_NOISE_WITH_HOLES)

    @property
    def free_energy(self) -> float:
        """½N log 2πσ² + ⟨residual⟩/2σ² + the energies of both factors with their biases."""
        factors = self.problem.factors
        energy = self.moments.free_energy(
            factors,
            residual=self.residual,
            n_cells=self.n_cells,
            noise_variance=self.noise_variance,
        )
        return energy + self.moments.n_gone * factors.gone_energy


def _settled(
    sweep: Sweep, n_gone: int, data: RatingsCells, problem: RatingsProblem
) -> SettledRatings:
    (n, m), family = data.shape, problem.factors.family
    coordinates, log_det = _best_coordinates(sweep, problem)
    Sa, Sb = np.diag(coordinates.Ma)[:-1], np.diag(coordinates.Mb)[:-1]
    # The best prior variances are equal in A and B for components, separate for the biases.
    H, least = Sa.size - problem.biases, problem.factors.least
    prior_a, prior_b = problem.factors.priors(Sa[:H], Sb[:H])
    if problem.biases:
        prior_a = np.append(prior_a, max(Sa[H] / n, least))
        prior_b = np.append(prior_b, max(Sb[H] / m, least))
    moments = FactorMoments(
        Sa=Sa,
        Sb=Sb,
        prior_a=prior_a,
        prior_b=prior_b,
        log_det_a=sweep.log_det_a + n * log_det * family.integrates_a,
        log_det_b=float(sweep.columns.log_dets.sum()) - m * log_det * family.integrates_b,
        n_gone=n_gone,
    )
    kept = np.arange(Sa.size)
    return SettledRatings(problem, coordinates, moments, sweep.residual, data.n_cells, kept)


def _best_coordinates(sweep: Sweep, problem: RatingsProblem) -> tuple[Coordinates, float]:
    """Coordinates with the lowest free energy, and 2·log|R| of the turn R of A."""
    task, Ma, Mb = sweep.task, sweep.augmented_a, sweep.columns.augmented
    found = Coordinates(np.eye(len(Ma)), np.eye(len(Mb)), Ma, Mb, task.location)
    if problem.biases:
        # a − α in exchange for v + αᵀb + β and m − β; then the same with the sides exchanged.
        move, own = _best_shift(found.Ma, found.Mb, task.prior_a, task.prior_b)
        found = found.moved(own, move, float(move[-2, -1]))
        move, own = _best_shift(found.Mb, found.Ma, task.prior_b, task.prior_a)
        found = found.moved(move, own, float(move[-2, -1]))
    H = task.prior_a.size - problem.biases
    turn = problem.factors.best_turn(found.Ma[:H, :H], found.Mb[:H, :H])
    if turn is None:
        return found, 0.0
    R, back = np.eye(len(Ma)), np.eye(len(Ma))
    R[:H, :H], back[:H, :H] = turn[0].T, turn[1]
    return found.moved(R, back), 2 * float(np.linalg.slogdet(turn[0])[1])


def _best_shift(
    M: FloatArray, other: FloatArray, prior: FloatArray, prior_other: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The maps for v + αᵀb + β and for a − α that are most probable under the priors.

    (n/cₐ² + ΣzzᵀC/c_v²)(α, β) = (Σa/cₐ², 0) − Σzv/c_v² with z = (b, 1).
    """
    H = len(prior) - 1
    z = np.append(np.arange(H), H + 1)
    left = other[np.ix_(z, z)] / prior_other[H]
    left[range(H), range(H)] += M[-1, -1] / prior[:H]
    right = -other[z, H] / prior_other[H]
    right[:H] += M[:H, -1] / prior[:H]
    shift = np.linalg.solve(left, right)
    own, move = np.eye(len(M)), np.eye(len(M))
    own[:H, -1] = -shift[:H]
    move[H, z] += shift
    return move, own


# --- dropping components -----------------------------------------------------------------------


def _with_components_that_pay(
    settled: SettledRatings, sweep: Sweep, data: RatingsCells
) -> SettledRatings:
    """Drop components that are zero or, under empirical VB, do not pay."""
    H, moments = settled.rank, settled.moments
    if settled.problem.prunes:
        if not H:
            return settled
        # A component that in evenly spread cells explains more nats than it could cost clearly
        # pays, which saves a test.
        n, m = data.shape
        explained = data.n_cells * moments.Sa[H - 1] / n * moments.Sb[H - 1] / m
        if explained / (2 * settled.noise_variance) > COSTLY * (n + m):
            return settled
        less = _without(settled, H - 1, sweep)
        return less if less.free_energy < settled.free_energy else settled
    gone = moments.Sa[:H] * moments.Sb[:H] <= VANISHED**2 * float(data.n_cells)
    gone |= moments.prior_a[:H] <= settled.problem.factors.least
    for h in np.flatnonzero(gone)[::-1]:
        settled = _without(settled, h, sweep)
        counted = replace(settled.moments, n_gone=settled.moments.n_gone + 1)
        settled = replace(settled, moments=counted)
    return settled


def _without(settled: SettledRatings, h: int, sweep: Sweep) -> SettledRatings:
    """Drop component h and keep everything else; those dropped before had higher indices."""
    task, to = sweep.task, settled.coordinates
    along_a = along_b = 0.0
    unit = np.eye(task.prior_a.size)[h]
    if task.integrates_a:
        along_a = sweep.rows.log_precisions(np.linalg.solve(to.to_a[:-1, :-1], unit))
    if task.integrates_b:
        w = np.linalg.solve(to.to_b[:-1, :-1], unit)
        along = sweep.rows.along(w) / task.s2
        along_b = float(np.log(along + w @ (w / task.prior_b)).sum())
    return replace(
        settled,
        moments=settled.moments.without(h, along_a=along_a, along_b=along_b),
        residual=settled.residual + _residual_without(to, h, sweep),
        kept=np.delete(settled.kept, h),
    )


def _residual_without(to: Coordinates, h: int, sweep: Sweep) -> float:
    """Increase of Σ⟨(x − ãᵀb̃)²⟩ without component h, for ã = (a, u, 1) and b̃ = (b, 1, v + m).

    2Σ⟨(x − ãᵀb̃)aₕbₕ⟩ + Σ⟨aₕ²⟩⟨bₕ²⟩
    """
    b, bb, b2 = sweep.columns.with_component(to.to_b, h)
    if sweep.task.biases:
        # b̃ has the 1 where ã has u, and v + m where ã has the 1.
        bb = bb[:, [*range(bb.shape[1] - 2), -1, -2]]
        bb[:, -1] += sweep.task.location * b
    else:
        bb = bb[:, :-1]
    right = np.column_stack([bb, -0.5 * b2])
    return 2 * sweep.rows.beside(to.to_a, h, b, right)


# --- states as vectors -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RatingsChart:
    """Coordinates of a state: W = B·diag(cₐ), its log covariance, v, m, and log variances.

    W is turned to be like another one, and its covariance is summed over columns. The variances are
    c_u², c_v², and σ² if it is learned. Rows follow in a step; the priors of B grow as the loadings
    do.
    """

    data: RatingsCells
    problem: RatingsProblem

    def point(self, state: RatingsState, like: Vector | None) -> StatePoint | None:
        has_begun = (state.b_cov[:, :1] > 0).all()
        if not state.b.size or not has_begun:
            return None
        return StatePoint(_parts(state, self.problem).aligned(like).vector, self._errors(state))

    def at(self, state: RatingsState, vector: Vector) -> RatingsState:
        here = _parts(state, self.problem)
        goal = here.at(vector).turned_to(here.W)
        c, H = np.sqrt(state.prior_a[: state.rank]), state.rank
        new = self._with_rest(state, goal.rest, here.rest)
        new = replace(new, b=np.column_stack([goal.W / c, new.b[:, H:]]))
        if goal.spread.size:
            change = np.eye(state.b.shape[1])
            change[:H, :H] = change_of_root(here.spread, goal.spread) * c / c[:, None]
            cov = turned(unpacked(state.b_cov, len(change)), change)
            new = replace(new, b_cov=packed(cov))
        before, after = _squares(state), _squares(new)
        growth = np.divide(after, before, out=np.ones_like(before), where=before > 0)[:H]
        grown = np.maximum(new.prior_b[:H] * growth, self.problem.factors.least)
        return replace(new, prior_b=np.append(grown, new.prior_b[H:]))

    def _with_rest(self, state: RatingsState, goal: FloatArray, here: FloatArray) -> RatingsState:
        """The state with the biases and variances of a goal, or part of the way if that is far."""
        m, fixed = self.data.shape[1], self.problem.fixed_noise
        n_logs = 2 * state.biases + (fixed is None)
        first = goal.size - n_logs
        logs = np.clip(goal[first:], here[first:] - FURTHEST, here[first:] + FURTHEST)
        new, variances = state, np.exp(logs)
        if fixed is None:
            noise = max(float(variances[-1]), LEAST_NOISE_WITH_HOLES)
            new = replace(new, noise_variance=noise)
        if not state.biases:
            return new
        return replace(
            new,
            b=np.column_stack([state.b[:, :-1], goal[:m]]),
            location=float(goal[m]),
            prior_a=np.append(state.prior_a[:-1], variances[0]),
            prior_b=np.append(state.prior_b[:-1], variances[1]),
        )

    def _errors(self, state: RatingsState) -> FloatArray:
        """Standard errors by the normal equations, entry by entry: 1/√(Nⱼ/σ² + 1/c²)."""
        (n, m), s2, H = self.data.shape, state.noise_variance, state.rank
        counts = self.data.column_counts / s2
        c2 = np.append((state.prior_a * state.prior_b)[:H], state.prior_b[H:])
        errors = 1 / np.sqrt(counts[:, None] + 1 / np.maximum(c2, self.problem.factors.least))
        spread = np.full(H * H * (len(state.b_cov) > 0), np.sqrt(2 / m))
        biases = [np.sqrt(s2 / self.data.n_cells), np.sqrt(2 / n), np.sqrt(2 / m)]
        noise = [np.sqrt(2 / self.data.n_cells)] * (self.problem.fixed_noise is None)
        rest = (biases if state.biases else []) + noise
        return np.concatenate([errors[:, :H].ravel(), spread, errors[:, H:].ravel(), rest])


def _parts(state: RatingsState, problem: RatingsProblem) -> Loadings:
    H, c = state.rank, np.sqrt(state.prior_a[: state.rank])
    spread = np.empty((0, 0))
    if len(state.b_cov):
        total = unpacked(state.b_cov.sum(axis=0), state.b.shape[1])[:H, :H]
        spread = logarithm(total * c * c[:, None])
    rest = np.empty(0)
    if state.biases:
        logs = np.log([state.prior_a[-1], state.prior_b[-1]])
        rest = np.concatenate([state.b[:, -1], [state.location], logs])
    noise = [] if problem.fixed_noise is not None else [np.log(state.noise_variance)]
    return Loadings(state.b[:, :H] * c, spread, np.append(rest, noise))


def _squares(state: RatingsState) -> FloatArray:
    """⟨‖b‖²⟩ of each component, and of the bias."""
    K = state.b.shape[1]
    total = (state.b**2).sum(axis=0)
    if len(state.b_cov):
        total = total + np.diag(unpacked(state.b_cov.sum(axis=0), K))
    return np.asarray(total)
