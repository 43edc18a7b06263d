"""Dropping components: those that are zero and, under empirical VB, those that do not pay."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayespca.arrays.namespaces import array_namespace
from bayespca.arrays.packing import times
from bayespca.arrays.places import at, brought
from bayespca.arrays.types import Array, FloatArray
from bayespca.lowrank.holes import IncompleteRows
from bayespca.lowrank.rows import Columns, RowSums, log_precision_along
from bayespca.spectrum.tolerances import VANISHED

from .energy import Parts
from .state import DenseProblem, DenseState


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
    if problem.prunes:
        return _without_weakest(state, parts, turn, before, problem)
    if problem.has_idle or problem.keeps_all:
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
        state, present[h] = state.without(h), 0.0
    return replace(state, n_gone=parts.moments.n_gone), parts


def _without_weakest(
    state: DenseState, parts: Parts, turn: Turn, before: Before, problem: DenseProblem
) -> tuple[DenseState, Parts]:
    """Drop the last component if the free energy is lower without it."""
    h = state.rank - 1
    if h < 0:
        return state, parts
    less = _parts_without(parts, h, np.ones(state.rank + 1), state, turn, before)
    least = problem.least_noise
    if less.at_best_noise(least).free_energy >= parts.at_best_noise(least).free_energy:
        return state, parts
    return state.without(h), less


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
        along_b = xp.sum(xp.log(_precision(of_a[:, h], h, turn, before)))
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


def _precision(of_a: Array, h: int, turn: Turn, before: Before) -> Array:
    """(Σ⁻¹)ₕₕ of (b, μ) of each column in the new coordinates, from Σ⁻¹ in the old ones.

    `of_a` is Σ⟨aₕ²⟩. The mean of a column without values has precision 1.
    """
    data, change = before.data, turn.change[h]
    of_prior = float(change[:-1] ** 2 @ (1 / before.state.prior_b))
    precision = of_a / before.state.noise_variance + of_prior
    if data.centred and not data.column_counts.all():
        precision = precision + at(of_a, change[-1] ** 2 * (data.column_counts == 0))
    return precision
