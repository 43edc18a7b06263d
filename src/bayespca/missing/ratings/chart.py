"""States of ratings as vectors: loadings of columns, biases, and logarithms of variances."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayespca.arrays.packing import packed, turned, unpacked
from bayespca.arrays.types import FloatArray, Vector
from bayespca.inference.accelerating import StatePoint
from bayespca.lowrank.aligning import FURTHEST, Loadings, change_of_root, logarithm
from bayespca.spectrum.tolerances import LEAST_NOISE_WITH_HOLES

from .data import RatingsCells
from .step import RatingsProblem, RatingsState


@dataclass(frozen=True, eq=False)
class RatingsChart:
    """Coordinates of a state: W = B·diag(cₐ), its log covariance, v, m, and log variances.

    W is turned to be like another one, and its covariance is summed over columns. The variances are
    c_u², c_v², and σ² if it is learned. Rows follow in a step; the priors of B grow as the loadings
    do.
    """

    data: RatingsCells
    problem: RatingsProblem

    def point(self, state: RatingsState, like: Vector | None) -> StatePoint | None:
        has_begun = (state.b_cov[:, :1] > 0).all()
        if not state.b.size or not has_begun:
            return None
        return StatePoint(_parts(state, self.problem).aligned(like).vector, self._errors(state))

    def at(self, state: RatingsState, vector: Vector) -> RatingsState:
        here = _parts(state, self.problem)
        goal = here.at(vector).turned_to(here.W)
        c, H = np.sqrt(state.prior_a[: state.rank]), state.rank
        new = self._with_rest(state, goal.rest, here.rest)
        new = replace(new, b=np.column_stack([goal.W / c, new.b[:, H:]]))
        if goal.spread.size:
            change = np.eye(state.b.shape[1])
            change[:H, :H] = change_of_root(here.spread, goal.spread) * c / c[:, None]
            cov = turned(unpacked(state.b_cov, len(change)), change)
            new = replace(new, b_cov=packed(cov))
        return replace(new, prior_b=self._priors(state, new))

    def _with_rest(self, state: RatingsState, goal: FloatArray, here: FloatArray) -> RatingsState:
        """The state with the biases and variances of a goal, or part of the way if that is far."""
        m, fixed = self.data.shape[1], self.problem.fixed_noise
        n_logs = 2 * state.biases + (fixed is None)
        first = goal.size - n_logs
        logs = np.clip(goal[first:], here[first:] - FURTHEST, here[first:] + FURTHEST)
        new, variances = state, np.exp(logs)
        if fixed is None:
            noise = max(float(variances[-1]), LEAST_NOISE_WITH_HOLES)
            new = replace(new, noise_variance=noise)
        if not state.biases:
            return new
        return replace(
            new,
            b=np.column_stack([state.b[:, :-1], goal[:m]]),
            location=float(goal[m]),
            prior_a=np.append(state.prior_a[:-1], variances[0]),
            prior_b=np.append(state.prior_b[:-1], variances[1]),
        )

    def _errors(self, state: RatingsState) -> FloatArray:
        """Standard errors by the normal equations, entry by entry: 1/√(Nⱼ/σ² + 1/c²)."""
        (n, m), s2, H = self.data.shape, state.noise_variance, state.rank
        counts = self.data.column_counts / s2
        c2 = np.append((state.prior_a * state.prior_b)[:H], state.prior_b[H:])
        errors = 1 / np.sqrt(counts[:, None] + 1 / np.maximum(c2, self.problem.factors.least))
        spread = np.full(H * H * (len(state.b_cov) > 0), np.sqrt(2 / m))
        biases = [np.sqrt(s2 / self.data.n_cells), np.sqrt(2 / n), np.sqrt(2 / m)]
        noise = [np.sqrt(2 / self.data.n_cells)] * (self.problem.fixed_noise is None)
        rest = (biases if state.biases else []) + noise
        return np.concatenate([errors[:, :H].ravel(), spread, errors[:, H:].ravel(), rest])

    def _priors(self, state: RatingsState, new: RatingsState) -> FloatArray:
        H, (before, after) = state.rank, (_squares(state), _squares(new))
        growth = np.divide(after, before, out=np.ones_like(before), where=before > 0)[:H]
        grown = np.maximum(new.prior_b[:H] * growth, self.problem.factors.least)
        return np.append(grown, new.prior_b[H:])


def _parts(state: RatingsState, problem: RatingsProblem) -> Loadings:
    H, c = state.rank, np.sqrt(state.prior_a[: state.rank])
    spread = np.empty((0, 0))
    if len(state.b_cov):
        total = unpacked(state.b_cov.sum(axis=0), state.b.shape[1])[:H, :H]
        spread = logarithm(total * c * c[:, None])
    rest = np.empty(0)
    if state.biases:
        logs = np.log([state.prior_a[-1], state.prior_b[-1]])
        rest = np.concatenate([state.b[:, -1], [state.location], logs])
    noise = [] if problem.fixed_noise is not None else [np.log(state.noise_variance)]
    return Loadings(state.b[:, :H] * c, spread, np.append(rest, noise))


def _squares(state: RatingsState) -> FloatArray:
    """⟨‖b‖²⟩ of each component, and of the bias."""
    K = state.b.shape[1]
    total = (state.b**2).sum(axis=0)
    if len(state.b_cov):
        total = total + np.diag(unpacked(state.b_cov.sum(axis=0), K))
    return np.asarray(total)
