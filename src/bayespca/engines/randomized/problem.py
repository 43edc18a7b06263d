"""`RandomizedProblem`: the problem, and what is known before anything is multiplied."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import betainc, betaincinv

from bayespca.arrays.namespaces import eps, on_accelerator
from bayespca.arrays.types import Array, FloatArray
from bayespca.engines.records import Decomposition, Operator, Plan
from bayespca.spectrum.records import Solution, Spectrum, n_with_room
from bayespca.spectrum.tolerances import SLACK_OF_SPECTRUM

# Full steps before the first look: confidence is hardly ever reached sooner. On an accelerator as
# many as noise would need, within bounds.
FIRST_LOOK, ACCELERATOR_FIRST_LOOK = 3, (4, 8)


@dataclass(frozen=True)
class RandomizedProblem:
    """The problem; `unit` is divided out of all products, so that squares stay in range."""

    operator: Operator
    plan: Plan
    shape: tuple[int, int]
    block: int
    max_miss: float
    max_basis: int
    unit: float
    eps: float

    @classmethod
    def of(
        cls, operator: Operator, plan: Plan, block: int, max_miss: float, max_basis: int | None
    ) -> RandomizedProblem:
        n, p = operator.shape
        shape = operator.spectrum_shape
        rms = np.sqrt(operator.sum_of_squares / (n * p))
        unit = 1.0 if 1e-10 < rms < 1e10 or not rms else 2.0 ** np.floor(np.log2(rms))
        return cls(
            operator=operator,
            plan=plan,
            shape=shape,
            block=min(block, *shape),
            max_miss=max_miss,
            max_basis=min(shape) // 3 if max_basis is None else max_basis,
            unit=float(unit),
            eps=eps(operator.dtype),
        )

    @property
    def full_rank(self) -> int:
        return min(self.shape)

    @property
    def tolerance(self) -> float:
        """Largest distance of a kept vector from its limit."""
        return max(4e-8, 0.5 * self.eps**0.5)

    @cached_property
    def first_look(self) -> int:
        """Full steps before the first look."""
        if not on_accelerator(self.operator.mean):
            return FIRST_LOOK
        least, most = ACCELERATOR_FIRST_LOOK
        return int(np.clip(np.ceil(0.5 * self.products_for_noise()), least, most))

    def products_for_noise(self) -> float:
        """Number of products after which nothing can have been missed, if all is noise.

        The largest singular value of noise, which Ritz values do not exceed, is √L + √M times its
        standard deviation.
        """
        L, M = self.shape
        variance = self.operator.sum_of_squares / L / M
        edge = np.sqrt(variance) * (np.sqrt(L) + np.sqrt(M))
        noise = Spectrum(np.array([edge]), self.shape, variance * L * M)
        solution = self.rough(noise)
        if solution.rank or not solution.threshold > edge:
            return 0.0
        chance = Chance(
            ratio=(solution.threshold / edge) ** 2,
            block=self.block,
            n_directions=self.full_rank,
            n_candidates=1.0 + variance * L * M / solution.threshold**2,
            max_miss=self.max_miss,
            n_spent=0.0,
            log_damping=0.0,
        )
        return chance.products_needed()

    @property
    def energy(self) -> float:
        """‖A‖² in units."""
        return self.operator.sum_of_squares / self.unit / self.unit

    def rough(self, spectrum: Spectrum) -> Solution:
        """The plan's solution on the way: rank, threshold and whether it is exact."""
        return self.plan(spectrum, other_ranks=False)

    def spectrum(self, values: FloatArray, *, is_complete: bool = False) -> Spectrum:
        """The spectrum in the units of the data: truncated, unless all that is not given is 0."""
        total = None if is_complete else self.operator.sum_of_squares
        return Spectrum(values * self.unit, self.shape, total, resolution=self.eps)

    def n_feasible(self, values: FloatArray) -> int:
        """Number of leading Ritz values that leave room for the energy that remains below them."""
        slack = min(20 * self.eps, 0.5 * SLACK_OF_SPECTRUM)
        return n_with_room(values**2, self.energy, self.full_rank, slack)

    def chance(self, values: FloatArray, solution: Solution, n_settled: int) -> Chance:
        """The chance that a value was missed, with the settled vectors taken out."""
        k, c = solution.rank, n_settled
        theta, edge = values[c], solution.threshold / self.unit
        if values[k] > edge:
            # The rank was limited from outside: what matters is a value above the last kept.
            edge = max(values[k - 1], 1.05 * theta) if k else np.inf
        rest = max(self.energy - float(values[:k] @ values[:k]), 0.0)
        factors = np.abs(1 - np.minimum(edge / values[:c], 1e3) ** 2)
        return Chance(
            ratio=(edge / theta) ** 2 if theta else np.inf,
            block=self.block,
            n_directions=self.full_rank,
            n_candidates=1.0 + rest / edge**2,
            max_miss=self.max_miss,
            n_spent=2 * c / self.block,
            log_damping=float(np.log(np.clip(factors, 0.01, 1)).sum()) / self.block,
        )

    def decomposition(self, spectrum: Spectrum, rows: Array, miss: float) -> Decomposition:
        """The record, with the right vectors in `rows`."""
        op = self.operator
        return Decomposition(
            spectrum, lambda k: rows[:k, :], op.mean, op.shape[0], "randomized", miss
        )


@dataclass(frozen=True)
class Chance:
    """Probability that a singular value was missed, given the largest Ritz value left.

    `ratio` is γ²/θ², the square of the smallest value that must not be missed over that of the Ritz
    value; `n_spent` and `log_damping` are the products and the growth that settled vectors cost.
    """

    ratio: float
    block: int
    n_directions: int
    n_candidates: float
    max_miss: float
    n_spent: float
    log_damping: float

    @property
    def _shape(self) -> tuple[float, float]:
        return 0.5 * self.block, 0.5 * max(self.n_directions - 1, 1)

    @property
    def _rate(self) -> float:
        """Growth per product, as a logarithm."""
        return float(np.arcsinh(np.sqrt(max(self.ratio - 1, 0.0))))

    def missed_after(self, n_products: int) -> float:
        """An upper bound on the probability, after this many products with a full block."""
        exponent = max(n_products - self.n_spent, 0.0) * min(self._rate, 50.0)
        growth = np.sinh(min(exponent, 300.0)) * np.exp(self.log_damping)
        return min(1.0, self.n_candidates * float(betainc(*self._shape, 1 / (1 + growth**2))))

    def products_needed(self) -> float:
        """Number of products it takes to be sure, if the Ritz value stays."""
        level = float(betaincinv(*self._shape, min(self.max_miss / self.n_candidates, 1.0)))
        growth = np.sqrt(1 / level - 1) * np.exp(-self.log_damping)
        return self.n_spent + float(np.arcsinh(growth)) / max(self._rate, 1e-9)
