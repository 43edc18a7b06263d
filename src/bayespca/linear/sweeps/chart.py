"""States of sweeps over complete data as vectors: loadings, their covariance, and the noise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayespca.arrays.types import FloatArray, Vector
from bayespca.inference.accelerating import StatePoint
from bayespca.linear.data import Decomposed
from bayespca.lowrank.aligning import FURTHEST, Loadings, change_of_root, logarithm
from bayespca.spectrum.tolerances import LEAST_NOISE_OF_SWEEPS

from .step import SweepProblem, SweepState

# A component shrinks to no less than this part of its length at once.
SHORTEST = 0.5


@dataclass(frozen=True, eq=False)
class SweepChart:
    """W = B·diag(cₐ), turned towards another W, the logarithm of its rows' covariance, and log σ²
    where it is learned. The next step sets A. Before components have found their places there are
    no points: extrapolation from a random start would leave its basin.
    """

    data: Decomposed
    problem: SweepProblem

    def point(self, state: SweepState, like: Vector | None) -> StatePoint | None:
        if not state.calm:
            return None
        parts = self._parts(state).aligned(like)
        return StatePoint(parts.vector, self._errors(state, parts))

    def at(self, state: SweepState, vector: Vector) -> SweepState:
        here, c = self._parts(state), np.sqrt(state.prior_a)
        goal = here.at(vector).turned_to(here.W)
        new = replace(state, b=_not_gone(goal.W, here.W) / c)
        if goal.spread.size:
            T = change_of_root(here.spread, goal.spread) * c / c[:, None]
            new = replace(new, b_cov=T @ state.b_cov @ T.T)
        if goal.rest.size:
            log = np.clip(goal.rest, here.rest - FURTHEST, here.rest + FURTHEST)
            new = replace(new, noise_variance=max(float(np.exp(log[0])), LEAST_NOISE_OF_SWEEPS))
        return replace(new, prior_b=self._priors(state, new))

    def _parts(self, state: SweepState) -> Loadings:
        c, integrates = np.sqrt(state.prior_a), self.problem.factors.family.integrates_b
        spread = logarithm(state.b_cov * c * c[:, None]) if integrates else np.empty((0, 0))
        noise = [state.noise_variance] if self.problem.learns_noise else []
        return Loadings(state.b * c, spread, np.log(np.array(noise)))

    def _errors(self, state: SweepState, parts: Loadings) -> FloatArray:
        L, M = self.problem.factors.shape
        return np.concatenate(
            [
                np.full(parts.W.size, np.sqrt(state.noise_variance / M)),
                np.full(parts.spread.size, np.sqrt(2 / L)),
                np.full(parts.rest.size, np.sqrt(2 / (L * M))),
            ]
        )

    def _priors(self, state: SweepState, new: SweepState) -> FloatArray:
        """Prior variances of B; learned ones grow as the loadings do."""
        factors = self.problem.factors
        if not factors.prior.is_learned:
            return state.prior_b
        before, after = (self._squares(one) for one in (state, new))
        growth = np.divide(after, before, out=np.ones_like(before), where=before > 0)
        return np.maximum(state.prior_b * growth, factors.least)

    def _squares(self, state: SweepState) -> FloatArray:
        """⟨‖b‖²⟩ of each component."""
        L, _ = self.problem.factors.shape
        return np.asarray((state.b**2).sum(axis=0) + L * np.diag(state.b_cov))


def _not_gone(goal: FloatArray, here: FloatArray) -> FloatArray:
    """The goal with no component much shorter than here: a point estimate that comes near zero
    stays there, even if it would grow in time.
    """
    sizes, before = np.linalg.norm(goal, axis=0), np.linalg.norm(here, axis=0)
    least = SHORTEST * before
    return np.where(sizes < least, here * SHORTEST, goal)
