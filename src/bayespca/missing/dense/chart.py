"""States of a matrix with holes as vectors: loadings, mean, and logarithms of variances."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayespca.arrays.namespaces import array_namespace, to_numpy
from bayespca.arrays.packing import turned
from bayespca.arrays.places import at
from bayespca.arrays.types import FloatArray, Vector
from bayespca.inference.accelerating import StatePoint
from bayespca.lowrank.aligning import FURTHEST, Loadings, change_of_root, logarithm
from bayespca.lowrank.holes import IncompleteRows

from .state import DenseProblem, DenseState


@dataclass(frozen=True)
class DenseChart:
    """Coordinates of a state: W = B·diag(cₐ), the log covariance of W, μ, and log noise.

    The scores of W have unit prior variance. The covariance is summed over columns. The noise is
    σ², or σ²v of each column; it is left out if it is given. W·Q with an orthogonal Q fits as well,
    so W is turned to be like another one. The covariances of all columns are scaled alike; the rest
    of the state follows in a step.
    """

    data: IncompleteRows
    problem: DenseProblem

    def point(self, state: DenseState, like: Vector | None) -> StatePoint:
        parts = self._parts(state).aligned(like)
        reach, size = np.ones(parts.vector.size), parts.rest.size - len(parts.W)
        reach[reach.size - size :] = state.reach[:size]
        return StatePoint(parts.vector, self._errors(state, parts), reach)

    def at(self, state: DenseState, vector: Vector) -> DenseState:
        here = self._parts(state)
        goal = here.at(vector).turned_to(here.W)
        (mean, noise), before = (np.split(x.rest, [len(x.W)]) for x in (goal, here))
        new = self._with_noise(state, np.clip(noise, before[1] - FURTHEST, before[1] + FURTHEST))
        b = np.column_stack([goal.W / np.sqrt(state.prior_a), mean])
        new = replace(new, b=at(state.b, b / _root(new)[:, None]), energy=np.inf)
        if goal.spread.size:
            # The logarithm of their sum for W becomes that of the goal.
            H, c = state.rank, np.sqrt(state.prior_a)
            change = np.eye(H + 1)
            change[:H, :H] = change_of_root(here.spread, goal.spread) * c / c[:, None]
            new = replace(new, b_cov=turned(state.b_cov, at(state.b, change)))
        return replace(new, prior_b=self._priors(state, new))

    def _parts(self, state: DenseState) -> Loadings:
        H, root = state.rank, _root(state)
        b = to_numpy(state.b) * root[:, None]
        rest = np.concatenate([b[:, H], self._noise(state)])
        return Loadings(b[:, :H] * np.sqrt(state.prior_a), self._spread(state), rest)

    def _errors(self, state: DenseState, parts: Loadings) -> FloatArray:
        (n, p), counts = self.data.shape, np.maximum(self.data.column_counts, 1)
        error = np.sqrt(state.noise_variance / n) * _root(state)
        total = counts if self.problem.noise.columns else counts.sum(keepdims=True)
        noise = np.sqrt(2 * state.reach / total)[: parts.rest.size - p]
        spread = np.full(parts.spread.size, np.sqrt(2 / p))
        return np.concatenate([np.repeat(error, state.rank), spread, error, noise])

    def _noise(self, state: DenseState) -> FloatArray:
        if self.problem.noise.columns:
            return np.log(state.noise_variance) + 2 * np.log(_root(state))
        is_free = self.problem.least_noise is not None
        return np.log([state.noise_variance] if is_free else np.empty(0))

    def _spread(self, state: DenseState) -> FloatArray:
        xp, H = array_namespace(state.b), state.rank
        total = to_numpy(xp.sum(state.b_cov, axis=0))[:H, :H]
        if not self.problem.factors.family.integrates_b or not (np.diag(total) > 0).all():
            return np.empty((0, 0))
        c = np.sqrt(state.prior_a)
        return logarithm(total * c * c[:, None])

    def _with_noise(self, state: DenseState, logs: FloatArray) -> DenseState:
        problem, scales, noise = self.problem, state.scales, state.noise_variance
        if not logs.size:
            return state
        if not problem.noise.columns:
            assert problem.least_noise is not None
            return replace(state, noise_variance=max(float(np.exp(logs[0])), problem.least_noise))
        if not problem.scale_is_free:
            logs = logs - logs.mean() + np.log(noise)
        return replace(state, scales=scales.with_columns(noise * np.exp(-logs)))

    def _priors(self, state: DenseState, new: DenseState) -> FloatArray:
        """Priors of B; learned ones grow as the loadings do."""
        if not self.problem.factors.prior.is_learned:
            return state.prior_b
        before, after = _squares(state), _squares(new)
        growth = np.divide(after, before, out=np.ones_like(before), where=before > 0)
        return np.maximum(state.prior_b * growth, self.problem.factors.least)


def _root(state: DenseState) -> FloatArray:
    """Numbers by which columns are divided."""
    root = state.scales.root
    return np.ones(state.b.shape[0]) if root is None else root


def _squares(state: DenseState) -> FloatArray:
    """⟨‖b‖²⟩ of each component."""
    xp, H = array_namespace(state.b), state.rank
    cov = to_numpy(xp.sum(xp.linalg.diagonal(state.b_cov), axis=0))
    return np.asarray((to_numpy(state.b)[:, :H] ** 2).sum(axis=0) + cov[:H])
