"""Noise variances of the slices of each mode, under gamma priors that they teach.

The noise of a cell has the variance σ²·∏ₙ uₙ with one factor for its slice along each mode. Data
divided by the roots have noise of one variance, and the factors of the divided tensor have the
priors of the model as it is: a row of Aₙ has a prior in units of its slice's noise, and given the
noise its covariance is in these units too. The free energy in the units of the data is that of the
divided tensor and

    ½Σ over cells Σₙ⟨log uₙ⟩ + Σₙ KL(uₙ).

A mean of the slices along the first mode is that of the slices weighted by their precision. It adds
½log Σᵢ⟨1/u₁ᵢ⟩/M₁ in each place, and takes one cell of it from the other modes.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from bayespca.arrays.namespaces import array_namespace, to_numpy
from bayespca.arrays.places import at
from bayespca.arrays.types import Array, FloatArray
from bayespca.lowrank.scales import Scales, given
from bayespca.spectrum.tolerances import LEAST_NOISE_OF_FEATURES

from .data import AllScales, SliceNoise, TuckerCells
from .modes import times_along

# Modes are divided by each other's variances in turns.
TURNS = 3


def divided(data: TuckerCells, scales: AllScales) -> TuckerCells:
    """The tensor divided by the roots of the noise variances of its slices."""
    if not scales:
        return data
    values, mean = data.values, data.mean
    if mean is not None and data.seen is None:
        shift = _weighted_mean(values, scales[0].precision)
        values, mean = values - shift[None, ...], mean + shift
    values = times_along(values, [np.sqrt(one.precision) for one in scales])
    squares = float(array_namespace(values).sum(values * values))
    noise = _slice_noise(data, scales)
    return replace(data, values=values, squares=squares, mean=mean, noise=noise)


def _weighted_mean(values: Array, weights: FloatArray) -> Array:
    xp = array_namespace(values)
    return xp.tensordot(at(values, weights / weights.sum()), values, axes=1)


def _slice_noise(data: TuckerCells, scales: AllScales) -> SliceNoise:
    energy = sum(one.divergence for one in scales)
    for n, one in enumerate(scales):
        energy += 0.5 * float(free_cells(data, n) @ one.log_variance)
    if data.mean is not None:
        energy += _energy_of_mean(data, scales[0])
    return SliceNoise(scales, float(energy))


def free_cells(data: TuckerCells, n: int) -> FloatArray:
    """Cells with a value in each slice along a mode, less those that went to the mean.

    The precision of the mean is that of all slices along the first mode, to which it is no loss.
    """
    cells = data.cells_along[n]
    return cells - data.places_along[n] if n and data.mean is not None else cells


def _energy_of_mean(data: TuckerCells, first: Scales) -> float:
    """½Σ log of the precision of the mean in each place, relative to that with equal noise."""
    if data.seen is None:
        return 0.5 * math.prod(data.shape[1:]) * float(np.log(first.precision.mean()))
    weights, counts = to_numpy(data.weights(first.precision)), to_numpy(data.counts)
    there = counts > 0
    return 0.5 * float(np.log(weights[there] / counts[there]).sum())


def all_noise(data: TuckerCells) -> AllScales:
    """Variances of the slices of the data themselves: where the search for the noise begins.

    From equal noise it would not come away: components that it bought explain what they were bought
    for.
    """
    squares = data.values * data.values
    found = [np.ones(M) for M in data.shape]
    for _ in range(TURNS):
        for n in range(len(found)):
            sums = sums_along(squares, [1 / one for one in found], n)
            found[n] = _mean_squares(sums, data.cells_along[n])
    return tuple(given(one).at_unit_scale() for one in found)


def sums_along(T: Array, weights: list[FloatArray], n: int) -> FloatArray:
    """Weighted sums over the slices of a mode."""
    xp, N = array_namespace(T), len(weights)
    weighted = times_along(T, [w if m != n else None for m, w in enumerate(weights)])
    return to_numpy(xp.sum(weighted, axis=tuple(m for m in range(N) if m != n)))


def _mean_squares(sums: FloatArray, counts: FloatArray) -> FloatArray:
    """Σ/n of each slice, or that of all where there is nothing."""
    total = float(sums.sum() / counts.sum())
    if not total:
        return np.ones_like(sums)
    means = sums / np.maximum(counts, 1.0)
    return np.where(counts > 0, np.maximum(means, LEAST_NOISE_OF_FEATURES * total), total)


def mean_variance(scales: AllScales) -> float:
    """Mean of ∏ₙ uₙ over all cells."""
    return math.prod(float(one.variance.mean()) for one in scales)
