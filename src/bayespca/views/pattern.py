"""The pattern of factors in views: the gain and the probability of a factor in a view.

Given the scores and the other factors of its view, a factor's loadings in p columns have estimates
yⱼ ~ N(bⱼ, vⱼ). With bⱼ ~ N(0, c²), the factor lowers the free energy of the view by

    ½Σⱼ[yⱼ²/vⱼ − yⱼ²/(c² + vⱼ) − log(1 + c²/vⱼ)],

which is 0 at c² = 0, where the factor is not in the view.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray, Matrix
from bayespca.spectrum.tolerances import TINY


class InViews:
    """States with prior variances of factors in views (V, H), 0 if a factor is not in a view."""

    prior: Matrix

    @property
    def rank(self) -> int:
        return int(self.prior.shape[1])

    @property
    def active(self) -> NDArray[np.bool_]:
        """Whether each factor is in each view: (V, H)."""
        return np.asarray(self.prior > 0)


# Rounds of Fisher's scoring for the prior variance; one is exact where all vⱼ are equal.
ROUNDS = 8
# A priori, a factor that is in one view is in another one with this probability, and its strength
# there, in detection limits, is half-Cauchy with this scale. With probability one half, one in a
# hundred unrelated pairs of factor and view would be joined, and so one in ten patterns be wrong;
# strong factors do not depend on it.
BEFOREHAND = 1 / 8
SCALE = 2.0
# The grid over log strength, in detection limits.
FAINTEST, STRONGEST, POINTS = 1e-5, 1e8, 500


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimates yⱼ of a factor's loadings in the columns of a view, and their variances vⱼ."""

    y: FloatArray
    v: FloatArray

    @classmethod
    def without_prior(cls, mean: FloatArray, variance: FloatArray, prior: float) -> Estimates:
        """Estimates from posterior means and variances under a prior of variance c²."""
        v = 1 / np.maximum(1 / variance - 1 / prior, TINY)
        return cls(mean * (v / prior + 1), v)

    @cached_property
    def _different(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Distinct variances, the number of columns with each, and Σy² over these columns.

        Only the case that all are equal is condensed.
        """
        if (self.v == self.v[:1]).all():
            return self.v[:1], np.array([float(self.v.size)]), np.array([float(self.y @ self.y)])
        return self.v, np.ones(self.v.size), self.y**2

    def gain(self, prior: FloatArray | float) -> FloatArray:
        """Fall of the free energy with the factor, relative to without it, for each c²."""
        v, counts, squares = self._different
        ratio = np.asarray(prior)[..., None] / v
        parts = squares / v * ratio / (1 + ratio) - counts * np.log1p(ratio)
        return np.asarray(0.5 * parts.sum(axis=-1))

    @property
    def best_prior(self) -> float:
        """c² where the gain is largest: Fisher's scoring, Σw(y² − v)/Σw with w = 1/(c² + v)²."""
        v, counts, squares = self._different
        c2 = 0.0
        for _ in range(ROUNDS if v.size > 1 else 1):
            w = (c2 + v) ** -2.0
            c2 = max(float((w * (squares - counts * v)).sum() / (counts * w).sum()), 0.0)
        return c2

    @property
    def best_gain(self) -> float:
        return float(self.gain(self.best_prior))

    def probability(self, limit: float) -> float:
        """Probability that the factor is in the view, with its evidence averaged over strengths.

        `limit` is the c² of a factor at the detection limit of the view.
        """
        log_x = np.linspace(np.log(FAINTEST), np.log(STRONGEST), POINTS)
        x = np.exp(log_x)
        log_density = np.log(2 / np.pi / SCALE) - np.log1p((x / SCALE) ** 2) + log_x
        terms = self.gain(limit * x) + log_density + np.log(log_x[1] - log_x[0])
        log_odds = float(np.logaddexp.reduce(terms)) + np.log(BEFOREHAND / (1 - BEFOREHAND))
        return float(1 / (1 + np.exp(-log_odds))) if log_odds > -700 else 0.0


def cost_of_joining(n_columns: FloatArray | float) -> FloatArray:
    """Nats that a factor has to gain in a further view: ½ log p for a prior variance learned from
    p loadings, plus the log prior odds against it.
    """
    odds = np.log((1 - BEFOREHAND) / BEFOREHAND)
    return np.asarray(0.5 * np.log(np.maximum(n_columns, 1)) + odds)


def cost_of_pattern(active: NDArray[np.bool_], sizes: FloatArray) -> float:
    """Cost of a pattern (V×H). The dearest view of each factor is free, so that one view alone is
    empirical variational Bayes.
    """
    costs = np.where(active, cost_of_joining(sizes)[:, None], 0.0)
    return float((costs.sum(axis=0) - costs.max(axis=0, initial=0.0)).sum())


def costs_of_places(active: NDArray[np.bool_], sizes: FloatArray) -> FloatArray:
    """Cost of having each factor in each view, in addition to its other views: (V, H).

    The dearest view of a factor is free; leaving it or joining a dearer one changes which that is.
    """
    cost = cost_of_joining(sizes)[:, None]
    elsewhere = [
        np.delete(np.where(active, cost, 0.0), v, axis=0).max(axis=0, initial=0.0)
        for v in range(len(active))
    ]
    return np.minimum(cost, np.stack(elsewhere))
