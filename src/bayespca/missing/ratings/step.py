"""Sweeps over ratings: factors, biases, priors and the noise of a matrix that is mostly empty.

    x_ij = m + u_i + v_j + Σₕ a_ih b_jh + ε,  u ~ N(0, c_u²), v ~ N(0, c_v²), a ~ N(0, cₐ²), …

for the cells that are there (aistats2014 Section 4.1, with biases). The posterior is
r(A, u)·r(B, v), where each row θᵢ = (aᵢ, uᵢ) has its own covariance, and so has each column
(bⱼ, vⱼ); it is 0 where a factor is point-estimated. All prior variances are learned. m has a flat
prior and no uncertainty.

After each sweep A is moved against v, B against u and both against m, and the latent space turned
and stretched, to where the free energy is lowest; the likelihood does not see any of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.packing import packed, unpacked
from bayespca.arrays.types import FloatArray
from bayespca.inference.loop import Info
from bayespca.lowrank.factors import Factors
from bayespca.spectrum.families import VB
from bayespca.spectrum.tolerances import LEAST_NOISE_WITH_HOLES, VANISHED

from .cells import sum_of_products, weighted_sum
from .data import Ratings, Side
from .kernels import Found, Regressors, updated

# Nats that a component hardly ever costs for a row or a column.
COSTLY = 5.0


@dataclass(frozen=True)
class Model:
    """What is to be fitted; `fixed_noise` is None where the noise is learned."""

    factors: Factors
    biases: bool
    fixed_noise: float | None = None

    @property
    def prunes(self) -> bool:
        """Whether components go when the free energy is lower without them."""
        return self.factors.family == VB


@dataclass(frozen=True, eq=False)
class State:
    """All that the next sweep needs: rows follow from it.

    `b` are the means of the columns' (b, v) (m, K), `b_cov` their covariances, packed, without rows
    where they are point-estimated; `prior_a` and `prior_b` (K,) end with those of the biases.
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


# --- one sweep ---------------------------------------------------------------------------------


class Elsewhere(Protocol):
    """Cells whose rows are not here: they are swept where they are."""

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def n_cells(self) -> int: ...
    @property
    def squares(self) -> float: ...
    @property
    def location(self) -> float: ...
    @property
    def unit(self) -> float: ...

    def swept(self, state: State, model: Model) -> Sweep: ...


Cells = Ratings | Elsewhere


def step(state: State, data: Cells, model: Model) -> tuple[State, Info]:
    """Rows, columns, the best coordinates, priors, noise, and components that pay."""
    sweep = swept(state, data, model) if isinstance(data, Ratings) else data.swept(state, model)
    settled = _settled(sweep, data, model)
    settled = _with_components_that_pay(settled, sweep, data, model)
    return _next(settled, sweep, model), _info(settled, model)


def rows_of(state: State, data: Ratings, model: Model) -> Found:
    """The posterior of rows that follows from a state."""
    given = regressors(state.b, state.b_cov, state.location, biases=model.biases)
    integrated = model.factors.family.integrates_a
    return updated(data.by_rows, given, state.prior_a, state.noise_variance, integrated)


def regressors(mean: FloatArray, cov: FloatArray, location: float, *, biases: bool) -> Regressors:
    """What a factor is to the other; m goes with its bias."""
    K = mean.shape[1]
    i, j = np.triu_indices(K)
    second = mean[:, i] * mean[:, j]
    if len(cov):
        second += cov
    if not biases:
        return Regressors(second, mean, np.zeros_like(mean))
    last = j == K - 1
    z = mean.copy()
    z[:, -1] = 1.0
    drift = second[:, last] + location * mean
    drift[:, -1] = mean[:, -1] + location
    second[:, last] = z
    return Regressors(second, z, drift)


class Rows(Protocol):
    """What a sweep can be asked of the rows that it went through, in the coordinates of the state
    it began with.
    """

    def log_precisions(self, w: FloatArray) -> float:
        """Σᵢ log wᵀΣᵢ⁻¹w"""

    def along(self, w: FloatArray) -> FloatArray:
        """Σ wᵀ⟨zzᵀ⟩w over the cells of each column, for z = (a, 1), or a without biases."""

    def beside(self, to: FloatArray, h: int, b: FloatArray, right: FloatArray) -> float:
        """Σ xᵢⱼ⟨aᵢₕ⟩bⱼ − Σ(⟨ãᵢaᵢₕ⟩, ⟨aᵢₕ²⟩)ᵀrightⱼ over the cells, for component h after `to`."""


@dataclass(frozen=True, eq=False)
class Sweep:
    """What a sweep has found, in the coordinates of the state it began with.

    `augmented_a` is Σ⟨(θ, 1)(θ, 1)ᵀ⟩ over the rows, `log_det_a` their Σ log|Σᵢ|, `squares`
    Σ⟨(x − u − m)²⟩ over the cells.
    """

    state: State
    rows: Rows
    columns: Found
    augmented_a: FloatArray
    log_det_a: float
    squares: float

    @property
    def residual(self) -> float:
        """Σ⟨(x − ãᵀb̃)²⟩ over the cells."""
        return self.squares + float(self.columns.fits.sum())


# --- rows in memory ----------------------------------------------------------------------------


def swept(state: State, data: Ratings, model: Model) -> Sweep:
    """Rows, then columns, from cells that are sorted both ways."""
    family, s2 = model.factors.family, state.noise_variance
    given_b = regressors(state.b, state.b_cov, state.location, biases=model.biases)
    found = updated(data.by_rows, given_b, state.prior_a, s2, family.integrates_a)
    given_a = regressors(found.mean, found.cov, state.location, biases=model.biases)
    columns = updated(data.by_columns, given_a, state.prior_b, s2, family.integrates_b)
    squares = data.squares
    if model.biases:
        squares += squares_of_biases(data.by_rows, found, state.location)
    return Sweep(
        state=state,
        rows=RowsHere(data, found, given_a, given_b, state),
        columns=columns,
        augmented_a=augmented(found),
        log_det_a=float(found.log_dets.sum()),
        squares=squares,
    )


def squares_of_biases(side: Side, rows: Found, location: float) -> float:
    """Σ⟨(x − u − m)²⟩ − Σx² over the cells."""
    u = rows.mean[:, -1] + location
    second = u * u + (rows.cov[:, -1] if len(rows.cov) else 0.0)
    return float(side.counts @ second - 2 * side.totals @ u)


@dataclass(frozen=True, eq=False)
class RowsHere:
    """Rows in memory, as `Rows`."""

    data: Ratings
    found: Found
    given_a: Regressors
    given_b: Regressors
    state: State

    def log_precisions(self, w: FloatArray) -> float:
        s2, prior = self.state.noise_variance, self.state.prior_a
        of_columns = quadratic(self.given_b.second, w) / s2
        return log_precisions(self.data.by_rows, of_columns, float(w @ (w / prior)))

    def along(self, w: FloatArray) -> FloatArray:
        return self.data.by_columns.sums(quadratic(self.given_a.second, w))

    def beside(self, to: FloatArray, h: int, b: FloatArray, right: FloatArray) -> float:
        a, aa, a2 = _with_one_component(self.found, to, h)
        left = np.column_stack([aa if self.state.biases else aa[:, :-1], a2])
        side = self.data.by_rows
        return weighted_sum(side, a, b) - sum_of_products(side, left, right)


def log_precisions(side: Side, of_columns: FloatArray, of_prior: float) -> float:
    """Σᵢ log wᵀΣᵢ⁻¹w, from wᵀ⟨zⱼzⱼᵀ⟩w/σ² of each column and Σw²/c²."""
    return float(np.log(side.sums(of_columns) + of_prior).sum())


# --- coordinates -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Settled:
    """The best coordinates: (a, u, 1) ↦ Tₐ(a, u, 1) and the same for columns, the sums of squares
    there, and what the free energy is made of.
    """

    to_a: FloatArray
    to_b: FloatArray
    location: float
    Sa: FloatArray
    Sb: FloatArray
    prior_a: FloatArray
    prior_b: FloatArray
    log_det_a: float
    log_det_b: float
    residual: float
    n_cells: int
    n_gone: int
    kept: NDArray[np.intp]
    fixed_noise: float | None

    @property
    def noise_variance(self) -> float:
        if self.fixed_noise is not None:
            return self.fixed_noise
        return max(self.residual / self.n_cells, LEAST_NOISE_WITH_HOLES)

    def free_energy(self, model: Model) -> float:
        """½N log 2πσ² + ⟨residual⟩/2σ² + the energies of both factors with their biases."""
        s2, factors = self.noise_variance, model.factors
        likelihood = 0.5 * (self.n_cells * np.log(2 * np.pi * s2) + self.residual / s2)
        of_a = factors.energy_of_a(self.Sa, self.prior_a, self.log_det_a)
        of_b = factors.energy_of_b(self.Sb, self.prior_b, self.log_det_b)
        return float(likelihood + of_a + of_b + self.n_gone * factors.gone_energy)


def _settled(sweep: Sweep, data: Cells, model: Model) -> Settled:
    state, H = sweep.state, sweep.state.rank
    Ma, Mb = sweep.augmented_a, augmented(sweep.columns)
    to_a, to_b = np.eye(len(Ma)), np.eye(len(Mb))
    location = state.location
    if model.biases:
        # a − α, and v + αᵀb + β in exchange, with m − β; then the same with the sides changed.
        move, own = _best_shift(Ma, Mb, state.prior_a, state.prior_b)
        Ma, Mb = own @ Ma @ own.T, move @ Mb @ move.T
        to_a, to_b, location = own @ to_a, move @ to_b, location - float(move[-2, -1])
        move, own = _best_shift(Mb, Ma, state.prior_b, state.prior_a)
        Mb, Ma = own @ Mb @ own.T, move @ Ma @ move.T
        to_b, to_a, location = own @ to_b, move @ to_a, location - float(move[-2, -1])
    found = model.factors.best_turn(Ma[:H, :H], Mb[:H, :H])
    log_det = 0.0
    if found is not None:
        R, back = np.eye(len(Ma)), np.eye(len(Ma))
        R[:H, :H], back[:H, :H] = found[0].T, found[1]
        to_a, to_b = R @ to_a, back @ to_b
        Ma, Mb = R @ Ma @ R.T, back @ Mb @ back.T
        log_det = 2 * float(np.linalg.slogdet(found[0])[1])
    n, m = data.shape
    Sa, Sb = np.diag(Ma)[:-1], np.diag(Mb)[:-1]
    family = model.factors.family
    prior_a, prior_b = _best_priors(Sa, Sb, data.shape, model)
    return Settled(
        to_a=to_a,
        to_b=to_b,
        location=location,
        Sa=Sa,
        Sb=Sb,
        prior_a=prior_a,
        prior_b=prior_b,
        log_det_a=sweep.log_det_a + n * log_det * family.integrates_a,
        log_det_b=float(sweep.columns.log_dets.sum()) - m * log_det * family.integrates_b,
        residual=sweep.residual,
        n_cells=data.n_cells,
        n_gone=state.n_gone,
        kept=np.arange(H + model.biases),
        fixed_noise=model.fixed_noise,
    )


def augmented(found: Found) -> FloatArray:
    """Σ⟨(θ, 1)(θ, 1)ᵀ⟩ over the rows of a factor."""
    K = found.mean.shape[1]
    out = np.zeros((K + 1, K + 1))
    out[:K, :K] = found.mean.T @ found.mean
    if len(found.cov):
        out[:K, :K] += unpacked(found.cov.sum(axis=0), K)
    out[:K, K] = out[K, :K] = found.mean.sum(axis=0)
    out[K, K] = len(found.mean)
    return out


def _best_shift(
    M: FloatArray, other: FloatArray, prior: FloatArray, prior_other: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The maps for a − α, and for v + αᵀb + β, that the priors like best.

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


def _best_priors(
    Sa: FloatArray, Sb: FloatArray, shape: tuple[int, int], model: Model
) -> tuple[FloatArray, FloatArray]:
    """Those of the components are equal for A and B, those of the biases each its own."""
    H = Sa.size - model.biases
    prior_a, prior_b = model.factors.priors(Sa[:H], Sb[:H])
    if not model.biases:
        return prior_a, prior_b
    least = model.factors.least
    n, m = shape
    return (
        np.append(prior_a, max(Sa[H] / n, least)),
        np.append(prior_b, max(Sb[H] / m, least)),
    )


# --- components that go ------------------------------------------------------------------------


def _with_components_that_pay(settled: Settled, sweep: Sweep, data: Cells, model: Model) -> Settled:
    """Without components that are zero or, under empirical VB, better left out."""
    H = sweep.state.rank
    if model.prunes:
        if not H or _is_plain(settled, H - 1, data):
            return settled
        less = _without(settled, H - 1, sweep, model)
        return less if less.free_energy(model) < settled.free_energy(model) else settled
    size = float(data.n_cells)
    gone = settled.Sa[:H] * settled.Sb[:H] <= VANISHED**2 * size
    gone |= settled.prior_a[:H] <= model.factors.least
    for h in np.flatnonzero(gone)[::-1]:
        settled = _without(settled, h, sweep, model)
        settled = replace(settled, n_gone=settled.n_gone + 1)
    return settled


def _is_plain(settled: Settled, h: int, data: Cells) -> bool:
    """Whether a component explains so much that it need not be seen whether it pays.

    What it explains, were cells spread evenly, against more nats than rows and columns could cost.
    """
    n, m = data.shape
    explained = data.n_cells * settled.Sa[h] / n * settled.Sb[h] / m
    return bool(explained / (2 * settled.noise_variance) > COSTLY * (n + m))


def _without(settled: Settled, h: int, sweep: Sweep, model: Model) -> Settled:
    """Without a component, everything else as it is: |Σ₋ₕ| = |Σ|·(Σ⁻¹)ₕₕ."""
    family, state = model.factors.family, sweep.state
    log_det_a, log_det_b = settled.log_det_a, settled.log_det_b
    if family.integrates_a:
        w = np.linalg.solve(settled.to_a[:-1, :-1], np.eye(state.b.shape[1])[h])
        log_det_a += sweep.rows.log_precisions(w)
    if family.integrates_b:
        w = np.linalg.solve(settled.to_b[:-1, :-1], np.eye(state.b.shape[1])[h])
        along = sweep.rows.along(w) / state.noise_variance
        log_det_b += float(np.log(along + w @ (w / state.prior_b)).sum())
    keep = np.delete(np.arange(settled.kept.size), np.flatnonzero(settled.kept == h))
    return replace(
        settled,
        Sa=settled.Sa[keep],
        Sb=settled.Sb[keep],
        prior_a=settled.prior_a[keep],
        prior_b=settled.prior_b[keep],
        log_det_a=log_det_a,
        log_det_b=log_det_b,
        residual=settled.residual + _residual_without(settled, h, sweep, model),
        kept=settled.kept[keep],
    )


def quadratic(second: FloatArray, w: FloatArray) -> FloatArray:
    """wᵀ⟨zzᵀ⟩w of each row, from packed matrices."""
    i, j = np.triu_indices(w.size)
    return np.asarray(second @ (w[i] * w[j] * np.where(i == j, 1.0, 2.0)))


def _residual_without(settled: Settled, h: int, sweep: Sweep, model: Model) -> float:
    """What Σ⟨(x − ãᵀb̃)²⟩ gains for ã = (a, u, 1) and b̃ = (b, 1, v + m).

    2Σ⟨(x − ãᵀb̃)aₕbₕ⟩ + Σ⟨aₕ²⟩⟨bₕ²⟩
    """
    b, bb, b2 = _with_one_component(sweep.columns, settled.to_b, h)
    if model.biases:
        # b̃ has the 1 where ã has u, and v + m where ã has the 1.
        bb = bb[:, [*range(bb.shape[1] - 2), -1, -2]]
        bb[:, -1] += sweep.state.location * b
    else:
        bb = bb[:, :-1]
    right = np.column_stack([bb, -0.5 * b2])
    return 2 * sweep.rows.beside(settled.to_a, h, b, right)


def _with_one_component(
    found: Found, to: FloatArray, h: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """⟨aₕ⟩, ⟨(θ, 1)aₕ⟩ and ⟨aₕ²⟩ of each row, for the component h of the new coordinates."""
    K = found.mean.shape[1]
    w, shift = to[h, :K], to[h, K]
    a = found.mean @ w + shift
    second = np.column_stack([found.mean * a[:, None], a])
    a2 = a * a
    if len(found.cov):
        spread = unpacked(found.cov, K) @ w
        second[:, :K] += spread
        a2 = a2 + spread @ w
    return a, second, a2


# --- the state that follows --------------------------------------------------------------------


def _next(settled: Settled, sweep: Sweep, model: Model) -> State:
    """Columns in the new coordinates."""
    K = sweep.state.b.shape[1]
    T, shift = settled.to_b[settled.kept, :K], settled.to_b[settled.kept, K]
    cov = sweep.columns.cov
    if len(cov):
        cov = packed(T @ unpacked(cov, K) @ T.T)
    else:
        cov = np.zeros((0, settled.kept.size * (settled.kept.size + 1) // 2))
    return State(
        b=sweep.columns.mean @ T.T + shift,
        b_cov=cov,
        prior_a=settled.prior_a,
        prior_b=settled.prior_b,
        noise_variance=settled.noise_variance,
        location=settled.location,
        n_gone=settled.n_gone,
        biases=model.biases,
    )


def without_weakest(state: State) -> State:
    """One component less."""
    K, h = state.b.shape[1], state.rank - 1
    i, j = np.triu_indices(K)
    return replace(
        state,
        b=np.delete(state.b, h, axis=1),
        b_cov=state.b_cov[:, (i != h) & (j != h)],
        prior_a=np.delete(state.prior_a, h),
        prior_b=np.delete(state.prior_b, h),
    )


def _info(settled: Settled, model: Model) -> Info:
    rank = settled.kept.size - model.biases
    return Info(settled.free_energy(model), rank, settled.noise_variance)
