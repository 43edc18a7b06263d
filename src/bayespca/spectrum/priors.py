"""Priors bound to a family and a shape: all that `noise` and `solve` need about a component.

Two records share one interface, one for a given prior and one for a learned prior; everything they
compute comes from `closed_form` and `free_energy`. s is the noise variance and g2 the squared
singular values, in any common unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from . import closed_form, free_energy
from .families import VB, Family
from .records import FloatArray
from .tolerances import LOG_2PI


class Prior(Protocol):
    """Thresholds, shrinkage and free energies of single components under a prior."""

    @property
    def L(self) -> float: ...
    @property
    def M(self) -> float: ...
    @property
    def family(self) -> Family: ...

    def threshold(self, s: float) -> float:
        """The smallest x = γ²/s that is kept."""

    def strength(self, x: FloatArray, s: float) -> FloatArray:
        """z = γγ̂/s of kept components."""

    def noise_ratio(self, x: FloatArray, s: float) -> FloatArray:
        """e = s/c² of kept components."""

    def costs(self, x: FloatArray, s: float) -> FloatArray:
        """x + 2Fₕ of kept components, minus 2Fₕ of a dropped one."""

    def dropped(self, s: float) -> float:
        """2Fₕ of a dropped component."""

    def point_terms(self, x: FloatArray, n_components: int, s: float, log_unit: float) -> float:
        """Prior densities of point estimates in 2F; x has the kept ones of `n_components`.

        They have the units of the data, so they need the logarithm of the unit of γ.
        """

    def dropped_variances(self, s: float) -> tuple[float, float, float]:
        """Variance of both factors in the balanced scale, cₐ² and c_b² of a dropped component."""


class NoisePrior(Prior, Protocol):
    """A prior whose free energy is bounded over the noise variance, so that it can be learned."""

    def drop_noise(self, g2: FloatArray) -> FloatArray:
        """The noise above which a component is better dropped."""

    def exist_noise(self, g2: FloatArray) -> FloatArray:
        """The noise above which there is no solution that keeps a component."""

    def kept_terms(self, g2: FloatArray, s: float) -> tuple[float, float]:
        """Σ costs and Σ expected residuals over kept components, the latter in units of s."""

    def kept_residual(self, g2: FloatArray, s: float) -> float:
        """The second value of `kept_terms` alone."""

    def dropped_residual(self, s: float) -> float:
        """Amount that a dropped component's posterior adds to its γ², in units of s."""

    @property
    def dropped_residual_limit(self) -> float:
        """Upper bound of s·`dropped_residual` over all noise variances, in the unit of g2."""

    @property
    def rank_limit(self) -> int:
        """The largest rank that can be best when the noise is learned."""

    @property
    def has_one_minimum(self) -> bool:
        """Whether F has at most one minimum over the noise where the rank is fixed."""


@dataclass(frozen=True)
class _OfFamily:
    """The sizes of both factors, and which of them are integrated out."""

    L: float
    M: float
    family: Family

    @property
    def sizes(self) -> tuple[float, float]:
        return self.family.sizes(self.L, self.M)


@dataclass(frozen=True)
class GivenPrior(_OfFamily):
    """c² = cₐ²c_b² is given and the same for all components; infinite for a flat prior."""

    prior_variance: float

    def _e(self, s: float) -> float:
        return s / self.prior_variance

    def threshold(self, s: float) -> float:
        return closed_form.given_threshold(self._e(s), *self.sizes)

    def strength(self, x: FloatArray, s: float) -> FloatArray:
        return closed_form.given_strength(x, self._e(s), *self.sizes)

    def noise_ratio(self, x: FloatArray, s: float) -> FloatArray:
        return np.full_like(x, self._e(s))

    def costs(self, x: FloatArray, s: float) -> FloatArray:
        return free_energy.given_cost(x, self._e(s), *self.sizes)

    def dropped(self, s: float) -> float:
        return free_energy.given_dropped(self._e(s), *self.sizes)

    def point_terms(self, x: FloatArray, n_components: int, s: float, log_unit: float) -> float:
        """With cₐ = 1 and c_b = c, and density one where the prior is flat."""
        l, m = self.sizes
        log_c2 = np.log(self.prior_variance) + 2 * log_unit
        of_b = 0.0 if np.isinf(self.prior_variance) else (self.L - l) * (LOG_2PI + log_c2)
        return n_components * float((self.M - m) * LOG_2PI + of_b)

    def dropped_variances(self, s: float) -> tuple[float, float, float]:
        with np.errstate(divide="ignore"):
            variance = np.sqrt(np.float64(s) / self.threshold(s))
            slacks = np.array(closed_form.given_slacks(self._e(s), *self.sizes))
            prior_a, prior_b = variance / slacks
        return float(variance), float(prior_a), float(prior_b)

    def exist_noise(self, g2: FloatArray) -> FloatArray:
        """The noise at which the shrunk value is zero: 2γ²/(l + m + √((m − l)² + 4γ²/c²))."""
        l, m = self.sizes
        w = np.sqrt((m - l) ** 2 + 4.0 * g2 / self.prior_variance)
        share = l + m + w
        # MAP with a flat prior keeps all but zeros.
        unbounded = np.where(g2 > 0, np.inf, 0.0)
        return np.where(share > 0, 2.0 * g2 / np.where(share > 0, share, 1.0), unbounded)

    drop_noise = exist_noise

    def kept_terms(self, g2: FloatArray, s: float) -> tuple[float, float]:
        return float(self.costs(g2 / s, s).sum()), self.kept_residual(g2, s)

    def kept_residual(self, g2: FloatArray, s: float) -> float:
        l, m = self.sizes
        return g2.size * (l + m + self._e(s))

    def dropped_residual(self, s: float) -> float:
        l, m = self.sizes
        return l * m / self.threshold(s)

    @property
    def dropped_residual_limit(self) -> float:
        l, m = self.sizes
        return l * m * self.prior_variance

    # LM·s − R is the sum of a concave part, of kept components, and a convex one, of dropped ones.
    has_one_minimum = False

    @property
    def rank_limit(self) -> int:
        return int(min(self.L, self.M))


@dataclass(frozen=True)
class LearnedPrior(_OfFamily):
    """c² is learned for each component: the local minimum, kept where x exceeds `smallest`.

    A component that is not kept has left the model: c² = 0 and no free energy.
    """

    smallest: float

    def threshold(self, s: float) -> float:
        return self.smallest

    def strength(self, x: FloatArray, s: float) -> FloatArray:
        return closed_form.learned_strength(x, self.L, self.M, *self.sizes)

    def noise_ratio(self, x: FloatArray, s: float) -> FloatArray:
        return closed_form.learned_noise_ratio(x, self.L, self.M, *self.sizes)

    def costs(self, x: FloatArray, s: float) -> FloatArray:
        return free_energy.kept_cost(x, self.noise_ratio(x, s), *self.sizes)

    def dropped(self, s: float) -> float:
        return 0.0

    def point_terms(self, x: FloatArray, n_components: int, s: float, log_unit: float) -> float:
        """With cₐ = c_b, over the kept components: the dropped ones are no longer in the model."""
        l, m = self.sizes
        log_c = 0.5 * np.log(s / self.noise_ratio(x, s)) + log_unit
        return float((self.L - l + self.M - m) * (LOG_2PI + log_c).sum())

    def dropped_variances(self, s: float) -> tuple[float, float, float]:
        return 0.0, 0.0, 0.0


@dataclass(frozen=True)
class EmpiricalVB(LearnedPrior):
    """EVB: the only learned prior whose global minimum is meaningful, so the noise can be too."""

    def costs(self, x: FloatArray, s: float) -> FloatArray:
        return free_energy.evb_cost(self.strength(x, s), self.L, self.M)

    def drop_noise(self, g2: FloatArray) -> FloatArray:
        return g2 / self.smallest

    def exist_noise(self, g2: FloatArray) -> FloatArray:
        return g2 / closed_form.learned_edge(self.L, self.M, *self.sizes)

    def kept_terms(self, g2: FloatArray, s: float) -> tuple[float, float]:
        z = self._kept_strength(g2, s)
        left = free_energy.evb_residual(z, self.L, self.M)
        cost = free_energy.evb_volume(z, self.L, self.M) + left
        return float(cost.sum()), float(left.sum())

    def kept_residual(self, g2: FloatArray, s: float) -> float:
        return float(free_energy.evb_residual(self._kept_strength(g2, s), self.L, self.M).sum())

    def _kept_strength(self, g2: FloatArray, s: float) -> FloatArray:
        edge = closed_form.learned_edge(self.L, self.M, *self.sizes)
        # At its own exist_noise a component's x may round to just below the edge.
        return self.strength(np.maximum(g2 / s, edge), s)

    def dropped_residual(self, s: float) -> float:
        return 0.0

    dropped_residual_limit = 0.0

    # γγ̂ contains the geometric mean of two linear functions of s, so LM·s − R is concave: it rises
    # through zero once, at a minimum of F, and may fall through it again, at a maximum.
    has_one_minimum = True

    @property
    def rank_limit(self) -> int:
        return closed_form.evb_rank_limit(self.L, self.M)


@dataclass(frozen=True)
class Collapsed(LearnedPrior):
    """c² → 0 for every component: the free energy falls without bound (aistats2014 Eq. 19, 20)."""

    def dropped(self, s: float) -> float:
        return -np.inf


def empirical_vb(L: float, M: float) -> EmpiricalVB:
    """EVB's global minimum (aistats2014 Proposition 1, icml2011 Theorem 4)."""
    return EmpiricalVB(L, M, VB, closed_form.evb_threshold(L, M))


def local_empirical(L: float, M: float, family: Family) -> LearnedPrior:
    """The non-trivial local minimum with the prior learned (aistats2014 Theorems 1 and 2)."""
    return LearnedPrior(L, M, family, closed_form.learned_edge(L, M, *family.sizes(L, M)))


def global_empirical(L: float, M: float, family: Family) -> Collapsed:
    """The global minimum of empirical PB and MAP: always zero (aistats2014 Propositions 2, 3)."""
    return Collapsed(L, M, family, np.inf)
