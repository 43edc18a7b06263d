"""A tensor at unit scale, with or without holes, centred or not."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.namespaces import array_namespace, cast, to_numpy
from bayespca.arrays.types import Array, FloatArray
from bayespca.lowrank.scales import Scales
from bayespca.spectrum.tolerances import ROUNDING_OF_MEAN

from .modes import size_without, times_along

AllScales = tuple[Scales, ...]


@dataclass(frozen=True, eq=False)
class SliceNoise:
    """Noise variances of the slices of each mode, and their contribution to the free energy."""

    scales: AllScales
    energy: float

    @property
    def roots(self) -> list[FloatArray]:
        """Factors by which the tensor was multiplied along each mode."""
        return [np.sqrt(one.precision) for one in self.scales]


@dataclass(frozen=True, eq=False)
class TuckerCells:
    """Values in float64 on the tensor's device, 0 in holes; `seen` is 1 for a value, 0 for a hole.

    `seen` is None if there are no holes. The values were divided by `unit`, and `mean` (a slice of
    the first mode, or None) was subtracted. A mean costs one row of the first mode. With `fills`,
    holes are latent variables that each sweep fills first; it then treats the tensor as complete.
    With `noise`, values were divided by the roots of the noise variances of their slices.
    """

    values: Array
    seen: Array | None
    squares: float
    unit: float
    mean: Array | None
    fills: bool = False
    noise: SliceNoise | None = None

    @property
    def is_whole(self) -> bool:
        """Whether sweeps treat the tensor as complete."""
        return self.seen is None or self.fills

    @property
    def share(self) -> float:
        return 1.0 if self.seen is None else float(array_namespace(self.seen).mean(self.seen))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of free rows of each factor."""
        first, *others = self.shape
        return (first - (self.mean is not None), *others)

    @property
    def counts(self) -> Array:
        """Number of values along the first mode, in each place of a slice."""
        return array_namespace(self.seen).sum(self.seen, axis=0)

    @cached_property
    def cells_along(self) -> tuple[FloatArray, ...]:
        """Number of cells with a value in each slice along each mode."""
        if self.seen is None:
            sizes = (size_without(self.shape, n) for n in range(len(self.shape)))
            return tuple(np.full(M, float(size)) for M, size in zip(self.shape, sizes, strict=True))
        return tuple(_summed(self.seen, n) for n in range(len(self.shape)))

    @cached_property
    def places_along(self) -> tuple[FloatArray, ...]:
        """Number of places with a mean in each slice along each mode after the first."""
        xp = array_namespace(self.values)
        if self.seen is None:
            there = xp.ones_like(self.values[:1, ...])
        else:
            there = cast(self.counts > 0, xp.float64)[None, ...]
        return tuple(_summed(there, n) for n in range(len(self.shape)))

    def weights(self, precision: FloatArray) -> Array:
        """Sum of the precisions of the values along the first mode, in each place of a slice."""
        return array_namespace(self.seen).sum(times_along(self.seen, [precision]), axis=0)

    @property
    def n_cells(self) -> float:
        """Number of cells with a value, less those lost to the mean."""
        if self.seen is None:
            return float(math.prod(self.sizes))
        xp, counts = array_namespace(self.seen), self.counts
        lost = float(xp.sum(cast(counts > 0, xp.float64))) if self.mean is not None else 0.0
        return float(xp.sum(counts)) - lost

    @property
    def empty_places(self) -> dict[int, NDArray[np.intp]]:
        """Places without any value along each mode, for the modes that have some."""
        if self.seen is None:
            return {}
        found = {}
        for n, counts in enumerate(self.cells_along):
            empty = np.flatnonzero(counts == 0)
            if empty.size:
                found[n] = empty
        return found

    def filled(self, low: Array) -> TuckerCells:
        """The tensor with the holes filled from `low`."""
        xp = array_namespace(low)
        return self.with_values(xp.where(cast(self.seen, xp.bool), self.values, low))

    def moved(self, shift: Array) -> TuckerCells:
        """The tensor with its mean moved by `shift`, a slice of the first mode."""
        apart = shift[None, ...]
        if self.noise is not None:
            apart = times_along(apart, self.noise.roots)
        return replace(self.with_values(self.values - self.seen * apart), mean=self.mean + shift)

    def with_values(self, values: Array) -> TuckerCells:
        return replace(self, values=values, squares=_sum_of_squares(values))

    def off_scale(self, values: Array) -> Array:
        """Values in the units of the data before they were divided."""
        if self.noise is None:
            return values
        return times_along(values, [1 / root for root in self.noise.roots])


def tucker_cells(T: Array, *, center: bool) -> TuckerCells:
    """The tensor divided by its root mean square, with NaN as holes.

    With `center`, the mean along the first mode is subtracted.
    """
    xp = array_namespace(T)
    holes = xp.isnan(T)
    seen = cast(~holes, xp.float64) if bool(xp.any(holes)) else None
    values = cast(T, xp.float64)
    if seen is not None:
        values = xp.where(holes, xp.zeros_like(values), values)
    # Squares may overflow, so values are brought near 1 before their size is measured.
    largest = float(xp.max(xp.abs(values))) or 1.0
    values = values / largest
    mean = _means(values, seen) if center else None
    if mean is not None:
        values = (values - mean) if seen is None else (values - mean) * seen
    count = float(xp.sum(seen)) if seen is not None else float(math.prod(T.shape))
    squares = _sum_of_squares(values)
    unit = math.sqrt(squares / count)
    if unit < ROUNDING_OF_MEAN:
        # Slices that are equal up to rounding have nothing but a mean.
        values, squares, unit = xp.zeros_like(values), 0.0, 1.0
    scaled = None if mean is None else mean / unit
    return TuckerCells(values / unit, seen, squares / unit**2, unit * largest, scaled)


def _summed(T: Array, n: int) -> FloatArray:
    """Sum of each slice along a mode."""
    axes = tuple(m for m in range(T.ndim) if m != n)
    return to_numpy(array_namespace(T).sum(T, axis=axes))


def _sum_of_squares(values: Array) -> float:
    return float(array_namespace(values).sum(values * values))


def _means(values: Array, seen: Array | None) -> Array:
    """Mean of the slices along the first mode; in places without a value, the mean of all cells."""
    xp = array_namespace(values)
    if seen is None:
        return xp.mean(values, axis=0)
    counts, sums = xp.sum(seen, axis=0), xp.sum(values, axis=0)
    total = xp.sum(sums) / xp.sum(counts)
    return xp.where(counts > 0, sums / xp.where(counts > 0, counts, xp.ones_like(counts)), total)
