"""Noise variances of the slices of each mode, under learned gamma priors.

The noise of a cell has variance σ²·∏ₙ uₙ, with one factor for its slice along each mode. Data
divided by the roots have equal noise, and the factors of the divided tensor have the usual priors:
the prior of a row of Aₙ is in units of its slice's noise, and so is its covariance given the noise.
The free energy in the units of the data is that of the divided tensor plus

    ½Σ over cells Σₙ⟨log uₙ⟩ + Σₙ KL(uₙ).

The mean of the slices along the first mode weights them by their precisions. It adds
½log Σᵢ⟨1/u₁ᵢ⟩/M₁ in each place, and costs the other modes one cell there.

Variances are updated in turn with sweeps of the divided tensor. Given the posterior of factors and
core, the best variances of the slices of a mode follow from the expected squares of each slice's
residual and of its row of the factor in units of its prior. Both take the row at its mean: its
covariance given the noise is in units of the noise, and carries no information about it.

    Rᵢ = (Σ⟨(y − …)²⟩/σ² + Σₕaᵢₕ²/cₕ²)/⟨1/uᵢ⟩,   Nᵢ = cells.

The modes are updated one after another, each given those before. A sweep follows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bayespca.arrays.namespaces import array_namespace, to_numpy
from bayespca.arrays.places import at
from bayespca.arrays.types import Array, FloatArray
from bayespca.inference.loop import Info
from bayespca.lowrank.scales import Scales, given, learned
from bayespca.spectrum.tolerances import LEAST_NOISE_OF_FEATURES

from . import holes
from .data import AllScales, SliceNoise, TuckerCells
from .modes import in_turn, size_without, times_along
from .records import outer_products
from .state import TuckerProblem, TuckerState, replaced
from .step import step as swept

# Rounds in which each mode is divided by the variances of the others.
TURNS = 3
# Number of cells that an empty slice counts as.
HARDLY = 1e-3


# --- the divided tensor --------------------------------------------------------------------------


def divided(data: TuckerCells, scales: AllScales) -> TuckerCells:
    """The tensor divided by the roots of the noise variances of its slices."""
    if not scales:
        return data
    values, mean = data.values, data.mean
    if mean is not None and data.seen is None:
        xp, weights = array_namespace(values), scales[0].precision
        shift = xp.tensordot(at(values, weights / weights.sum()), values, axes=1)
        values, mean = values - shift[None, ...], mean + shift
    values = times_along(values, [np.sqrt(one.precision) for one in scales])
    energy = sum(one.divergence for one in scales)
    for n, one in enumerate(scales):
        energy += 0.5 * float(free_cells(data, n) @ one.log_variance)
    if data.mean is not None:
        energy += _energy_of_mean(data, scales[0])
    noise = SliceNoise(scales, float(energy))
    return replace(data.with_values(values), mean=mean, noise=noise)


def free_cells(data: TuckerCells, n: int) -> FloatArray:
    """Number of cells with a value in each slice along a mode, less those lost to the mean.

    The first mode loses none: the precision of the mean is the sum over all its slices.
    """
    cells = data.cells_along[n]
    return cells - data.places_along[n] if n and data.mean is not None else cells


def _energy_of_mean(data: TuckerCells, first: Scales) -> float:
    """½Σ log of the precision of the mean in each place, relative to equal noise."""
    if data.seen is None:
        return 0.5 * math.prod(data.shape[1:]) * float(np.log(first.precision.mean()))
    weights, counts = to_numpy(data.weights(first.precision)), to_numpy(data.counts)
    there = counts > 0
    return 0.5 * float(np.log(weights[there] / counts[there]).sum())


def all_noise(data: TuckerCells) -> AllScales:
    """Variances of the slices of the data, from which the search for the noise starts.

    A search from equal noise would stay there: surplus components would explain the larger noise.
    """
    squares = data.values * data.values
    found = [np.ones(M) for M in data.shape]
    for _ in range(TURNS):
        for n in range(len(found)):
            sums = sums_along(squares, [1 / one for one in found], n)
            counts = data.cells_along[n]
            total = float(sums.sum() / counts.sum())
            if not total:
                found[n] = np.ones_like(sums)
                continue
            # Slices without cells get the mean square of all.
            means = np.maximum(sums / np.maximum(counts, 1.0), LEAST_NOISE_OF_FEATURES * total)
            found[n] = np.where(counts > 0, means, total)
    return tuple(given(one).at_unit_scale() for one in found)


def sums_along(T: Array, weights: list[FloatArray], n: int) -> FloatArray:
    """Weighted sum of each slice of a mode."""
    xp, N = array_namespace(T), len(weights)
    weighted = times_along(T, [w if m != n else None for m, w in enumerate(weights)])
    return to_numpy(xp.sum(weighted, axis=tuple(m for m in range(N) if m != n)))


def mean_variance(scales: AllScales) -> float:
    """Mean of ∏ₙ uₙ over all cells."""
    return math.prod(float(one.variance.mean()) for one in scales)


# --- updates -------------------------------------------------------------------------------------


def step(state: TuckerState, data: TuckerCells, problem: TuckerProblem) -> tuple[TuckerState, Info]:
    """Update the noise and sweep; if that does not lower the free energy, sweep alone.

    `data` are not divided. A new start is swept once before the first update of the noise.
    """
    if not math.isfinite(state.energy):
        state, _ = swept(state, divided(data, state.scales), problem)
        state = replace(state, energy=np.inf)
    new = updated(state, divided(data, state.scales))
    new, _ = swept(new, divided(data, new.scales), problem)
    if not new.energy <= state.energy:
        new, _ = swept(state, divided(data, state.scales), problem)
    noise = new.noise_variance * mean_variance(new.scales)
    return new, Info(new.energy, math.prod(new.ranks), noise)


def updated(state: TuckerState, data: TuckerCells) -> TuckerState:
    """The state with the best variances of slices given its posterior, in their units."""
    state, here = holes.moved(state, data)
    left, ratios = _left(state, here), [np.ones(M) for M in data.shape]

    def update(state: TuckerState, n: int, second: FloatArray) -> TuckerState:
        w, mean = state.scales[n].precision, state.rows[n].mean
        total = _squares(left, ratios, n, outer_products(mean), second) / state.noise_variance
        total += mean**2 @ (1 / state.priors[n])
        if not n:
            total += _of_mean(state, here)
        state = _in_units(state, n, _learned(total / w, free_cells(here, n)))
        ratios[n] = state.scales[n].precision / w
        return state

    return _over_modes(state, data, update)


def expected_squares(state: TuckerState, data: TuckerCells) -> list[FloatArray]:
    """Σ⟨(y − …)²⟩ of each slice of each mode, without the uncertainty of the mean."""
    state, here = holes.moved(state, data)
    left, equal, found = _left(state, here), [np.ones(M) for M in data.shape], {}

    def update(state: TuckerState, n: int, second: FloatArray) -> TuckerState:
        found[n] = _squares(left, equal, n, state.rows[n].second_of_each, second)
        return state

    _over_modes(state, data, update)
    return [found[n] for n in range(len(data.shape))]


def _over_modes(
    state: TuckerState,
    data: TuckerCells,
    update: Callable[[TuckerState, int, FloatArray], TuckerState],
) -> TuckerState:
    """Update mode after mode, given Σ⟨xxᵀ⟩ over the cells of each slice, one for all if whole."""
    modes = range(len(data.shape))
    if data.is_whole:
        for n in modes:
            state = update(state, n, state.core.second_along(n, state.seconds)[None])
        return state

    def update_seen(state: TuckerState, seen: Array, n: int) -> TuckerState:
        return update(state, n, holes.seconds_of_rows(state.core, seen, n))

    return in_turn(state, data.seen, modes, contract=holes.contracted_mask, update=update_seen)[0]


def _left(state: TuckerState, data: TuckerCells) -> Array:
    """Squared residual of each cell minus the square of the low-rank tensor there."""
    low = holes.low_rank(state, data)
    if data.seen is None:
        return (data.values - low) ** 2 - low**2
    if data.fills:
        # A filled hole has no residual.
        return data.seen * (data.values - low) ** 2 - low**2
    return data.seen * ((data.values - low) ** 2 - low**2)


def _squares(
    left: Array, ratios: list[FloatArray], n: int, of_rows: FloatArray, second: FloatArray
) -> FloatArray:
    """Σ⟨(y − …)²⟩ of each slice of a mode, given ⟨aaᵀ⟩ of each row of its factor and Σ⟨xxᵀ⟩ over
    the cells of each slice. `ratios` have multiplied the squares in `left` since.
    """
    return np.maximum(sums_along(left, ratios, n) + (of_rows * second).sum(axis=(1, 2)), 0.0)


def _learned(squares: FloatArray, counts: FloatArray) -> Scales:
    """Learned variances; empty slices get the usual one."""
    known = counts > 0
    if not known.all():
        usual = squares[known].sum() / max(counts[known].sum(), 1.0) if known.any() else 1.0
        squares, counts = np.where(known, squares, HARDLY * usual), np.where(known, counts, HARDLY)
    return learned(squares, counts)


def _of_mean(state: TuckerState, data: TuckerCells) -> FloatArray | float:
    """Variance of the mean, summed over the cells of each slice along the first mode, in units of
    the noise.
    """
    if data.mean is None:
        return 0.0
    w = state.scales[0].precision
    if data.seen is None:
        return w * size_without(data.shape, 0) / w.sum()
    xp, weights = array_namespace(data.seen), data.weights(w)
    parts = data.seen / xp.where(weights > 0, weights, xp.ones_like(weights))[None, ...]
    return w * to_numpy(xp.sum(parts, axis=tuple(range(1, parts.ndim))))


def _in_units(state: TuckerState, n: int, found: Scales) -> TuckerState:
    """The state in units of other variances of a mode, which then have a geometric mean of 1.

    Means of rows are multiplied by the roots of their precisions. A factor f common to all
    precisions moves to σ², and f^¼ each to the factor and the core, whose priors are alike.
    """
    f = float(np.exp(np.log(found.precision).mean()))
    ratio, rows = found.precision / state.scales[n].precision / math.sqrt(f), state.rows[n]
    mean, cov = np.sqrt(ratio)[:, None] * rows.mean, rows.cov / math.sqrt(f)
    state = state.with_rows(n, replace(rows, mean=mean, cov=cov))
    return replace(
        state,
        core=state.core.scaled(f**-0.25),
        priors=replaced(state.priors, n, state.priors[n] / math.sqrt(f)),
        noise_variance=state.noise_variance / f,
        scales=replaced(state.scales, n, found.times(f)),
    )
