"""Where the iteration starts: the closed form of a matrix whose holes were filled by itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from bayespca.arrays.namespaces import array_namespace, row_blocks, to_numpy
from bayespca.arrays.places import at, taken
from bayespca.arrays.signs import fixed_signs
from bayespca.arrays.types import Array, FloatArray
from bayespca.engines.decomposing import decompose
from bayespca.engines.records import Decomposition, Plan
from bayespca.lowrank.holes import Holes, Sample
from bayespca.lowrank.rows import Columns, latent_means, suited_blocks
from bayespca.spectrum.solving import solve
from bayespca.spectrum.tolerances import LEAST_NOISE_WITH_HOLES

from .idle import start_idle
from .step import Model, State, columns_of

Solve = Plan

# Times that the filled matrix is factorized and filled again: at least, and as long as its rank
# falls, which is cheap beside a sweep with components too many.
ROUNDS = 5
MOST_ROUNDS = 30
# Components to start with beyond those found in the filled matrix; the free energy drops them.
SPARE = 3


class Low(NamedTuple):
    """A low-rank part of rows x: their scores weights·(x − mean) along the directions `right`.

    `right` and `weights` are (rank, p), `less` is weights·mean; all NumPy arrays.
    """

    right: FloatArray
    weights: FloatArray
    less: FloatArray

    @property
    def rank(self) -> int:
        return int(self.right.shape[0])

    def scores(self, x: Array) -> Array:
        scores = array_namespace(x).matmul(x, at(x, self.weights.T))
        scores -= at(x, self.less)
        return scores


@dataclass(frozen=True, eq=False)
class Filled:
    """A matrix whose holes are filled with the low-rank part of EVB's closed form, at unit scale.

    `lows` are the parts that it was filled with, one after the other. The last one has spare
    components at a tenth of their strength; `spread` are the mean squares of its scores, and
    `noise_variance` the mean square of what it leaves in observed cells.
    """

    values: Any
    lows: tuple[Low, ...]
    spread: FloatArray
    noise_variance: float

    @property
    def rank(self) -> int:
        return self.lows[-1].rank

    @property
    def right(self) -> FloatArray:
        return self.lows[-1].right


def fill(data: Sample, *, most: int, exactly: bool = False, engine: str = "auto") -> Filled:
    """Fill with zeros (the means), then a few times with the closed form's low-rank matrix.

    A filled matrix looks less noisy than it is and its components weaker, so a few more than it
    shows are taken along; with `exactly`, as many as `most`.
    """
    filled, before = data.matrix(_refilled, ()), np.inf
    lows: tuple[Low, ...] = ()
    for number in count(1):
        low = _low(filled, most, exactly, data.centred, engine)
        lows = (*lows, low)
        filled, sums = _refill(filled, data, lows)
        if number >= ROUNDS and (low.rank >= before or number == MOST_ROUNDS):
            break
        before = low.rank
    noise = max(sums.squares / max(float(data.column_counts.sum()), 1.0), 1e-8)
    return Filled(filled, lows, sums.scores / data.shape[0], noise)


class _Sums(NamedTuple):
    """Σ(x − low-rank part)² over observed cells, and Σ of the squares of the scores: (rank,)."""

    squares: float
    scores: FloatArray


def _refill(filled: Any, data: Sample, lows: tuple[Low, ...]) -> tuple[Any, _Sums]:
    """The matrix with the last low-rank part in its holes.

    In memory it is filled where it is. Elsewhere nothing of it is kept but what leads to it.
    """
    if isinstance(data, Holes):
        return filled, _refill_in_place(filled, data, lows[-1])
    return data.matrix(_refilled, lows), data.total(_refilled_sums, lows)


def _refilled(data: Holes, lows: tuple[Low, ...]) -> Array:
    """Some of the rows, filled with one low-rank part after the other."""
    filled = array_namespace(data.values).asarray(data.values, copy=True)
    for low in lows:
        _refill_in_place(filled, data, low)
    return filled


def _refilled_sums(data: Holes, lows: tuple[Low, ...]) -> _Sums:
    return _refill_in_place(_refilled(data, lows[:-1]), data, lows[-1])


def _refill_in_place(filled: Array, data: Holes, low: Low) -> _Sums:
    xp, right = array_namespace(filled), at(filled, low.right)
    squares, total = 0.0, np.zeros(low.rank)
    for block in suited_blocks(data, low.rank):
        scores = low.scores(filled[block.rows, :])
        part = xp.matmul(scores, right)
        full = xp.where(taken(block.seen, block.pattern), block.values, part)
        filled[block.rows, :] = full
        # Where the holes are, the two are the same.
        full -= part
        squares += float(xp.sum(full * full))
        total += to_numpy(xp.sum(scores * scores, axis=0))
    return _Sums(squares, total)


def _low(X: Any, most: int, exactly: bool, centred: bool, engine: str) -> Low:
    """The low-rank part of a complete matrix, with the rank to start with."""
    needed = most if exactly else 0
    found = decompose(X, plan=solve, center=centred, engine=engine, n_needed=needed, random_state=0)
    solution = solve(found.spectrum)
    known = found.spectrum.singular_values
    rank = min(most if exactly else solution.rank + SPARE, most, known.size)
    gamma = known[:rank] * found.spectrum.scale
    shrunk = np.append(solution.shrunk_singular_values, np.zeros(rank))[:rank]
    # Spare components enter at a tenth of their strength: enough to grow from.
    weight = np.where(shrunk > 0, shrunk, 0.1 * gamma) / np.where(gamma > 0, gamma, 1)
    return _along(found, rank, weight)


def _along(found: Decomposition, rank: int, weight: FloatArray) -> Low:
    """(X − mean)·rightᵀ, times a weight for each direction."""
    right = np.asarray(to_numpy(fixed_signs(found.right(rank))), dtype=np.float64)
    weights = right * weight[:, None]
    return Low(right, weights, weights @ np.asarray(to_numpy(found.mean), dtype=np.float64))


def start(data: Sample, model: Model, filled: Filled, *, per_feature: bool = False) -> State:
    """The low-rank part of a filled matrix."""
    return _state(data, model, filled.right, filled.spread, filled.noise_variance, per_feature)


def start_with_all(
    data: Sample,
    model: Model,
    filled: Filled,
    plan: Solve,
    *,
    per_feature: bool = False,
    engine: str = "auto",
) -> State:
    """All components that a method might keep, at their full strength, from which they shrink."""
    right, spread, noise = all_kept(filled, data, plan, most=model.most, engine=engine)
    return _state(data, model, right, spread, max(noise, LEAST_NOISE_WITH_HOLES), per_feature)


def all_kept(
    filled: Filled, data: Sample, plan: Solve, *, most: int, engine: str = "auto"
) -> tuple[FloatArray, FloatArray, float]:
    """Directions of all components that a plan might keep, the mean squares of the scores along
    them, and its noise variance.

    In a filled matrix they are weaker than in a complete one, by the share of cells that are there.
    """
    X, everything = filled.values, np.iinfo(np.int64).max
    found = decompose(X, plan=plan, center=data.centred, engine=engine, n_needed=everything)
    solution = plan(found.spectrum)
    gamma = found.spectrum.singular_values * found.spectrum.scale
    share = float(data.column_counts.sum()) / np.prod(data.shape)
    above = int(np.count_nonzero(gamma**2 > share * solution.threshold**2))
    rank = min(above + SPARE, most, gamma.size)
    low = _along(found, rank, np.ones(rank))
    if isinstance(data, Holes):
        sums = _squares_of_scores(X, low)
    else:
        sums = data.total(_refilled_scores, filled.lows, low)
    return low.right, sums / data.shape[0], solution.noise_variance


def _refilled_scores(data: Holes, lows: tuple[Low, ...], low: Low) -> FloatArray:
    return _squares_of_scores(_refilled(data, lows), low)


def _squares_of_scores(X: Array, low: Low) -> FloatArray:
    xp, total = array_namespace(X), np.zeros(low.rank)
    for rows in row_blocks(X):
        scores = low.scores(X[rows, :])
        total += to_numpy(xp.sum(scores * scores, axis=0))
    return total


def with_one_more(state: State, data: Sample) -> State:
    """One more component: the strongest of what the others leave in the cells that are there.

    Zeros in the holes make it weaker by the share of cells that are there.
    """
    n, p = data.shape
    root = np.ones(p) if state.psi is None else np.sqrt(state.psi)
    rest = data.matrix(_rest, columns_of(state), root)
    found = decompose(rest, plan=solve, center=data.centred, n_needed=1)
    gamma = float(found.spectrum.singular_values[0] * found.spectrum.scale)
    size = max(gamma * np.sqrt(n * p) / float(data.column_counts.sum()), 1e-6)
    H = state.rank
    new = to_numpy(found.right(1)[0, :]) * np.sqrt(p * size)
    b = np.insert(to_numpy(state.b), H, new, axis=1)
    b_cov = np.insert(np.insert(to_numpy(state.b_cov), H, 0.0, axis=1), H, 0.0, axis=2)
    prior_a, prior_b = (np.append(prior, size) for prior in (state.prior_a, state.prior_b))
    return replace(state, b=b, b_cov=b_cov, prior_a=prior_a, prior_b=prior_b, energy=np.inf)


def _rest(data: Holes, columns: Columns, root: FloatArray) -> Array:
    """x/root − b̃ᵀã in the cells that are there, 0 elsewhere."""
    xp, H = array_namespace(data.values), columns.rank
    rest = data.values / at(data.values, root)
    right, mean = at(rest, columns.b[:, :H].T), at(rest, columns.b[:, H])
    a = latent_means(replace(data, values=rest), columns)
    for block in suited_blocks(data, H):
        left = rest[block.rows, :] - xp.matmul(a[block.rows, :], right) - mean
        rest[block.rows, :] = xp.where(taken(block.seen, block.pattern), left, 0 * left)
    return rest


def random_start(
    data: Sample, model: Model, noise: float | None, rng: np.random.Generator
) -> State:
    """All components from normal draws, together as large as the data, which are half noise."""
    p, rank = data.shape[1], model.most
    b = np.zeros((p, rank + 1))
    b[:, :rank] = rng.normal(size=(p, rank)) / np.sqrt(max(rank, 1))
    b_cov = np.zeros((p, rank + 1, rank + 1))
    prior_a, prior_b = np.ones(rank), np.full(rank, 1 / max(rank, 1))
    if not model.factors.prior.is_learned:
        prior_a, prior_b = model.factors.priors(prior_a, prior_b)
    noise = 0.5 if noise is None else noise
    idle = start_idle(data, model.factors, noise) if model.has_idle else None
    return State(b, b_cov, prior_a, prior_b, noise, None, idle)


def _state(
    data: Sample,
    model: Model,
    right: FloatArray,
    spread: FloatArray,
    noise: float,
    per_feature: bool,
) -> State:
    p, rank = data.shape[1], right.shape[0]
    b = np.zeros((p, rank + 1))
    b[:, :rank] = (right * np.sqrt(np.maximum(spread, 1e-6))[:, None]).T
    b_cov = np.zeros((p, rank + 1, rank + 1))
    # A of unit size, until the first sweep has found the best coordinates.
    prior_a = np.ones(rank)
    prior_b = np.maximum((b[:, :rank] ** 2).mean(axis=0), 1e-6)
    if not model.factors.prior.is_learned:
        prior_a, prior_b = model.factors.priors(prior_a, prior_b)
    psi = None
    if per_feature:
        # The same noise for every feature to begin with, and everything in its units.
        psi = np.full(p, noise)
        b /= np.sqrt(noise)
        if model.factors.prior.is_learned:
            prior_b = prior_b / noise
        noise = 1.0
    idle = start_idle(data, model.factors, noise) if model.has_idle else None
    return State(b, b_cov, prior_a, prior_b, noise, psi, idle)
