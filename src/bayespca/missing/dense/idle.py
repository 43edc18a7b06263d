"""Idle components, which have mean zero, under VB with a given prior: they differ from the prior.

All of them are alike, and independent of each other and of the other components, with one variance
vᵢ for each row of A and one sⱼ for each row of B,

    1/vᵢ = 1/cₐ² + Σⱼsⱼ/σ²,  1/sⱼ = 1/c_b² + Σᵢvᵢ/σ²

over observed cells, whatever the number of idle components. They raise the noise by what they fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import FloatArray
from bayespca.lowrank.factors import Factors
from bayespca.lowrank.holes import Holes, IncompleteRows

from .state import DenseProblem, DenseState


@dataclass(frozen=True, eq=False)
class Idle:
    """Moments of `count` idle components.

    `b` is s (p,), `a` is Σᵢvᵢ over the observed rows of each column (p,), `total_a` is Σᵢvᵢ over
    all rows, and `log_a` is Σᵢlog vᵢ.
    """

    count: int
    b: FloatArray
    a: FloatArray
    total_a: float
    log_a: float
    factors: Factors

    @property
    def overlap(self) -> FloatArray:
        """Contribution of idle components to Σ⟨(x − b̃ᵀã)²⟩ of each column."""
        return self.count * self.a * self.b

    @property
    def energy(self) -> float:
        """KL divergence of all idle components from the prior."""
        prior_a, prior_b = self.factors.priors(np.ones(1), np.ones(1))
        of_a = self.factors.energy_of_a(np.array([self.total_a]), prior_a, self.log_a)
        log_b = float(np.log(self.b).sum())
        of_b = self.factors.energy_of_b(np.array([self.b.sum()]), prior_b, log_b)
        return self.count * (of_a + of_b)


def start_idle(data: IncompleteRows, factors: Factors, noise_variance: float) -> FloatArray:
    """s, with v at its prior."""
    prior = factors.prior
    return 1 / (
        1 / prior.variance + data.share * data.column_counts * prior.variance_a / noise_variance
    )


def update_idle(
    b: FloatArray, data: IncompleteRows, factors: Factors, count: int, noise_variance: float
) -> Idle:
    """Update v, then s, then the scale that v and s share."""
    prior, s2 = factors.prior, noise_variance
    a, total, log_a = data.total(_over_rows, b / s2, 1 / prior.variance_a, data.share)
    b = 1 / (1 / prior.variance + a / s2)
    found = factors.best_turn(np.array([[total]]), np.array([[b.sum()]]))
    if found is not None:
        f2 = float(found[0][0, 0]) ** 2
        a, total, b = a * f2, total * f2, b / f2
        log_a += data.freedom * float(np.log(f2))
    return Idle(count, b, a, total, log_a, factors)


def gain_of_idle(state: DenseState, data: IncompleteRows, problem: DenseProblem) -> FloatArray:
    """−½ log vᵢ/cₐ² of each row, summed over all idle components."""
    assert state.idle is not None
    prior = problem.factors.prior.variance_a
    more = data.total(_of_rows, state.idle * prior / state.noise_variance)
    return 0.5 * (problem.most - state.rank) * np.log1p(np.concatenate(more))


def squares_of_idle(state: DenseState, data: Holes, problem: DenseProblem) -> FloatArray:
    """Contribution of all idle components to the expected squares of cells, over σ²."""
    assert state.idle is not None
    prior, s2 = problem.factors.prior, state.noise_variance
    v = data.share * data.shares / (1 / prior.variance_a + data.over_columns(state.idle / s2))
    return (problem.most - state.rank) / s2 * v[:, None] * state.idle


def _of_rows(data: Holes, of_columns: FloatArray) -> list[FloatArray]:
    return [data.over_columns(of_columns)[data.pattern]]


class _Variances(NamedTuple):
    """Σᵢvᵢ over the observed rows of each column, Σᵢvᵢ and Σᵢlog vᵢ over all."""

    a: FloatArray
    total: float
    log: float


def _over_rows(data: Holes, of_columns: FloatArray, of_prior: float, share: float) -> _Variances:
    v = 1 / (of_prior + data.over_columns(of_columns))
    weights = share * data.shares
    return _Variances(
        data.over_patterns(weights * v), float(weights @ v), float(weights @ np.log(v))
    )


def with_more(state: DenseState, problem: DenseProblem, count: int) -> DenseState:
    """Give `count` idle components a mean as large as their spread.

    If the data support them, they grow from there; otherwise they become idle again.
    """
    assert state.idle is not None
    p, H = state.b.shape[0], state.rank
    wide = H + count + 1
    b, b_cov = np.zeros((p, wide)), np.zeros((p, wide, wide))
    old, new = np.append(np.arange(H), wide - 1), np.arange(H, H + count)
    b[:, old], b_cov[:, old[:, None], old] = to_numpy(state.b), to_numpy(state.b_cov)
    b_cov[:, new, new] = state.idle[:, None]
    # Any directions will do; random signs are unrelated to the data.
    signs = np.random.default_rng(H).choice([-1.0, 1.0], size=(p, count))
    b[:, new] = np.sqrt(state.idle)[:, None] * signs
    prior_a, prior_b = problem.factors.priors(np.ones(count), np.ones(count))
    return replace(
        state,
        b=b,
        b_cov=b_cov,
        prior_a=np.append(state.prior_a, prior_a),
        prior_b=np.append(state.prior_b, prior_b),
    )
