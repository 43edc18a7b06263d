"""Updates of the noise of slices, in turn with sweeps of the tensor divided by its roots.

Given the posterior of factors and core, the best variances of the slices of a mode follow from the
expected squares of each slice's residual and of its row of the factor in units of its prior. Both
take the row at its mean: its covariance given the noise is in units of the noise, and carries no
information about it.

    Rᵢ = (Σ⟨(y − …)²⟩/σ² + Σₕaᵢₕ²/cₕ²)/⟨1/uᵢ⟩,   Nᵢ = cells.

The modes are updated one after another, each given those before. A sweep follows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from bayespca.arrays.namespaces import array_namespace, to_numpy
from bayespca.arrays.types import Array, FloatArray
from bayespca.inference.loop import Info
from bayespca.lowrank.scales import Scales, learned

from . import holes
from .data import TuckerCells
from .modes import in_turn
from .records import outer_products
from .slices import divided, free_cells, mean_variance, sums_along
from .state import TuckerProblem, TuckerState, replaced
from .step import step as swept

# Number of cells that an empty slice counts as.
HARDLY = 1e-3


def step(state: TuckerState, data: TuckerCells, problem: TuckerProblem) -> tuple[TuckerState, Info]:
    """Update the noise and sweep; if that does not lower the free energy, sweep alone.

    `data` are not divided. A new start is swept once before the first update of the noise.
    """
    if not math.isfinite(state.energy):
        state, _ = swept(state, divided(data, state.scales), problem)
        state = replace(state, energy=np.inf)
    new = updated(state, divided(data, state.scales), problem)
    new, _ = swept(new, divided(data, new.scales), problem)
    if not new.energy <= state.energy:
        new, _ = swept(state, divided(data, state.scales), problem)
    noise = new.noise_variance * mean_variance(new.scales)
    return new, Info(new.energy, math.prod(new.ranks), noise)


@dataclass(frozen=True, eq=False)
class Left:
    """Squared residual of each cell minus the square of the low-rank tensor there, and the factors
    by which each mode has multiplied the squares since.
    """

    squares: Array
    ratios: tuple[FloatArray, ...]

    def along(self, n: int) -> FloatArray:
        """Sum of each slice of a mode."""
        return sums_along(self.squares, list(self.ratios), n)


def updated(state: TuckerState, data: TuckerCells, problem: TuckerProblem) -> TuckerState:
    """The state with the best variances of slices given its posterior, in their units."""
    state, here = holes.moved(state, data)
    left = _left(state, here)
    N = len(data.shape)
    if data.is_whole:
        for n in range(N):
            second = state.core.second_along(n, tuple(rows.second for rows in state.rows))
            state, left = _with_mode(state, left, n, second[None], here)
        return state
    both, _ = in_turn(
        (state, left),
        data.seen,
        range(N),
        contract=lambda both, seen, modes: holes.contracted_mask(both[0], seen, modes),
        update=lambda both, seen, n: _with_mode(
            *both, n, holes.seconds_of_rows(both[0], seen, n), here
        ),
    )
    return both[0]


def expected_squares(state: TuckerState, data: TuckerCells) -> list[FloatArray]:
    """Σ⟨(y − …)²⟩ of each slice of each mode, without the uncertainty of the mean."""
    state, here = holes.moved(state, data)
    left, found = _left(state, here), {}
    if data.is_whole:
        seconds = tuple(rows.second for rows in state.rows)
        return [
            _squares(left, n, rows.second_of_each, state.core.second_along(n, seconds)[None])
            for n, rows in enumerate(state.rows)
        ]

    def update(state: TuckerState, seen: Array, n: int) -> TuckerState:
        second = holes.seconds_of_rows(state, seen, n)
        found[n] = _squares(left, n, state.rows[n].second_of_each, second)
        return state

    modes = range(len(data.shape))
    in_turn(state, data.seen, modes, contract=holes.contracted_mask, update=update)
    return [found[n] for n in modes]


def _left(state: TuckerState, data: TuckerCells) -> Left:
    low = holes.low_rank(state, data)
    if data.seen is None:
        squares = (data.values - low) ** 2 - low**2
    elif data.fills:
        # A filled hole has no residual.
        squares = data.seen * (data.values - low) ** 2 - low**2
    else:
        squares = data.seen * ((data.values - low) ** 2 - low**2)
    return Left(squares, tuple(np.ones(M) for M in data.shape))


def _squares(left: Left, n: int, of_rows: FloatArray, second: FloatArray) -> FloatArray:
    """Σ⟨(y − …)²⟩ of each slice of a mode, given ⟨aaᵀ⟩ of each row of its factor and Σ⟨xxᵀ⟩ over
    the cells of each slice.
    """
    return np.maximum(left.along(n) + (of_rows * second).sum(axis=(1, 2)), 0.0)


def _with_mode(
    state: TuckerState, left: Left, n: int, second: FloatArray, data: TuckerCells
) -> tuple[TuckerState, Left]:
    """The best variances of the slices of a mode, and everything else in their units."""
    w, mean = state.scales[n].precision, state.rows[n].mean
    total = _squares(left, n, outer_products(mean), second) / state.noise_variance
    total += mean**2 @ (1 / state.priors[n])
    if not n:
        total += _of_mean(state, data)
    state = _in_units(state, n, _learned(total / w, free_cells(data, n)))
    ratios = replaced(left.ratios, n, state.scales[n].precision / w)
    return state, replace(left, ratios=ratios)


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
        return w * data.size_along(0) / w.sum()
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
