"""Where the iteration starts: the closed form of a matrix whose holes were filled by itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayespca.engines import Plan, array_namespace, decompose, fixed_signs, to_numpy
from bayespca.engines.places import at, taken
from bayespca.spectrum import solve

from .data import Holes
from .idle import start_idle
from .rows import latent_means, suited_blocks
from .vb import LEAST_NOISE, Model, State, columns_of

# Arrays of any namespace.
Array = Any
FloatArray = NDArray[np.float64]
Solve = Plan

# Times that the filled matrix is factorized and filled again: at least, and as long as its rank
# falls, which is cheap beside a sweep with components too many.
ROUNDS = 5
MOST_ROUNDS = 30
# Components to start with beyond those found in the filled matrix; the free energy drops them.
SPARE = 3


@dataclass(frozen=True, eq=False)
class Filled:
    """A matrix whose holes are filled with the low-rank part of EVB's closed form, at unit scale.

    `rank`, `scores` and `right` are that part, with spare components at a tenth of their strength;
    `noise_variance` the mean square of what it leaves in observed cells.
    """

    values: Array
    rank: int
    scores: Array
    right: Array
    noise_variance: float


def fill(data: Holes, *, most: int, exactly: bool = False, engine: str = "auto") -> Filled:
    """Fill with zeros (the means), then a few times with the closed form's low-rank matrix.

    A filled matrix looks less noisy than it is and its components weaker, so a few more than it
    shows are taken along; with `exactly`, as many as `most`.
    """
    filled = array_namespace(data.values).asarray(data.values, copy=True)
    before = np.inf
    for number in count(1):
        rank, scores, right = _factors(filled, most, exactly, data.centred, engine)
        squares = _refill(filled, data, scores, right)
        if number >= ROUNDS and (rank >= before or number == MOST_ROUNDS):
            break
        before = rank
        # They may be nearly as large as the data: they go before the next ones are made.
        scores = None
    noise = max(squares / max(float(data.column_counts.sum()), 1.0), 1e-8)
    return Filled(filled, rank, scores, right, noise)


def _refill(filled: Array, data: Holes, scores: Array, right: Array) -> float:
    """Put scores·right into the holes; Σ(x − scores·right)² over the other cells."""
    xp, squares = array_namespace(filled), 0.0
    for block in suited_blocks(data, right.shape[0]):
        low = xp.matmul(scores[block.rows, :], right)
        full = xp.where(taken(block.seen, block.pattern), block.values, low)
        filled[block.rows, :] = full
        # Where the holes are, the two are the same.
        full -= low
        squares += float(xp.sum(full * full))
    return squares


def _factors(
    X: Array, most: int, exactly: bool, centred: bool, engine: str
) -> tuple[int, Array, Array]:
    """Rank to start with, scores and directions of the low-rank part of a complete matrix."""
    needed = most if exactly else 0
    found = decompose(X, plan=solve, center=centred, engine=engine, n_needed=needed, random_state=0)
    solution = solve(found.spectrum)
    known = found.spectrum.singular_values
    rank = min(most if exactly else solution.rank + SPARE, most, known.size)
    right = at(X, fixed_signs(found.right(rank)))
    gamma = known[:rank] * found.spectrum.scale
    shrunk = np.append(solution.shrunk_singular_values, np.zeros(rank))[:rank]
    # Spare components enter at a tenth of their strength: enough to grow from.
    weight = np.where(shrunk > 0, shrunk, 0.1 * gamma) / np.where(gamma > 0, gamma, 1)
    return rank, _along(X, right, found.mean, weight), right


def start(data: Holes, model: Model, filled: Filled, *, per_feature: bool = False) -> State:
    """The low-rank part of a filled matrix."""
    return _state(data, model, filled.scores, filled.right, filled.noise_variance, per_feature)


def start_with_all(
    data: Holes,
    model: Model,
    filled: Filled,
    plan: Solve,
    *,
    per_feature: bool = False,
    engine: str = "auto",
) -> State:
    """All components that a method might keep, at their full strength, from which they shrink."""
    scores, right, noise = all_kept(filled, data, plan, most=model.most, engine=engine)
    return _state(data, model, scores, right, max(noise, LEAST_NOISE), per_feature)


def all_kept(
    filled: Filled, data: Holes, plan: Solve, *, most: int, engine: str = "auto"
) -> tuple[Array, Array, float]:
    """Scores and directions of all components that a plan might keep, and its noise variance.

    In a filled matrix they are weaker than in a complete one, by the share of cells that are there.
    """
    X, everything = filled.values, np.iinfo(np.int64).max
    found = decompose(X, plan=plan, center=data.centred, engine=engine, n_needed=everything)
    solution = plan(found.spectrum)
    gamma = found.spectrum.singular_values * found.spectrum.scale
    share = float(data.column_counts.sum()) / np.prod(data.shape)
    above = int(np.count_nonzero(gamma**2 > share * solution.threshold**2))
    right = at(X, fixed_signs(found.right(min(above + SPARE, most, gamma.size))))
    return _along(X, right, found.mean, np.ones(right.shape[0])), right, solution.noise_variance


def _along(X: Array, right: Array, mean: Array, weight: FloatArray) -> Array:
    """(X − mean)·rightᵀ, times a weight for each direction."""
    xp, weighted = array_namespace(X), right * at(X, weight)[:, None]
    scores = xp.matmul(X, weighted.T)
    scores -= xp.matmul(weighted, at(X, mean))
    return scores


def with_one_more(state: State, data: Holes) -> State:
    """One more component: the strongest of what the others leave in the cells that are there.

    Zeros in the holes make it weaker by the share of cells that are there.
    """
    n, p = data.shape
    found = decompose(_rest(state, data), plan=solve, center=data.centred, n_needed=1)
    gamma = float(found.spectrum.singular_values[0] * found.spectrum.scale)
    size = max(gamma * np.sqrt(n * p) / float(data.column_counts.sum()), 1e-6)
    H = state.rank
    b = np.insert(state.b, H, to_numpy(found.right(1)[0, :]) * np.sqrt(p * size), axis=1)
    b_cov = np.insert(np.insert(state.b_cov, H, 0.0, axis=1), H, 0.0, axis=2)
    prior_a, prior_b = (np.append(prior, size) for prior in (state.prior_a, state.prior_b))
    return replace(state, b=b, b_cov=b_cov, prior_a=prior_a, prior_b=prior_b, energy=np.inf)


def _rest(state: State, data: Holes) -> Array:
    """x − b̃ᵀã in the cells that are there, 0 elsewhere, in the units of the state."""
    xp, H = array_namespace(data.values), state.rank
    root = np.ones(data.shape[1]) if state.psi is None else np.sqrt(state.psi)
    rest = data.values / at(data.values, root)
    right, mean = at(rest, state.b[:, :H].T), at(rest, state.b[:, H])
    a = latent_means(replace(data, values=rest), columns_of(state))
    for block in suited_blocks(data, H):
        left = rest[block.rows, :] - xp.matmul(a[block.rows, :], right) - mean
        rest[block.rows, :] = xp.where(taken(block.seen, block.pattern), left, 0 * left)
    return rest


def random_start(data: Holes, model: Model, noise: float | None, rng: np.random.Generator) -> State:
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
    data: Holes,
    model: Model,
    scores: Array,
    right: Array,
    noise: float,
    per_feature: bool,
) -> State:
    p, rank = data.shape[1], right.shape[0]
    xp = array_namespace(scores)
    spread = np.maximum(to_numpy(xp.mean(scores * scores, axis=0)), 1e-6)
    b = np.zeros((p, rank + 1))
    b[:, :rank] = (to_numpy(right) * np.sqrt(spread)[:, None]).T
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
