"""A sweep over a tensor with holes: every row of a factor has its own covariance.

Sums over the observed cells are products of the mask along its modes with packed second moments,
because ⟨xxᵀ⟩ of a cell is built from those of its rows:

    Aₙ:  Σᵢ = σ²(Σ ⟨xxᵀ⟩ + σ²Cₙ⁻¹)⁻¹ over the cells of row i,  ⟨xxᵀ⟩ = ⟨G₍ₙ₎(⊗_{m≠n}⟨aₘaₘᵀ⟩)G₍ₙ₎ᵀ⟩
    G:   Σ_G = σ²(Σ ⊗ₙ⟨aₙaₙᵀ⟩ + σ²⊗ₙCₙ⁻¹)⁻¹ over all cells

The second cannot be made diagonal, so the core has its full covariance here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from bayespca.arrays.namespaces import array_namespace, to_numpy
from bayespca.arrays.packing import packed, unpacked
from bayespca.arrays.places import at
from bayespca.arrays.types import Array, FloatArray

from .data import TuckerCells
from .modes import in_turn, mode_product, outer, times, times_along, unfolded
from .records import Core, DenseCore, Index
from .state import TuckerProblem, TuckerState, graded_inverses, with_updated_rows


class Contracted(NamedTuple):
    """Values contracted with means, and the mask with packed second moments, of some modes."""

    values: Array
    seen: Array


@dataclass(frozen=True, eq=False)
class Gathered:
    """Equations of the core: Σ y ⊗ₙâₙ, and Σ ⊗ₙ⟨aₙaₙᵀ⟩ as a matrix."""

    cross: FloatArray
    second: FloatArray

    def solved(
        self, priors: tuple[FloatArray, ...], variance: float, s2: float, *, integrated: bool
    ) -> DenseCore:
        ridge = s2 / (variance * outer(priors).ravel())
        inverse, log_dets = graded_inverses(self.second + np.diag(ridge))
        mean = (inverse @ self.cross.ravel()).reshape(self.cross.shape)
        log_det = float(log_dets) + ridge.size * math.log(s2)
        return DenseCore(mean, s2 * inverse * integrated, log_det)

    def residual(self, core: DenseCore, squares: float) -> float:
        """Σ⟨(y − …)²⟩ over the cells."""
        g = core.mean.ravel()
        quadratic = g @ (self.second @ g) + np.vdot(self.second, core.cov)
        return float(squares - 2 * np.vdot(self.cross, core.mean) + quadratic)

    def kept(self, n: int, keep: Index) -> Self:
        places = np.arange(self.cross.size).reshape(self.cross.shape)
        flat = np.take(places, keep, axis=n).ravel()
        second = self.second[np.ix_(flat, flat)]
        return replace(self, cross=np.take(self.cross, keep, axis=n), second=second)


def moved(state: TuckerState, data: TuckerCells) -> tuple[TuckerState, TuckerCells]:
    """Move the mean of the slices by the mean residual along the first mode.

    Slices are weighted by their precisions if they have their own noise.
    """
    if data.mean is None or data.seen is None:
        return state, data
    xp, here = array_namespace(data.values), data.moved(at(data.values, state.shift))
    left = data.off_scale(residual(state, here))
    counts = data.counts
    if data.noise is not None:
        precision = data.noise.scales[0].precision
        left, counts = times_along(left, [precision]), data.weights(precision)
    shift = xp.sum(left, axis=0) / xp.where(counts > 0, counts, xp.ones_like(counts))
    state = replace(state, shift=state.shift + to_numpy(shift))
    return state, data.moved(at(data.values, state.shift))


def low_rank(state: TuckerState, data: TuckerCells) -> Array:
    """Posterior mean of the low-rank tensor, without the mean slice, on the device of the data."""
    return times(at(data.values, state.core.mean), [rows.mean for rows in state.rows])


def residual(state: TuckerState, data: TuckerCells) -> Array:
    """The tensor without the posterior mean, 0 in holes."""
    low = low_rank(state, data)
    return data.values - (low if data.seen is None else low * data.seen)


def swept(
    state: TuckerState, data: TuckerCells, problem: TuckerProblem
) -> tuple[TuckerState, Gathered]:
    """Update every factor, and return the equations of the core that result."""

    def update(state: TuckerState, cells: Contracted, n: int) -> TuckerState:
        cross = to_numpy(unfolded(cells.values, n)) @ unfolded(state.core.mean, n).T
        second = seconds_of_rows(state.core, cells.seen, n)
        return with_updated_rows(state, n, cross, second, problem)

    N = len(data.shape)
    whole = Contracted(data.values, data.seen)
    state, last = in_turn(state, whole, range(N), contract=_contracted, update=update)
    return state, _gathered(_contracted(state, last, [N - 1]), state.ranks)


def seconds_of_rows(core: Core, seen: Array, n: int) -> FloatArray:
    """Σ⟨xxᵀ⟩ over the cells of each row of a factor; `seen` is contracted along the other modes."""
    rank = core.mean.shape[n]
    moments = at(seen, unfolded(core.pairs(mean=True, spread=True), n))
    triangles = to_numpy(unfolded(seen, n) @ moments.T)
    # `pairs` sums both halves off the diagonal.
    return np.asarray(unpacked(triangles, rank) * (0.5 + 0.5 * np.eye(rank)))


def gathered(state: TuckerState, data: TuckerCells) -> Gathered:
    """Equations of the core, given the factors."""
    whole = Contracted(data.values, data.seen)
    return _gathered(_contracted(state, whole, range(len(data.shape))), state.ranks)


def _contracted(state: TuckerState, cells: Contracted, modes: Iterable[int]) -> Contracted:
    values = cells.values
    for m in sorted(modes, reverse=True):
        values = mode_product(values, at(values, state.rows[m].mean.T), m)
    return Contracted(values, contracted_mask(state, cells.seen, modes))


def contracted_mask(state: TuckerState, seen: Array, modes: Iterable[int]) -> Array:
    """The mask contracted with packed second moments of some of the modes."""
    for m in sorted(modes, reverse=True):
        seen = mode_product(seen, at(seen, packed(state.rows[m].second_of_each).T), m)
    return seen


def _gathered(cells: Contracted, ranks: tuple[int, ...]) -> Gathered:
    """Equations from contracted cells, whose packed pairs become one symmetric matrix."""
    seen = to_numpy(cells.seen)
    for n in reversed(range(len(ranks))):
        seen = np.moveaxis(unpacked(np.moveaxis(seen, n, -1), ranks[n]), (-2, -1), (n, n + 1))
    N = len(ranks)
    order = [*range(0, 2 * N, 2), *range(1, 2 * N, 2)]
    size = math.prod(ranks)
    return Gathered(to_numpy(cells.values), seen.transpose(order).reshape(size, size))
