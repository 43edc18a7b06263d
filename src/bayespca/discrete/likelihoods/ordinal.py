"""Ranks 0, 1, …, K − 1: p(x ≤ k) = σ(cₖ − z), with learned cut points (McCullagh 1980)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayespca.arrays.types import FloatArray

from .bernoulli import averages
from .likelihood import BoolArray, ExpectedLikelihood, Likelihood, Measurement, Null

# The least and the greatest distance between two cut points.
NARROWEST, WIDEST = 1e-3, 1e3
# How often a step of the cut points that lowers the likelihood is halved.
HALVINGS = 8


class Cuts(NamedTuple):
    """Cut points below and above the rank of each cell, 0 if missing, and whether they exist."""

    below: FloatArray
    above: FloatArray
    has_below: BoolArray
    has_above: BoolArray


@dataclass(frozen=True)
class Ordinal(Likelihood):
    """With cut points l below and u above the rank,

        log p(x | z) = log(σ(u − z) − σ(l − z))
                     = (z − l) − log(1 + e^(z − l)) − log(1 + e^(z − u)) + log(1 − e^(l − u)),

    without the terms of a cut point that does not exist. These are averages of the logistic
    function, which have closed forms. Parameters are logarithms of the distances between cut
    points, NaN beyond the last rank of a column. The middle cut point is 0, since the mean of the
    column sets its position. So two ranks are a Bernoulli variable.
    """

    name: str = "ordinal"

    def expected(
        self, x: FloatArray, m: FloatArray, v: FloatArray, parameters: FloatArray
    ) -> ExpectedLikelihood:
        cuts = _around(x, cut_points(parameters))
        low, high = averages(m - cuts.below, v), averages(m - cuts.above, v)
        both = cuts.has_below & cuts.has_above
        apart = np.where(both, cuts.above - cuts.below, 1.0)
        log_likelihood = (
            cuts.has_below * (m - cuts.below - low.log_norm)
            - cuts.has_above * high.log_norm
            + both * np.log(-np.expm1(-apart))
        )
        slope = cuts.has_below * (1 - low.probability) - cuts.has_above * high.probability
        omega = cuts.has_below * low.slope + cuts.has_above * high.slope
        return ExpectedLikelihood(log_likelihood, slope, omega)

    def null(self, x: FloatArray, seen: FloatArray, offset: FloatArray) -> Null:
        """Cut points at the logits of cumulative shares, with half a cell added to each rank."""
        n_ranks = int(x.max(initial=1.0)) + 1
        each = [(seen * (x == k)).sum(axis=0) + 0.5 for k in range(n_ranks)]
        counts = np.stack(each, axis=1)
        top = np.where(seen > 0, x, 0).max(axis=0, initial=1.0).astype(int)
        counts[np.arange(n_ranks) > top[:, None]] = 0.0
        shares = np.cumsum(counts, axis=1)[:, :-1] / counts.sum(axis=1)[:, None]
        inside = np.arange(n_ranks - 1) < top[:, None]
        shares = np.where(inside, shares, 0.5)
        cuts = np.where(inside, np.log(shares / (1 - shares)), np.nan)
        middle = cuts[np.arange(len(cuts)), (top - 1) // 2]
        return Null(-middle, np.log(np.clip(np.diff(cuts, axis=1), NARROWEST, WIDEST)))

    def mean(self, m: FloatArray, v: FloatArray, parameters: FloatArray) -> FloatArray:
        ranks = np.arange(parameters.shape[1] + 2)
        return np.asarray(rank_probabilities(m, v, parameters) @ ranks)

    def variance(self, z: FloatArray, parameters: FloatArray) -> FloatArray:
        every = rank_probabilities(z, np.zeros_like(z), parameters)
        codes = np.arange(every.shape[2])
        return np.asarray(every @ codes**2 - (every @ codes) ** 2)

    def quantile(
        self, level: float, m: FloatArray, v: FloatArray, parameters: FloatArray
    ) -> FloatArray:
        below = np.cumsum(rank_probabilities(m, v, parameters), axis=-1)[..., :-1]
        # Rounding must not push a cumulative probability below the level.
        return (below < level - 1e-9).sum(axis=-1).astype(np.float64)

    def augmented(
        self, x: FloatArray, z: FloatArray, parameters: FloatArray, rng: np.random.Generator
    ) -> Measurement:
        """One Pólya–Gamma variable for the cut point below and one for that above.

        As a function of z, p(x | z) is proportional to the product σ(z − l)·σ(u − z).
        """
        from ..polya_gamma import polya_gamma

        cuts = _around(x, cut_points(parameters))
        low = cuts.has_below * polya_gamma(z - cuts.below, rng)
        high = cuts.has_above * polya_gamma(z - cuts.above, rng)
        slope = 0.5 * (cuts.has_below.astype(np.float64) - cuts.has_above)
        return Measurement(low + high, slope + low * cuts.below + high * cuts.above)

    def drawn(self, z: FloatArray, parameters: FloatArray, rng: np.random.Generator) -> FloatArray:
        cuts = cut_points(parameters)
        noisy = z + rng.logistic(size=z.shape)
        return (noisy[..., None] > np.where(np.isnan(cuts), np.inf, cuts)).sum(axis=-1) * 1.0

    def updated(
        self, x: FloatArray, m: FloatArray, v: FloatArray, seen: FloatArray, parameters: FloatArray
    ) -> FloatArray:
        columns = [
            self._updated_column(x[there, j], m[there, j], v[there, j], parameters[j])
            for j, there in enumerate((seen > 0).T)
        ]
        return np.array(columns).reshape(parameters.shape)

    def _updated_column(
        self, x: FloatArray, m: FloatArray, v: FloatArray, parameters: FloatArray
    ) -> FloatArray:
        """Take a Newton step in all cut points except the middle one, shortened if needed."""
        known = parameters[~np.isnan(parameters)]
        if not known.size:
            return parameters
        cuts = cut_points(known[None])[0]
        gradient, hessian = _by_cuts(x, m, v, cuts)
        free = np.arange(cuts.size) != known.size // 2
        inner = hessian[np.ix_(free, free)] - 1e-9 * np.eye(known.size)
        step = np.zeros(cuts.size)
        step[free] = -np.linalg.solve(inner, gradient[free])

        def value(some: FloatArray) -> float:
            found = self.expected(x[:, None], m[:, None], v[:, None], some[None])
            return float(found.log_likelihood.sum())

        before = value(known)
        for _ in range(HALVINGS):
            apart = np.diff(cuts + step)
            new = np.log(np.clip(apart, NARROWEST, WIDEST))
            if (apart > 0).all() and value(new) >= before:
                return np.concatenate([new, parameters[known.size :]])
            step *= 0.5
        return parameters


def cut_points(parameters: FloatArray) -> FloatArray:
    """c₀ < c₁ < … of each column, the middle one 0; NaN beyond the last: (q, P + 1)."""
    apart = np.exp(parameters)
    running = np.cumsum(np.column_stack([np.zeros(len(apart)), apart]), axis=1)
    middle = (~np.isnan(parameters)).sum(axis=1) // 2
    return np.asarray(running - running[np.arange(len(apart)), middle][:, None])


def rank_probabilities(m: FloatArray, v: FloatArray, parameters: FloatArray) -> FloatArray:
    """⟨p(x = k | z)⟩ over z ~ N(m, v) for all k: (n, q, P + 2)."""
    cuts = cut_points(parameters)
    above = np.zeros((*m.shape, cuts.shape[1] + 2))
    above[..., 0] = 1.0
    for k in range(cuts.shape[1]):
        there = ~np.isnan(cuts[:, k])
        above[:, there, k + 1] = averages(m[:, there] - cuts[there, k], v[:, there]).probability
    return np.asarray(np.maximum(above[..., :-1] - above[..., 1:], 0.0))


def _around(x: FloatArray, cuts: FloatArray) -> Cuts:
    """The cut points around the ranks of cells."""
    k = x.astype(np.intp)
    last = (~np.isnan(cuts)).sum(axis=1)
    has_below, has_above = k > 0, k < last
    column = np.arange(len(cuts))
    below = np.where(has_below, cuts[column, np.maximum(k - 1, 0)], 0.0)
    above = np.where(has_above, cuts[column, np.minimum(k, cuts.shape[1] - 1)], 0.0)
    return Cuts(below, above, has_below, has_above)


def _by_cuts(
    x: FloatArray, m: FloatArray, v: FloatArray, cuts: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Gradient and Hessian of Σ⟨log p⟩ with respect to the cut points of one column."""
    size = cuts.size
    gradient, hessian = np.zeros(size), np.zeros((size, size))
    for k in range(size):
        lower, upper = x == k, x == k + 1
        some = lower | upper
        _, probability, slope = averages(m[some] - cuts[k], v[some])
        gradient[k] = probability.sum() - upper.sum()
        hessian[k, k] = -slope.sum()
    for k in range(1, size):
        count = float((x == k).sum())
        e = np.exp(cuts[k] - cuts[k - 1])
        pair = [k - 1, k]
        gradient[pair] += count / (e - 1) * np.array([-1.0, 1.0])
        hessian[np.ix_(pair, pair)] += count * e / (e - 1) ** 2 * np.array([[-1, 1], [1, -1]])
    return gradient, hessian


ORDINAL = Ordinal()
