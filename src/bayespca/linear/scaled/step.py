"""The noise of complete data in turns with the closed form of the data that it whitens.

Given the variances uᵢ and vⱼ, and φ, the posterior of the low-rank part is that of the closed form
for whitened data, its noise variance included. Given the posterior, the best variances follow from
the expected squares of what is left of each row and each column, and φ from the products of
neighbours. The free energy is that of the whitened data and

    ½p Σᵢ⟨log uᵢ⟩ + ½p log Σᵢ⟨1/uᵢ⟩/n + ½M Σⱼ⟨log vⱼ⟩ − M log|L| + KL + looseness,

the second term for the mean, which is that of the rows weighted by their precision. The prior of a
row's scores is in units of the row's noise, and that of a column's loadings in the column's: both
count among the squares, and their spread costs ½(⟨log u⟩ + log⟨1/u⟩) for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray
from bayespca.inference.loop import Info
from bayespca.lowrank import filtering
from bayespca.lowrank.noise_models import NoiseModel
from bayespca.lowrank.scales import Scales, learned
from bayespca.spectrum.records import Moments
from bayespca.spectrum.tolerances import LEAST_NOISE_OF_FEATURES

from .data import NoisyTable, Solve, Whitened
from .extrapolating import Round, extrapolated, remembered
from .whitening import Whitening

# Neighbours are not more alike than this: with φ = 1 noise would have no variance.
LARGEST_PHI = 0.995


# From Rᵢ and Nᵢ to variances.
Estimate = Callable[[FloatArray, FloatArray], Scales]


@dataclass(frozen=True, eq=False)
class ScaledState:
    """The noise, what it leads to, and the rounds that led to it."""

    whitening: Whitening
    found: Whitened
    energy: float
    rounds: tuple[Round, ...] = ()


def state_of(
    whitening: Whitening, data: NoisyTable, noise: NoiseModel, solve: Solve
) -> ScaledState:
    """What a noise leads to."""
    found = data.whitened(whitening, solve)
    return ScaledState(whitening, found, free_energy(whitening, found, data, noise))


def step(
    state: ScaledState,
    data: NoisyTable,
    noise: NoiseModel,
    solve: Solve,
    estimate: Estimate = learned,
) -> tuple[ScaledState, Info]:
    """Noise given the posterior, then the posterior given the noise.

    First to where the rounds are heading, then where this one leads; one of rows, columns and φ
    alone where that leads higher, and nowhere if nothing leads lower.
    """
    if not state.found.solution.noise_variance:
        return state, info_of(state, data)
    end = updated(state, data, noise, estimate)
    rounds = remembered(state.rounds, state.whitening, end)
    for whitening in _candidates(state, end, rounds, noise):
        new = state_of(whitening, data, noise, solve)
        if new.energy <= state.energy:
            changed = new.found.solution.rank != state.found.solution.rank
            new = replace(new, rounds=() if changed else rounds)
            return new, info_of(new, data)
    return state, info_of(state, data)


def info_of(state: ScaledState, data: NoisyTable) -> Info:
    """What the loop is told."""
    return Info(state.energy, state.found.solution.rank, mean_noise(state, data.known))


def mean_noise(state: ScaledState, known: FloatArray | None = None) -> float:
    """Noise variance of a cell, on average over rows and columns; relative to what is known."""
    rows, columns = state.whitening.rows, state.whitening.columns
    own = np.ones(1) if rows is None else rows.variance
    own = own if known is None else own / known
    return stationary(state) * float(own.mean()) * float(columns.variance.mean())


def stationary(state: ScaledState) -> float:
    """σ² before the filter."""
    return state.found.solution.noise_variance / (1 - state.whitening.phi**2)


def _candidates(
    state: ScaledState, end: Whitening, rounds: tuple[Round, ...], noise: NoiseModel
) -> Iterator[Whitening]:
    """Where to go, the most promising first."""
    further = extrapolated(rounds, end)
    if further is not None:
        yield further
    yield end
    old = state.whitening
    if sum((noise.rows, noise.columns, noise.neighbours)) > 1:
        yield replace(old, rows=end.rows)
        yield replace(old, columns=end.columns)
        yield replace(old, phi=end.phi)


def updated(
    state: ScaledState, data: NoisyTable, noise: NoiseModel, estimate: Estimate = learned
) -> Whitening:
    """The best variances and φ at the posterior of a state."""
    whitening, found = state.whitening, state.found
    rows, columns, phi = whitening.rows, whitening.columns, whitening.phi
    if noise.neighbours:
        phi = best_phi(found)
    if noise.rows and rows is not None:
        rows = best_rows(found, rows, columns, data, estimate)
    if noise.columns:
        columns = estimate(*squares_of_columns(found, whitening, data)).at_unit_scale()
    return Whitening(columns, rows, phi)


def best_rows(
    found: Whitened, rows: Scales, columns: Scales, data: NoisyTable, estimate: Estimate
) -> Scales:
    """The best variances of rows, beyond what is known of them."""
    squares, counts = squares_of_rows(found, rows, columns, data)
    known = np.ones(data.n_samples) if data.known is None else data.known
    return estimate(squares / known, counts).times_each(known).at_unit_scale()


def free_energy(
    whitening: Whitening, found: Whitened, data: NoisyTable, noise: NoiseModel
) -> float:
    """In the units of the data; infinite where the closed form's is."""
    rows, columns, k = whitening.rows, whitening.columns, _proper(found.solution.moments)
    energy = found.solution.free_energy - data.M * filtering.log_det(whitening.phi)
    energy += 0.5 * data.M * float(columns.log_variance.sum()) + columns.divergence
    energy += 0.5 * (k + data.centred) * float(columns.looseness.sum())
    if rows is not None:
        energy += 0.5 * data.p * float(rows.log_variance.sum()) + rows.divergence
        energy += 0.5 * k * float(shares(rows, data) @ rows.looseness)
        if data.centred:
            energy += 0.5 * data.p * float(np.log(rows.precision.mean()))
    return float(energy)


def shares(rows: Scales, data: NoisyTable) -> FloatArray:
    """How much of each row is left when the mean has taken its part."""
    if not data.centred:
        return np.ones(data.n_samples)
    return np.asarray(1 - rows.precision / rows.precision.sum())


def _proper(moments: Moments) -> int:
    """Number of components that have a proper prior."""
    return int(np.count_nonzero(_has_prior(moments.prior_variance_b)))


def _has_prior(variances: FloatArray) -> NDArray[np.bool_]:
    return np.isfinite(variances) & (variances > 0)


# --- expected squares --------------------------------------------------------------------------


def squares_of_rows(
    found: Whitened, rows: Scales, columns: Scales, data: NoisyTable
) -> tuple[FloatArray, FloatArray]:
    """Rᵢ and Nᵢ: cells and scores of each row."""
    assert found.row_squares is not None
    assert found.scores is not None
    solution, moments, k = found.solution, found.solution.moments, found.solution.rank
    s2, share, w = solution.noise_variance, shares(rows, data), rows.precision
    gamma = found.spectrum.singular_values[:k] * found.spectrum.scale
    shrunk = solution.shrunk_singular_values / gamma
    t2 = found.scores**2
    left = found.row_squares - t2 @ (shrunk * (2 - shrunk))
    size = (moments.mean_a[:k] / gamma) ** 2
    b2 = moments.mean_b**2 + data.p * moments.variance_b
    left = np.maximum(left, LEAST_NOISE_OF_FEATURES * found.row_squares)
    left += t2 @ (size * data.p * moments.variance_b[:k]) + share * float(moments.variance_a @ b2)
    left += w * float(data.rounding @ columns.precision)
    total = left / s2 + (data.p * w / w.sum() if data.centred else 0.0)
    proper = _has_prior(moments.prior_variance_a)
    inverse = np.where(proper, 1 / np.where(proper, moments.prior_variance_a, 1.0), 0.0)
    total += t2 @ (size * inverse[:k]) + share * float(moments.variance_a @ inverse)
    # One number for all: special functions of as many numbers as there are rows take their time.
    return total / w, np.full(w.size, data.p + float(share.mean()) * np.count_nonzero(proper))


def squares_of_columns(
    found: Whitened, whitening: Whitening, data: NoisyTable
) -> tuple[FloatArray, FloatArray]:
    """Rⱼ and Nⱼ: cells and loadings of each column, before the filter."""
    solution, moments, phi = found.solution, found.solution.moments, whitening.phi
    innovation = solution.noise_variance
    b2, left = _left_of_columns(found, whitening, data)
    proper = _has_prior(moments.prior_variance_b)
    inverse = np.where(proper, 1 / np.where(proper, moments.prior_variance_b, 1.0), 0.0)
    total = left * (1 - phi * phi) / innovation + (1.0 if data.centred else 0.0)
    total = total + inverse @ b2 * (1 - phi * phi)
    count = data.n_samples + np.count_nonzero(proper)
    return total / whitening.columns.precision, np.full(data.p, float(count))


def _left_of_columns(
    found: Whitened, whitening: Whitening, data: NoisyTable
) -> tuple[FloatArray, FloatArray]:
    """⟨b²⟩ of all components in each column, and the expected squares that they leave."""
    solution, moments, k = found.solution, found.solution.moments, found.solution.rank
    gamma = found.spectrum.singular_values[:k] * found.spectrum.scale
    # Variance of L⁻¹ε for ε of variance 1.
    spread = 1 / (1 - whitening.phi**2)
    along = np.zeros((moments.mean_b.size, data.p))
    along[:k] = found.loadings
    b2 = moments.mean_b[:, None] ** 2 * along**2 + moments.variance_b[:, None] * spread
    a2 = moments.mean_a**2 + data.M * moments.variance_a
    shrunk = solution.shrunk_singular_values / gamma
    left = found.squares - 2 * np.einsum("jh,hj,h->j", found.cross, found.loadings, shrunk)
    return b2, np.maximum(left + a2 @ b2, LEAST_NOISE_OF_FEATURES * found.squares)


def best_phi(found: Whitened) -> float:
    """Correlation of what is left of neighbours."""
    solution, moments, k = found.solution, found.solution.moments, found.solution.rank
    gamma = found.spectrum.singular_values[:k] * found.spectrum.scale
    shrunk = solution.shrunk_singular_values / gamma
    B, C = found.loadings, found.cross.T
    here, there = B[:, :-1], B[:, 1:]
    weights = shrunk[:, None]
    products = found.beside - (weights * (C[:, :-1] * there + C[:, 1:] * here)).sum(axis=0)
    t2 = (moments.mean_a[:k] ** 2 * moments.mean_b[:k] ** 2)[:, None]
    products += (t2 * here * there).sum(axis=0)
    squares = found.squares - 2 * (weights * C * B).sum(axis=0) + (t2 * B * B).sum(axis=0)
    squares = np.maximum(squares, LEAST_NOISE_OF_FEATURES * found.squares)
    lag = float(products.sum() / np.sqrt(squares[:-1] * squares[1:]).sum())
    return float(np.clip(lag, -LARGEST_PHI, LARGEST_PHI))
