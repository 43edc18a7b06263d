"""A look at the Ritz values: the plan's answer for them, and what is still missing."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray

from .problem import RandomizedProblem, leading
from .space import Ritz

# Ritz values that must lie below those kept before an answer is believed.
SPARE = 4


@dataclass(frozen=True)
class Look:
    """The plan's answer for the Ritz values, and what is still missing.

    `rank` is −1 while the plan cannot decide. The first `n_settled` Ritz values will hardly change;
    the first `n_trusted`, which are these or the kept ones and one more, can be handed over.
    `errors` estimates, per kept vector, its distance from the limit in units of the tolerance;
    `to_go` the number of basis vectors to come.
    """

    ritz: Ritz
    n_settled: int
    rank: int = -1
    n_trusted: int = 0
    errors: FloatArray = field(default_factory=lambda: np.zeros(0))
    miss: float = 1.0
    is_sure: bool = False
    to_go: float = 0.0

    @classmethod
    def at(cls, ritz: Ritz, full_steps: int, problem: RandomizedProblem) -> Look:
        """Look at the Ritz values after `full_steps` full steps."""
        n_settled = min(ritz.values.size - 1, leading(ritz.leak <= problem.eps**0.25))
        n_feasible = problem.n_feasible(ritz.values)
        if not n_feasible:
            return cls(ritz, n_settled)
        # The plan must decide on an exact rank, and drop some of the Ritz values.
        solution = problem.rough(problem.spectrum(ritz.values[:n_feasible]))
        k = solution.rank
        leaves = k < ritz.values.size and ritz.values[k] > 0
        if not (solution.status.exact and leaves):
            return cls(ritz, n_settled)
        errors, steps = _convergence(ritz, k, problem)
        chance = problem.chance(ritz.values, solution, max(k, n_settled))
        miss, to_go = chance.missed_after(2 * full_steps), float(steps.sum())
        is_sure = miss <= problem.max_miss
        if not is_sure:
            # Vectors that settle get out of the way, so the present need is an upper bound.
            full = min(0.5 * chance.products_needed() - full_steps, full_steps)
            to_go = max(to_go, 0.5 * full * problem.block)
        n_trusted = min(max(k, n_settled) + 1, n_feasible)
        return cls(ritz, n_settled, k, n_trusted, errors, miss, is_sure, to_go)

    @property
    def slow(self) -> NDArray[np.intp]:
        """The kept vectors still to settle, if nothing else is left to do; else none."""
        return np.flatnonzero(self.errors > 1) if self.is_sure else np.zeros(0, np.intp)

    @property
    def is_done(self) -> bool:
        below = self.ritz.values.size - self.rank
        return self.rank >= 0 and self.is_sure and below >= SPARE and bool((self.errors <= 1).all())

    def is_hopeless(self, problem: RandomizedProblem) -> bool:
        """Whether the basis would outgrow its limit, or could not resolve the spectrum."""
        m, limit, block = self.ritz.values.size, problem.max_basis, problem.block
        # Where as many kept values agree as a block has columns, there may be more of them.
        kept = self.ritz.values[: max(self.rank, 0)]
        first = kept[: max(kept.size - block + 1, 0)]
        if block > 1 and np.any(first <= 1.0001 * kept[block - 1 :]):
            return True
        # Vectors converge ever faster, so the estimate is about twice too large.
        if 2 * m > limit and m + 0.4 * self.to_go > limit:
            return True
        # A survey that has not seen most of the singular values is worth nothing.
        has_seen = self.ritz.counts.sum() > 0.6 * problem.full_rank
        is_in_doubt = has_seen and self.rank >= 0 and m + self.to_go > limit
        return bool(is_in_doubt and self.surveyed_rank(problem) > 0.75 * limit)

    def has_rival(self, problem: RandomizedProblem) -> bool:
        """Whether many more components and less noise might explain the spectrum better."""
        # Counts come from random numbers: try the most cautious of the likely ones, too.
        spread = min(np.sqrt(2 / (problem.block * problem.full_rank)), 0.2)
        ranks = (self.surveyed_rank(problem, caution) for caution in (0.0, 3 * spread))
        return any(rank > 1.5 * self.rank + 8 for rank in ranks)

    def surveyed_rank(self, problem: RandomizedProblem, caution: float = 0.0) -> int:
        """The rank that the plan finds in an estimate of the complete spectrum.

        Truncated spectra cannot distinguish noise from a great many components: this does, roughly.
        """
        settled, rest = np.split(self.ritz.values, [self.n_settled])
        places = np.arange(problem.full_rank - self.n_settled) + 0.5
        ends = np.cumsum(self.ritz.counts[self.n_settled :]) * (1 - caution)
        values = np.append(settled, np.append(rest, 0.0)[np.searchsorted(ends, places)])
        return problem.rough(problem.spectrum(values, is_complete=True)).rank


def _convergence(ritz: Ritz, k: int, problem: RandomizedProblem) -> tuple[FloatArray, FloatArray]:
    """Errors of the kept right vectors over the tolerance, and the steps that each still needs.

    With Aᵀu = θv exact, Av − θu = A·(frontier part of v) less its projection, of norm ρ. The part
    of v outside the limit is then ρ·γ/(θ² − γ²), with γ the largest value not kept; ρ is the leak
    times ‖A·frontier‖, which is γ once nothing that is kept leaks. Per step, the Chebyshev
    polynomial shrinks it by exp(−2·arsinh √(θ²/γ² − 1)).
    """
    theta, leak, gamma = ritz.values[:k], ritz.leak[:k], ritz.values[k]
    if not k:
        return np.zeros(0), np.zeros(0)
    frontier = max(gamma, float((theta * leak).max()))
    # A gap below 1 % is no gap: vectors on either side of it are equally good.
    gap = np.maximum(theta**2 - gamma**2, 0.01 * theta**2)
    floor = 4 * problem.eps * theta[0] / theta
    tolerance = np.maximum(problem.tolerance, floor)
    errors = leak * frontier * gamma / gap / tolerance
    rate = 2 * np.arcsinh(np.sqrt(gap) / gamma)
    return errors, np.log(np.maximum(errors, 1.0)) / rate
