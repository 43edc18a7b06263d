"""The free energy of a matrix with holes: its parts, the best rank, and the best noise.

Components are dropped if they are zero or, under empirical VB, if they do not pay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayespca.arrays.namespaces import array_namespace, to_numpy
from bayespca.arrays.packing import times
from bayespca.arrays.places import at, brought
from bayespca.arrays.types import Array, FloatArray
from bayespca.lowrank.factors import FactorMoments, Factors
from bayespca.lowrank.holes import IncompleteRows
from bayespca.lowrank.rows import Columns, RowSums, log_precision_along
from bayespca.spectrum.tolerances import LEAST_NOISE_WITH_HOLES, LOG_2PI, VANISHED

from .scales import in_units
from .state import DenseProblem, DenseState, Idle

# Number of cells to assume for a column whose only cell goes to the mean.
HARDLY = 1e-3


@dataclass(frozen=True, eq=False)
class Parts:
    """Parts of the free energy.

    For each column, `counts` is the number of observed cells, `squares` is Σx², `residuals` is
    Σ⟨(x − b̃ᵀã)²⟩, and `spread` the part of these due to the uncertainty of b̃. If B is
    point-estimated, `moments.log_det_b` is that of μ.
    """

    factors: Factors
    has_mean: bool
    counts: FloatArray
    squares: FloatArray
    residuals: FloatArray
    spread: FloatArray
    moments: FactorMoments
    noise_variance: float
    idle: Idle | None

    @property
    def free_energy(self) -> float:
        """½N log 2πσ² + ⟨residual⟩/2σ² + the energies of A, B and μ.

        The flat prior of μⱼ has density √nⱼ, so complete data have the free energy of M rows
        without a mean.
        """
        energy = self.moments.free_energy(
            self.factors,
            residual=float(self.residuals.sum()),
            n_cells=float(self.counts.sum()),
            noise_variance=self.noise_variance,
        )
        if not self.factors.family.integrates_b:
            energy -= 0.5 * self.moments.log_det_b
        if self.has_mean:
            p = self.counts.size
            energy -= 0.5 * (p * (1 + LOG_2PI) + np.log(np.maximum(self.counts, 1)).sum())
        gone = self.moments.n_gone * self.factors.gone_energy
        return float(energy + (gone if self.idle is None else self.idle.energy))

    def at_best_noise(self, least: float | None) -> Parts:
        """The parts at the noise with the lowest free energy; unchanged if the noise is given."""
        if least is None:
            return self
        best = float(self.residuals.sum()) / float(self.counts.sum())
        return replace(self, noise_variance=max(best, least))


def with_best_noise(
    state: DenseState, parts: Parts, data: IncompleteRows, problem: DenseProblem
) -> tuple[DenseState, Parts]:
    parts = parts.at_best_noise(problem.least_noise)
    state = replace(state, noise_variance=parts.noise_variance)
    if not problem.noise.columns:
        return state, parts
    new, less = _with_best_columns(state, parts, problem)
    before = parts.free_energy + state.scales.energy(data)
    # Only rounding errors can raise the free energy; such an update is discarded.
    return (new, less) if less.free_energy + new.scales.energy(data) < before else (state, parts)


def _with_best_columns(
    state: DenseState, parts: Parts, problem: DenseProblem
) -> tuple[DenseState, Parts]:
    """Update r(v) of each column to minimise the free energy, given the posterior in units of v.

    The squares are those of the residuals of the nⱼ observed cells, one of which goes to the mean,
    and of the loadings in units of their prior, both at the means of (b, μ). Covariances are in
    units of v and stay as they are; means are rescaled.
    """
    scales, s2 = state.scales, parts.noise_variance
    assert scales.columns is not None
    assert scales.units is not None
    before, left = scales.columns.precision, parts.residuals - parts.spread
    loadings = to_numpy(state.b[:, : state.rank] ** 2)
    squares = left / s2 + loadings @ (1 / state.prior_b)
    counts = np.maximum(parts.counts - parts.has_mean, HARDLY)
    squares = np.maximum(squares / before, counts * LEAST_NOISE_WITH_HOLES / s2)
    free = problem.scale_is_free
    columns = in_units(problem.estimate, squares, counts, scales.units, is_free=free)
    growth = columns.precision / before
    Sb = parts.moments.Sb + (growth - 1) @ loadings
    scaled = replace(
        parts,
        squares=parts.squares * growth,
        residuals=left * growth + parts.spread,
        moments=replace(parts.moments, Sb=Sb),
    )
    b = state.b * at(state.b, np.sqrt(growth))[:, None]
    return replace(state, b=b, scales=replace(scales, columns=columns)), scaled


@dataclass(frozen=True, eq=False)
class Turn:
    """New coordinates: ã ↦ (Rᵀ(a − mean), 1) and b̃ ↦ (R⁻¹b, μ + bᵀmean).

    `of_a` and `of_b` are these maps, stored where the sums over rows are; `change` is the first of
    them on the host, and `back` is R⁻¹.
    """

    of_a: Array
    of_b: Array
    change: FloatArray
    back: FloatArray

    @classmethod
    def of(cls, R: FloatArray, back: FloatArray, mean: FloatArray, like: Array) -> Turn:
        H = mean.size
        both = np.stack([np.eye(H + 1), np.eye(H + 1)])
        both[0, :H, :H], both[0, :H, H] = R.T, -R.T @ mean
        both[1, :H, :H], both[1, H, :H] = back, mean
        there = at(like, both)
        return cls(there[0, :, :], there[1, :, :], both[0], back)


@dataclass(frozen=True, eq=False)
class Before:
    """Start of a sweep: its state, the columns as rows saw them, and the resulting sums."""

    state: DenseState
    columns: Columns
    sums: RowSums
    data: IncompleteRows


def with_components_that_pay(
    state: DenseState, parts: Parts, turn: Turn, before: Before, problem: DenseProblem
) -> tuple[DenseState, Parts]:
    """Drop components that are zero or, under empirical VB, do not pay."""
    present = np.ones(state.rank + 1)
    if problem.prunes:
        h, least = state.rank - 1, problem.least_noise
        if h < 0:
            return state, parts
        less = _parts_without(parts, h, present, state, turn, before)
        pays = parts.at_best_noise(least).free_energy <= less.at_best_noise(least).free_energy
        return (state, parts) if pays else (state.without(h), less)
    if problem.has_idle or problem.keeps_all:
        return state, parts
    size, moments = float(parts.squares.sum()), parts.moments
    gone = np.flatnonzero(moments.Sa * moments.Sb <= VANISHED**2 * size)
    if parts.factors.prior.is_learned:
        gone = np.union1d(gone, np.flatnonzero(moments.prior_a <= parts.factors.least))
    settled = state
    for h in gone[::-1]:
        parts = _parts_without(parts, h, present, settled, turn, before)
        moments = replace(parts.moments, n_gone=parts.moments.n_gone + 1)
        parts = replace(parts, moments=moments)
        state, present[h] = state.without(h), 0.0
    return replace(state, n_gone=parts.moments.n_gone), parts


def _parts_without(
    parts: Parts, h: int, present: FloatArray, state: DenseState, turn: Turn, before: Before
) -> Parts:
    """Parts without component h, by |Σ₋ₕ| = |Σ|·(Σ⁻¹)ₕₕ; `present` is 0 for dropped components."""
    family, data, sums = parts.factors.family, before.data, before.sums
    xp, b = array_namespace(state.b), state.b
    # Row h of Σ⟨ããᵀ⟩ of each column, in the new coordinates.
    of_a = times(sums.second, turn.of_a[h, :]) @ turn.of_a.T
    spread = _lost(of_a * state.b_cov[:, h, :], h, present)
    cross = (sums.cross @ turn.of_a[h, :]) * b[:, h]
    misfit = spread + _lost(of_a * b[:, h : h + 1] * b, h, present) - 2 * cross
    along_a = along_b = 0.0
    if family.integrates_a:
        along_a = log_precision_along(data, before.columns, turn.back[h])
    if family.integrates_b:
        # (Σ⁻¹)ₕₕ of (b, μ) of each column in the new coordinates, from Σ⁻¹ in the old ones.
        change = turn.change[h]
        of_prior = float(change[:-1] ** 2 @ (1 / before.state.prior_b))
        precision = of_a[:, h] / before.state.noise_variance + of_prior
        if data.centred and not data.column_counts.all():
            # The mean of a column without values has precision 1.
            precision = precision + at(of_a, change[-1] ** 2 * (data.column_counts == 0))
        along_b = xp.sum(xp.log(precision))
    lost, uncertain, in_a, in_b = brought(misfit, spread, along_a, along_b)
    return replace(
        parts,
        residuals=parts.residuals - lost,
        spread=parts.spread - uncertain,
        moments=parts.moments.without(h, along_a=data.share * float(in_a), along_b=float(in_b)),
    )


def _lost(overlap: Array, h: int, present: FloatArray) -> Array:
    """Sum of the terms of a component with each one present, both ways, and with itself."""
    there = overlap if present.all() else overlap * at(overlap, present)
    return 2 * array_namespace(overlap).sum(there, axis=1) - overlap[:, h]
