"""Sweeps over a matrix with holes: one update for every family and every prior.

    x_ij = Σₕ a_ih b_jh + μ_j + ε,  a_ih ~ N(0, cₐₕ²),  b_jh ~ N(0, c_bₕ²),  ε ~ N(0, σ²)

for the cells that are observed, with a flat prior on μ. The posterior is r(A)·r(B, μ), each a
product over its rows (aistats2014 Eq. 13–16 with a sum over observed cells in place of all). The
mean is one more column of B whose partner in A is known to be 1. A point-estimated factor has
covariance 0 in ⟨·⟩ and nowhere else a difference; μ is then integrated out given B.

The mean takes one row: of n complete rows the closed form sees M = n − 1, in the direction in which
all are equal nothing is known of A, and nothing is paid for it. With holes that direction is not a
row of its own, so each row pays M/n of its covariance: its share in likelihood and in KL. Where
there are no holes this is the closed form's free energy, exactly.

After each sweep the latent space is moved, turned and stretched to where the free energy is lowest:
zero mean of A, and ⟨AᵀA⟩ and ⟨BᵀB⟩ diagonal (`inference.factors`).

The moments of columns are where the sums over rows are, on a device or on the host; what has the
size of components, and one number for each column, is on the host.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.namespaces import array_namespace, device, to_numpy
from bayespca.arrays.packing import packed, times, turned
from bayespca.arrays.places import at, brought, taken
from bayespca.arrays.threads import beside
from bayespca.arrays.types import Array, FloatArray
from bayespca.inference.loop import Info
from bayespca.inference.rounding import is_rounding
from bayespca.lowrank.factors import Factors
from bayespca.lowrank.holes import Sample
from bayespca.lowrank.kernels import given_gram
from bayespca.lowrank.moments import FactorMoments
from bayespca.lowrank.rows import Columns, Sums, log_precision_along, second_moments, sums_over_rows
from bayespca.spectrum.families import VB
from bayespca.spectrum.tolerances import LEAST_NOISE_WITH_HOLES, LOG_2PI, VANISHED, VANISHING

from .idle import Idle, update_idle


@dataclass(frozen=True)
class Model:
    """What is to be fitted: families and priors of A and B, the number of components in all.

    `least_noise` is None where the noise is given, else the smallest that it may become. With
    `keeps_all`, their number is the rank.
    """

    factors: Factors
    most: int
    least_noise: float | None = LEAST_NOISE_WITH_HOLES
    keeps_all: bool = False

    @property
    def prunes(self) -> bool:
        """Whether components go when the free energy is lower without them."""
        return self.factors.prior.is_learned and self.factors.family == VB

    @property
    def has_idle(self) -> bool:
        """Whether components without a mean differ from their prior, and so have to be counted."""
        return not self.factors.prior.is_learned and self.factors.family == VB


@dataclass(frozen=True, eq=False)
class State:
    """All that the next sweep needs: A follows from it.

    `b` and `b_cov` are mean (p, H+1) and covariance (p, H+1, H+1) of the rows of (B, μ). With
    `psi`, each feature has a noise variance of its own: everything else is then of data divided by
    √ψ, whose noise variance is 1, the prior of the loadings included. `idle` is the variance of the
    loadings of each further component, which has no mean; `n_gone` counts those that have become 0;
    `energy` is the free energy, and `batch` the number of components to try to do without.
    """

    b: Array
    b_cov: Array
    prior_a: FloatArray
    prior_b: FloatArray
    noise_variance: float
    psi: FloatArray | None = None
    idle: FloatArray | None = None
    n_gone: int = 0
    energy: float = np.inf
    batch: int = 1

    @property
    def rank(self) -> int:
        return int(self.prior_a.size)


# --- one sweep ---------------------------------------------------------------------------------


def step(state: State, data: Sample, model: Model) -> tuple[State, Info]:
    """A sweep, unless it is lost in rounding errors.

    After one in which a component did not pay, one with several less is tried as well.
    """
    new = sweep(state, data, model)
    if model.prunes and new.rank < state.rank:
        new = replace(new, batch=max(2, state.batch // 2))
    if 1 < state.batch <= state.rank:
        less = sweep(without_weakest(state, state.batch), data, model)
        new = replace(less, batch=2 * state.batch) if less.energy < new.energy else new
    squares = data.squares if state.psi is None else data.squares / state.psi
    if is_rounding(state.energy, new.energy, float(squares.sum()), 1 / state.noise_variance):
        new = state
    noise = new.noise_variance if new.psi is None else float(new.psi.mean())
    return new, Info(new.energy, new.rank, noise)


def sweep(state: State, data: Sample, model: Model) -> State:
    """Rows, columns, the best coordinates, priors, components that pay, noise."""
    root = None if state.psi is None else np.sqrt(state.psi)
    columns = columns_of(state, integrated=model.factors.family.integrates_a)
    sums = sums_over_rows(data, columns, share=data.share, root=root)
    before = _Before(state, columns, sums, data)
    with beside(sums.second):
        found = _update_columns(state, data, sums, model)
        state, parts, turn = _settled(state, found, data, sums, model)
        state, parts = _with_components_that_pay(state, parts, turn, before, model)
        state, parts = _with_best_noise(state, parts, model)
    energy = parts.free_energy
    if state.psi is not None:
        energy += 0.5 * float((data.column_counts - data.centred) @ np.log(state.psi))
    return replace(state, energy=energy, batch=1)


def columns_of(state: State, *, integrated: bool = True) -> Columns:
    """What rows need to know of a state."""
    return Columns(state.b, state.b_cov, state.prior_a, state.noise_variance, integrated)


@dataclass(frozen=True, eq=False)
class _Loadings:
    """r(bⱼ, μⱼ), and Σⱼ log|·| of what is integrated out of them."""

    b: Array
    b_cov: Array
    log_det: Any


def _update_columns(state: State, data: Sample, sums: Sums, model: Model) -> _Loadings:
    """r(bⱼ, μⱼ): what columns do with rows is what rows do with columns."""
    xp = array_namespace(sums.second)
    H, p, s2 = state.rank, state.b.shape[0], state.noise_variance
    known, joint = H + data.centred, model.factors.family.integrates_b
    gram = packed(sums.second[:, :known, :known])
    ridge = np.append(s2 / state.prior_b, np.zeros(known - H))
    if data.centred and not data.column_counts.all():
        # A column without any value: its mean stays, with an error as large as the data.
        gram[:, -1] += s2 * at(gram, data.column_counts == 0)
    # Of μ where b is known; not all kernels leave the Gram matrices as they are.
    alone = s2 / gram[:, -1] if data.centred and not joint else None
    pull = xp.asarray(sums.cross[:, :known], copy=True)
    b, b_cov, log_dets = given_gram(gram.T, pull, np.arange(p + 1), ridge, s2)
    if not joint:
        b_cov, log_dets = xp.zeros_like(b_cov), 0 * log_dets
        if alone is not None:
            b_cov[:, H, H], log_dets = alone, xp.log(alone)
    if not data.centred:
        b, b_cov = _with_known_mean(b, b_cov)
    return _Loadings(b, b_cov, xp.sum(log_dets))


def _with_known_mean(b: Array, b_cov: Array) -> tuple[Array, Array]:
    """Moments of (b, 0) from those of b."""
    xp, place = array_namespace(b), device(b)
    p, H = b.shape
    mean = xp.zeros((p, H + 1), dtype=b.dtype, device=place)
    cov = xp.zeros((p, H + 1, H + 1), dtype=b.dtype, device=place)
    mean[:, :H], cov[:, :H, :H] = b, b_cov
    return mean, cov


def _settled(
    state: State, found: _Loadings, data: Sample, sums: Sums, model: Model
) -> tuple[State, Parts, _Turn]:
    """The state in the best coordinates with the best priors, its free energy, and how it came
    there.
    """
    xp = array_namespace(sums.second)
    (n, p), H, family = data.shape, state.rank, model.factors.family
    b = found.b[:, :H]
    Sbb = b.T @ b + xp.sum(found.b_cov[:, :H, :H], axis=0)
    everything, Sbb, log_det_a, log_det_b, misfit = brought(
        sums.everything, Sbb, sums.log_det, found.log_det, _misfit(found, sums)
    )
    mean = everything[:H, H] / n * data.centred
    Saa = everything[:H, :H] - n * np.outer(mean, mean)
    R, back = model.factors.best_turn(Saa, Sbb) or (np.eye(H), np.eye(H))
    log_det = 2 * float(np.linalg.slogdet(R)[1])
    Sa, Sb = np.diag(R.T @ Saa @ R), np.diag(back @ Sbb @ back.T)
    prior_a, prior_b = model.factors.priors(Sa, Sb)
    turn = _Turn.of(R, back, mean, found.b)
    b, b_cov = found.b @ turn.of_b.T, turned(found.b_cov, turn.of_b)
    idle = None
    if state.idle is not None:
        idle = update_idle(state.idle, data, model.factors, model.most - H, state.noise_variance)
    squares = data.squares if state.psi is None else data.squares / state.psi
    parts = Parts(
        factors=model.factors,
        has_mean=data.centred,
        counts=data.column_counts,
        squares=squares,
        residuals=squares + misfit + (0.0 if idle is None else idle.overlap),
        moments=FactorMoments(
            Sa=Sa,
            Sb=Sb,
            prior_a=prior_a,
            prior_b=prior_b,
            log_det_a=float(log_det_a) + data.freedom * log_det,
            log_det_b=float(log_det_b) - p * log_det * family.integrates_b,
            n_gone=state.n_gone if model.factors.prior.is_learned else model.most - H,
        ),
        noise_variance=state.noise_variance,
        idle=idle,
    )
    state = replace(state, b=b, b_cov=b_cov, prior_a=prior_a, prior_b=prior_b)
    return replace(state, idle=None if idle is None else idle.b), parts, turn


def _misfit(found: _Loadings, sums: Sums) -> Array:
    """Σ⟨(x − b̃ᵀã)²⟩ − Σx² over the observed cells of each column."""
    xp = array_namespace(sums.second)
    fitted = xp.sum(second_moments(found.b, found.b_cov) * sums.second, axis=(1, 2))
    return fitted - 2 * xp.sum(sums.cross * found.b, axis=1)


@dataclass(frozen=True, eq=False)
class _Turn:
    """New coordinates: ã ↦ (Rᵀ(a − mean), 1) and b̃ ↦ (R⁻¹b, μ + bᵀmean).

    `of_a` and `of_b` are these maps where the sums over rows are, `change` is the first of them on
    the host, and `back` R⁻¹.
    """

    of_a: Array
    of_b: Array
    change: FloatArray
    back: FloatArray

    @classmethod
    def of(cls, R: FloatArray, back: FloatArray, mean: FloatArray, like: Array) -> _Turn:
        H = mean.size
        both = np.stack([np.eye(H + 1), np.eye(H + 1)])
        both[0, :H, :H], both[0, :H, H] = R.T, -R.T @ mean
        both[1, :H, :H], both[1, H, :H] = back, mean
        there = at(like, both)
        return cls(there[0, :, :], there[1, :, :], both[0], back)


# --- the free energy ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Parts:
    """What the free energy is made of.

    Of each column: counts are the observed cells, squares is Σx², residuals Σ⟨(x − b̃ᵀã)²⟩. Where B
    is point-estimated, `moments.log_det_b` is that of μ.
    """

    factors: Factors
    has_mean: bool
    counts: FloatArray
    squares: FloatArray
    residuals: FloatArray
    moments: FactorMoments
    noise_variance: float
    idle: Idle | None

    @property
    def free_energy(self) -> float:
        """½N log 2πσ² + ⟨residual⟩/2σ² + the energies of A, B and μ.

        The flat prior of μⱼ has density √nⱼ, so that complete data have the free energy of M rows
        without a mean.
        """
        energy = self.moments.free_energy(
            self.factors,
            residual=float(self.residuals.sum()),
            n_cells=float(self.counts.sum()),
            noise_variance=self.noise_variance,
        )
        return float(energy + self._energy_of_mean + self._energy_of_others)

    @property
    def _energy_of_mean(self) -> float:
        energy = 0.0 if self.factors.family.integrates_b else -0.5 * self.moments.log_det_b
        if self.has_mean:
            p = self.counts.size
            energy -= 0.5 * (p * (1 + LOG_2PI) + np.log(np.maximum(self.counts, 1)).sum())
        return energy

    @property
    def _energy_of_others(self) -> float:
        """The components that are idle, or gone."""
        if self.idle is not None:
            return self.idle.energy
        return self.moments.n_gone * self.factors.gone_energy

    def at_best_noise(self, least: float | None) -> Parts:
        """With the noise where the free energy is lowest, unless it is given."""
        if least is None:
            return self
        best = float(self.residuals.sum()) / float(self.counts.sum())
        return replace(self, noise_variance=max(best, least))


def _with_best_noise(state: State, parts: Parts, model: Model) -> tuple[State, Parts]:
    if state.psi is not None:
        return _with_best_psi(state, parts, model)
    parts = parts.at_best_noise(model.least_noise)
    return replace(state, noise_variance=parts.noise_variance), parts


def _with_best_psi(state: State, parts: Parts, model: Model) -> tuple[State, Parts]:
    """ψⱼ·φⱼ that minimises the free energy at the posterior of A and (B, μ), feature by feature.

    φⱼ is the mean over ⟨residual²⟩ of the nⱼ observed cells and ⟨bⱼₕ²⟩/c_bₕ² of the loadings that
    have a proper prior, which is in units of the noise as well. Everything in units of √ψ is
    rescaled.
    """
    H, psi = state.rank, state.psi
    assert psi is not None
    assert model.least_noise is not None
    xp = array_namespace(state.b)
    variances = xp.linalg.diagonal(state.b_cov)[:, :H]
    loadings = to_numpy(state.b[:, :H] ** 2 + variances)
    prior = loadings @ (1 / state.prior_b)
    count = H * np.isfinite(model.factors.prior.variance)
    if parts.idle is not None:
        prior += parts.idle.count * parts.idle.b / model.factors.prior.variance
        count += parts.idle.count
    phi = np.maximum((parts.residuals + prior) / (parts.counts + count), model.least_noise / psi)
    scaled = replace(
        parts,
        squares=parts.squares / phi,
        residuals=parts.residuals / phi,
        moments=replace(
            parts.moments,
            Sb=(loadings / phi[:, None]).sum(axis=0),
            log_det_b=parts.moments.log_det_b
            - _integrated_entries(parts, H) * float(np.log(phi).sum()),
        ),
        idle=None if parts.idle is None else parts.idle.rescaled(phi),
    )
    there = at(state.b, phi)
    b, b_cov = state.b / xp.sqrt(there)[:, None], state.b_cov / there[:, None, None]
    idle = None if scaled.idle is None else scaled.idle.b
    return replace(state, b=b, b_cov=b_cov, psi=psi * phi, idle=idle), scaled


def _integrated_entries(parts: Parts, H: int) -> int:
    """Of (bⱼ, μⱼ)."""
    return H * parts.factors.family.integrates_b + parts.has_mean


# --- components that go, and come --------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Before:
    """What a sweep began with: its state, what rows saw of it, and what came of that."""

    state: State
    columns: Columns
    sums: Sums
    data: Sample


def _with_components_that_pay(
    state: State, parts: Parts, turn: _Turn, before: _Before, model: Model
) -> tuple[State, Parts]:
    """Without components that are zero or, under empirical VB, better left out."""
    if model.prunes:
        return _without_weakest(state, parts, turn, before, model)
    if model.has_idle or model.keeps_all:
        return state, parts
    size, moments = float(parts.squares.sum()), parts.moments
    gone = np.flatnonzero(moments.Sa * moments.Sb <= VANISHED**2 * size)
    if parts.factors.prior.is_learned:
        gone = np.union1d(gone, np.flatnonzero(moments.prior_a <= parts.factors.least))
    present = np.ones(state.rank + 1)
    settled = state
    for h in gone[::-1]:
        parts = _parts_without(parts, h, present, settled, turn, before)
        moments = replace(parts.moments, n_gone=parts.moments.n_gone + 1)
        parts = replace(parts, moments=moments)
        state, present[h] = without_component(state, h), 0.0
    return replace(state, n_gone=parts.moments.n_gone), parts


def _without_weakest(
    state: State, parts: Parts, turn: _Turn, before: _Before, model: Model
) -> tuple[State, Parts]:
    """Drop the last component if the free energy is lower without it."""
    h = state.rank - 1
    if h < 0:
        return state, parts
    less = _parts_without(parts, h, np.ones(state.rank + 1), state, turn, before)
    least = model.least_noise if state.psi is None else None
    if less.at_best_noise(least).free_energy >= parts.at_best_noise(least).free_energy:
        return state, parts
    return without_component(state, h), less


def _parts_without(
    parts: Parts, h: int, present: FloatArray, state: State, turn: _Turn, before: _Before
) -> Parts:
    """Without a component, of those that are `present`, which are 1: |Σ₋ₕ| = |Σ|·(Σ⁻¹)ₕₕ."""
    family, data, sums = parts.factors.family, before.data, before.sums
    xp, b = array_namespace(state.b), state.b
    # Σ⟨ããᵀ⟩ and ⟨b̃b̃ᵀ⟩ of each column in the new coordinates, the row of the component.
    of_a = times(sums.second, turn.of_a[h, :]) @ turn.of_a.T
    overlap = of_a * (state.b_cov[:, h, :] + b[:, h : h + 1] * b)
    pairs = xp.sum(overlap if present.all() else overlap * at(b, present), axis=1)
    cross = (sums.cross @ turn.of_a[h, :]) * b[:, h]
    misfit = 2 * (pairs - cross) - overlap[:, h]
    along_a = along_b = 0.0
    if family.integrates_a:
        along_a = log_precision_along(data, before.columns, turn.back[h])
    if family.integrates_b:
        along_b = xp.sum(xp.log(_precision(of_a[:, h], h, turn, before)))
    lost, in_a, in_b = brought(misfit, along_a, along_b)
    return replace(
        parts,
        residuals=parts.residuals - lost,
        moments=parts.moments.without(h, along_a=data.share * float(in_a), along_b=float(in_b)),
    )


def _precision(of_a: Array, h: int, turn: _Turn, before: _Before) -> Array:
    """(Σ⁻¹)ₕₕ of (b, μ) of each column in the new coordinates: in the old ones Σ⁻¹ was known.

    `of_a` is Σ⟨aₕ²⟩. A column without values has a mean of precision 1.
    """
    data, change = before.data, turn.change[h]
    of_prior = float(change[:-1] ** 2 @ (1 / before.state.prior_b))
    precision = of_a / before.state.noise_variance + of_prior
    if data.centred and not data.column_counts.all():
        precision = precision + at(of_a, change[-1] ** 2 * (data.column_counts == 0))
    return precision


def without_component(state: State, h: int) -> State:
    """The state with one component less."""
    keep = _others(h, state.rank + 1)
    return replace(
        state,
        b=taken(state.b, keep, axis=1),
        b_cov=taken(taken(state.b_cov, keep, axis=1), keep, axis=2),
        prior_a=np.delete(state.prior_a, h),
        prior_b=np.delete(state.prior_b, h),
    )


def without_weakest(state: State, count: int) -> State:
    """The state without some of its last components."""
    for h in range(state.rank - 1, state.rank - 1 - count, -1):
        state = without_component(state, h)
    return state


def _others(h: int, count: int) -> NDArray[np.intp]:
    return np.delete(np.arange(count), h)


def has_mean(state: State, data: Sample, model: Model) -> NDArray[np.bool_]:
    """Which components are more than their spread: the means of the others vanish by a factor in
    each sweep.
    """
    if model.prunes or model.keeps_all:
        return np.ones(state.rank, dtype=np.bool_)
    H, family = state.rank, model.factors.family
    b, b_cov = to_numpy(state.b)[:, :H], to_numpy(state.b_cov)[:, :H, :H]
    mean_b, spread_b = np.einsum("jh,jh->h", b, b), np.einsum("jhh->h", b_cov)
    mean_a = mean_squares_of_rows(state, data, integrated=False)
    spread_a = np.zeros(H)
    if family.integrates_a:
        spread_a = mean_squares_of_rows(state, data, integrated=True) - mean_a
    large = (mean_b > VANISHING * spread_b) & (mean_a > VANISHING * spread_a)
    return np.asarray(large & (mean_a > 0) & (mean_b > 0))


def mean_squares_of_rows(state: State, data: Sample, *, integrated: bool) -> FloatArray:
    """⟨a²⟩ over the rows, about their mean; without `integrated`, of the posterior means."""
    root = None if state.psi is None else np.sqrt(state.psi)
    columns = columns_of(state, integrated=integrated)
    sums = sums_over_rows(data, columns, share=data.share, root=root)
    (n, _), H, everything = data.shape, state.rank, to_numpy(sums.everything)
    mean = everything[:H, H] / n * data.centred
    return np.asarray((np.diag(everything)[:H] - n * mean**2) / data.freedom)


def with_more(state: State, model: Model, count: int) -> State:
    """Some of the idle components get a mean as large as their spread.

    If the data support them, they grow from there; if not, they become as idle as they were.
    """
    assert state.idle is not None
    p, H = state.b.shape[0], state.rank
    wide = H + count + 1
    b, b_cov = np.zeros((p, wide)), np.zeros((p, wide, wide))
    old, new = np.append(np.arange(H), wide - 1), np.arange(H, H + count)
    b[:, old], b_cov[:, old[:, None], old] = to_numpy(state.b), to_numpy(state.b_cov)
    b_cov[:, new, new] = state.idle[:, None]
    # Any directions will do: signs that have nothing to do with the data.
    signs = np.random.default_rng(H).choice([-1.0, 1.0], size=(p, count))
    b[:, new] = np.sqrt(state.idle)[:, None] * signs
    prior_a, prior_b = model.factors.priors(np.ones(count), np.ones(count))
    return replace(
        state,
        b=b,
        b_cov=b_cov,
        prior_a=np.append(state.prior_a, prior_a),
        prior_b=np.append(state.prior_b, prior_b),
    )
