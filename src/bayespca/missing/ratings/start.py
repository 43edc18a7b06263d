"""Starts of the sweeps over ratings: shrunken means, and singular vectors of their residuals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayespca.arrays.packing import packed, unpacked
from bayespca.arrays.types import FloatArray
from bayespca.spectrum.tolerances import START_NOISE

from .data import LeftOver, RatingsCells
from .step import RatingsProblem, RatingsState, task_of

# Number of ratings of 0 by which each mean is shrunk.
SHRINKAGE = 5.0


def start(data: RatingsCells, problem: RatingsProblem, rank: int) -> RatingsState:
    """Start from biases and `rank` components of their residuals, with zeros in missing cells."""
    begin, rest = _with_biases(data, problem)
    return _with_components(begin, *_leading(rest, data, rank))


def random_start(
    data: RatingsCells, problem: RatingsProblem, rank: int, rng: np.random.Generator
) -> RatingsState:
    """Start from columns drawn from a standard normal, with biases as in `start`."""
    begin, _ = _with_biases(data, problem)
    return _with_components(begin, rng.normal(size=(data.shape[1], rank)), np.ones(rank))


def with_one_more(state: RatingsState, data: RatingsCells, problem: RatingsProblem) -> RatingsState:
    """The state with one more component: the strongest in the residuals."""
    rest = data.left_over(task_of(state, problem), state.b)
    return _with_components(state, *_leading(rest, data, 1))


def _with_biases(data: RatingsCells, problem: RatingsProblem) -> tuple[RatingsState, LeftOver]:
    """A start without components, and its residuals."""
    n, m = data.shape
    biases = problem.biases
    v = data.column_totals / (data.column_counts + SHRINKAGE) * biases
    squares, rest = data.without_biases(v, SHRINKAGE if biases else None)
    # Covariances are zero until the first sweep finds them.
    cov = np.zeros((m if problem.factors.family.integrates_b else 0, int(biases)))
    prior_a, prior_b = (np.array([x + 1e-6] * biases) for x in (squares / n, np.mean(v**2)))
    noise = problem.fixed_noise or START_NOISE
    begin = RatingsState(v[:, None][:, :biases], cov, prior_a, prior_b, noise, biases=biases)
    return begin, rest


def _with_components(state: RatingsState, new: FloatArray, size: FloatArray) -> RatingsState:
    """The state with more components before the bias; `size` is their prior variance in A and B."""
    H, K = state.rank, state.b.shape[1] + size.size
    b = np.insert(state.b, [H] * size.size, new, axis=1)
    old = np.delete(np.arange(K), np.arange(H, H + size.size))
    cov = np.zeros((len(state.b_cov), K, K))
    cov[:, old[:, None], old] = unpacked(state.b_cov, old.size)
    return replace(
        state,
        b=b,
        b_cov=packed(cov),
        prior_a=np.insert(state.prior_a, [H] * size.size, size),
        prior_b=np.insert(state.prior_b, [H] * size.size, size),
    )


def _leading(rest: LeftOver, data: RatingsCells, rank: int) -> tuple[FloatArray, FloatArray]:
    """Columns b of the strongest components of the n×m matrix, and their c² with cₐ = c_b.

    Zeros in missing cells make a component weaker by the share of observed cells; started that
    weak, it would be switched off, so its size is corrected. Components of size 0 are left out.
    """
    n, m = data.shape
    if not rank:
        return np.zeros((m, 0)), np.zeros(0)
    left, gamma = rest.singular(rank)
    left, gamma = left[:, gamma > 0], gamma[gamma > 0]
    size = np.maximum(gamma * np.sqrt(float(n) * m) / data.n_cells, 1e-6)
    return left * np.sqrt(m * size), size
