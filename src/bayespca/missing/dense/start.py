"""Starts of the iteration: the closed form of a matrix with filled holes, or random draws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayespca.arrays.namespaces import array_namespace, to_numpy
from bayespca.arrays.places import at, taken
from bayespca.arrays.types import Array, FloatArray
from bayespca.engines.decomposing import decompose
from bayespca.engines.records import Plan
from bayespca.lowrank.cells import given_cells
from bayespca.lowrank.filling import Filled, all_kept
from bayespca.lowrank.holes import Holes, IncompleteRows, floats
from bayespca.lowrank.rows import Columns, device_blocks, latent_means
from bayespca.lowrank.scales import FAR
from bayespca.spectrum.solving import solve
from bayespca.spectrum.tolerances import LEAST_NOISE_WITH_HOLES

from .idle import start_idle
from .state import DenseProblem, DenseState

# Standard deviation over the median absolute value of a normal distribution.
USUAL = 1.4826


def start(data: IncompleteRows, problem: DenseProblem, filled: Filled) -> DenseState:
    """Start from the low-rank part of a filled matrix."""
    return _state(data, problem, filled.right, filled.spread, filled.noise_variance)


def start_with_all(
    data: IncompleteRows,
    problem: DenseProblem,
    filled: Filled,
    plan: Plan,
    *,
    engine: str = "auto",
) -> DenseState:
    """Start from all components that a method might keep, at full strength, before they shrink."""
    right, spread, noise = all_kept(filled, data, plan, most=problem.most, engine=engine)
    return _state(data, problem, right, spread, max(noise, LEAST_NOISE_WITH_HOLES))


def with_one_more(state: DenseState, data: IncompleteRows) -> DenseState:
    """The state with one more component: the strongest in the residuals of observed cells.

    Its size is divided by the share of observed cells, because zeros in the holes weaken it.
    """
    n, p = data.shape
    data = state.scales.applied(data)
    rest = data.matrix(_rest, state.columns(), state.scales.root)
    found = decompose(rest, plan=solve, center=data.centred, n_needed=1)
    gamma = float(found.spectrum.singular_values[0] * found.spectrum.scale)
    size = max(gamma * np.sqrt(n * p) / float(data.column_counts.sum()), 1e-6)
    H = state.rank
    new = to_numpy(found.right(1)[0, :]) * np.sqrt(p * size)
    b = np.insert(to_numpy(state.b), H, new, axis=1)
    b_cov = np.insert(np.insert(to_numpy(state.b_cov), H, 0.0, axis=1), H, 0.0, axis=2)
    prior_a, prior_b = (np.append(prior, size) for prior in (state.prior_a, state.prior_b))
    return replace(state, b=b, b_cov=b_cov, prior_a=prior_a, prior_b=prior_b, energy=np.inf)


def _rest(data: Holes, columns: Columns, root: FloatArray | None) -> Array:
    """√w·x/root − b̃ᵀã in observed cells, times the root of cell weights; 0 elsewhere."""
    xp = array_namespace(data.values)
    over = 1.0 if root is None else at(data.values, root)
    rest = data.values / over
    right, a = at(rest, columns.b.T), latent_means(replace(data, values=rest), columns)
    if data.unweighted is not None:
        rest = data.unweighted / over
    for block in device_blocks(data, columns.rank):
        ones = xp.ones_like(rest[block.rows, :1])
        counts = ones if block.weights is None else at(rest, block.weights.root)[:, None]
        both = xp.concat([a[block.rows, :], counts], axis=1)
        left = rest[block.rows, :] * counts - xp.matmul(both, right)
        seen = taken(block.seen, block.pattern)
        if data.unweighted is not None:
            left, seen = left * xp.sqrt(seen), seen > 0
        rest[block.rows, :] = xp.where(seen, left, 0 * left)
    return rest


def random_start(
    data: IncompleteRows, problem: DenseProblem, noise: float | None, rng: np.random.Generator
) -> DenseState:
    """Start with all components from normal draws, together as large as the data; half is noise."""
    p, rank = data.shape[1], problem.most
    b = np.zeros((p, rank + 1))
    b[:, :rank] = rng.normal(size=(p, rank)) / np.sqrt(max(rank, 1))
    b_cov = np.zeros((p, rank + 1, rank + 1))
    prior_a, prior_b = np.ones(rank), np.full(rank, 1 / max(rank, 1))
    if not problem.factors.prior.is_learned:
        prior_a, prior_b = problem.factors.priors(prior_a, prior_b)
    noise = 0.5 if noise is None else noise
    idle = start_idle(data, problem.factors, noise) if problem.has_idle else None
    return DenseState(b, b_cov, prior_a, prior_b, noise, idle=idle)


def _state(
    data: IncompleteRows,
    problem: DenseProblem,
    right: FloatArray,
    spread: FloatArray,
    noise: float,
) -> DenseState:
    p, rank = data.shape[1], right.shape[0]
    b = np.zeros((p, rank + 1))
    b[:, :rank] = (right * np.sqrt(np.maximum(spread, 1e-6))[:, None]).T
    b_cov = np.zeros((p, rank + 1, rank + 1))
    # A has unit size until the first sweep has found the best coordinates.
    prior_a = np.ones(rank)
    prior_b = np.maximum((b[:, :rank] ** 2).mean(axis=0), 1e-6)
    if not problem.factors.prior.is_learned:
        prior_a, prior_b = problem.factors.priors(prior_a, prior_b)
    idle = start_idle(data, problem.factors, noise) if problem.has_idle else None
    return DenseState(b, b_cov, prior_a, prior_b, noise, idle=idle)


def with_equal_cells(state: DenseState, data: IncompleteRows) -> DenseState:
    """The state with noise of cells that is still equal, apart from known errors."""
    assert isinstance(data, Holes)
    precision = floats(data.mask) if data.known is None else data.known
    scales = replace(state.scales, cells=given_cells(precision))
    return replace(state, scales=scales, energy=np.inf)


def clipped(data: IncompleteRows) -> IncompleteRows:
    """Data with gross errors clipped to `FAR` robust standard deviations of their column."""
    assert isinstance(data, Holes)
    sizes = np.abs(np.where(data.mask, data.values, np.nan))
    most = FAR * USUAL * np.nanmedian(sizes, axis=0)
    return replace(data, values=np.clip(data.values, -most, most))
