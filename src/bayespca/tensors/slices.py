"""Noise variances of the slices of each mode, under learned gamma priors.

The noise of a cell has variance σ²·∏ₙ uₙ, with one factor for its slice along each mode. Data
divided by the roots have equal noise, and the factors of the divided tensor have the usual priors:
the prior of a row of Aₙ is in units of its slice's noise, and so is its covariance given the noise.
The free energy in the units of the data is that of the divided tensor plus

    ½Σ over cells Σₙ⟨log uₙ⟩ + Σₙ KL(uₙ).

The mean of the slices along the first mode weights them by their precisions. It adds
½log Σᵢ⟨1/u₁ᵢ⟩/M₁ in each place, and costs the other modes one cell there.
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

# Rounds in which each mode is divided by the variances of the others.
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
            found[n] = _mean_squares(sums, data.cells_along[n])
    return tuple(given(one).at_unit_scale() for one in found)


def sums_along(T: Array, weights: list[FloatArray], n: int) -> FloatArray:
    """Weighted sum of each slice of a mode."""
    xp, N = array_namespace(T), len(weights)
    weighted = times_along(T, [w if m != n else None for m, w in enumerate(weights)])
    return to_numpy(xp.sum(weighted, axis=tuple(m for m in range(N) if m != n)))


def _mean_squares(sums: FloatArray, counts: FloatArray) -> FloatArray:
    """Σ/n of each slice; of all slices for those without cells."""
    total = float(sums.sum() / counts.sum())
    if not total:
        return np.ones_like(sums)
    means = sums / np.maximum(counts, 1.0)
    return np.where(counts > 0, np.maximum(means, LEAST_NOISE_OF_FEATURES * total), total)


def mean_variance(scales: AllScales) -> float:
    """Mean of ∏ₙ uₙ over all cells."""
    return math.prod(float(one.variance.mean()) for one in scales)
