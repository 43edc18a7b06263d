"""`decompose`: expand the space until its Ritz values give the answer, or cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.namespaces import (
    array_namespace,
    cast,
    hasty_cholesky,
    on_accelerator,
    to_namespace,
    to_numpy,
    triangular_inverse,
)
from bayespca.arrays.types import Array, FloatArray
from bayespca.engines.records import Decomposition, Operator, Plan
from bayespca.spectrum.tolerances import EPS

from .orthonormal import gram_of
from .problem import FIRST_LOOK, RandomizedProblem
from .space import DoubtfulError, HastySpace, Ritz, Space

# Columns multiplied at once: enough to run at the speed of arithmetic, few enough to take steps. On
# an accelerator, where each step waits for the host several times, more.
BLOCK, ACCELERATOR_BLOCK = 24, 64
# Where the energy below the kept components is a smaller part of all energy than this, a difference
# does not give it to six digits: then another engine must find the noise.
LOST = 2e7 * EPS

# Ritz values that must lie below those kept before an answer is believed.
SPARE = 4


def decompose(
    operator: Operator,
    *,
    plan: Plan,
    rng: np.random.Generator,
    block: int | None = None,
    max_miss: float = 1e-6,
    max_basis: int | None = None,
    hasty: bool | None = None,
) -> Decomposition | None:
    """The singular values and right vectors that a plan keeps, and the next one below.

    Parameters
    ----------
    operator
        The matrix.
    plan
        From a truncated spectrum to a solution. Its rank, its threshold and whether it is exact
        decide how far to go.
    rng
        Draws the starting block. The result depends on it only within the tolerance: subspaces to
        1e-7 in float64, 1e-4 in float32.
    block
        Number of columns to multiply at once; by default one that suits the device of the data.
    max_miss
        The largest probability allowed of having missed a singular value above the threshold.
        Where the plan keeps fewer than are above it, that of having missed one above the last kept
        and at least 5 % above the largest one left.
    max_basis
        Give up beyond this many basis vectors; by default a third of the shorter side, beyond which
        other ways cost less.
    hasty
        Whether to check that rows are orthonormal only at each look at the Ritz values, and to
        start over with care if they are not; by default on accelerators, which then never wait.

    Returns
    -------
    Decomposition or None
        None if the spectrum falls too slowly to be cut off within `max_basis`.
    """
    if not np.isfinite(operator.sum_of_squares):
        raise ValueError("the squares of the data overflow: divide them by a common factor.")
    if block is None:
        block = ACCELERATOR_BLOCK if on_accelerator(operator.mean) else BLOCK
    problem = RandomizedProblem.of(operator, plan, block, max_miss, max_basis)
    if not operator.sum_of_squares:
        rows = to_namespace(np.zeros((0, operator.shape[1])), operator.mean, operator.dtype)
        return problem.decomposition(problem.spectrum(np.zeros(0)), rows, 0.0)
    if on_accelerator(operator.mean) if hasty is None else hasty:
        try:
            return _explored(HastySpace.start(operator, rng, problem), problem)
        except DoubtfulError:
            pass
    return _explored(Space.start(operator, rng, problem), problem)


def _explored(space: Space, problem: RandomizedProblem) -> Decomposition | None:
    """Expand the space until its Ritz values give the answer, or show that they cannot."""
    while space.size + space.width <= problem.max_basis:
        space.expand()
        if not space.frontier:  # A maps the space into itself
            return _exhausted(space, problem)
        if space.full_steps < FIRST_LOOK or space.size < space.next_look:
            continue
        # Computed only now, when an accelerator has something to do meanwhile.
        if space.full_steps < problem.first_look:
            continue
        look = Look.at(space.ritz(), space.full_steps, problem)
        if look.is_done:
            return _answer(space, problem, look)
        if look.is_hopeless(problem):
            return None
        space.aim(look.ritz, look.slow, look.to_go)
    return None


def _answer(space: Space, problem: RandomizedProblem, look: Look) -> Decomposition | None:
    """The decomposition, if the plan's answer for the trusted values is the same as for all."""
    k, n = look.rank, look.n_trusted
    refined = _refining(space, problem, look.ritz, k)
    if look.has_rival(problem):
        return None
    values, rows = refined()
    rest = problem.energy - float(values[:k] @ values[:k])
    if rest < LOST * problem.energy or problem.n_feasible(values[:n]) < n:
        return None
    spectrum = problem.spectrum(values[:n])
    solution = problem.plan(spectrum)
    if solution.rank != k or not solution.status.exact:
        return None
    return problem.decomposition(spectrum, rows(n), look.miss)


def _exhausted(space: Space, problem: RandomizedProblem) -> Decomposition | None:
    """The decomposition when the Krylov space holds all of A; None if energy is left over.

    Energy is left over where a singular value has more copies than a block has columns, and where
    noise is lost among the rounding errors of strong components.
    """
    ritz = space.ritz()
    k = int(np.count_nonzero(ritz.values > 4 * space.rounding))
    values, rows = _refining(space, problem, ritz, k)()
    rounding = 200 * EPS + 10 * k * problem.eps**2
    if problem.energy - float(values[:k] @ values[:k]) > rounding * problem.energy:
        return None
    # A zero at the end says that all further values are zero.
    handed = np.append(values[:k], 0.0)[: problem.full_rank]
    return problem.decomposition(problem.spectrum(handed, is_complete=True), rows(k), 0.0)


Refined = tuple[FloatArray, Callable[[int], Array]]


def _refining(
    space: Space, problem: RandomizedProblem, ritz: Ritz, k: int
) -> Callable[[], Refined]:
    """A function that returns Ritz values and vectors, the first k refined by one more product if
    the rest needs that. An accelerator starts on it now; calling the function waits for it.

    The energy that the kept values leave over must not drown in their rounding errors. An error of
    the vectors enters the values squared, so vectors in float32 will do. Rounding errors of a
    product in float32 are random, and a sum of squares over all rows hardly sees them: it is better
    than Ritz values by two digits. Where that is not enough the product is in float64.
    """
    basis, wide = space.right.rows, problem.operator.mean.dtype
    known = float(ritz.values[:k] @ ritz.values[:k])
    error, allowed = problem.eps * known, 1e-6 * (problem.energy - known)
    if problem.eps < 1e-10 or error <= allowed:
        return lambda: (ritz.values, lambda n: cast(ritz.right[:n, :], basis.dtype) @ basis)
    rows = cast(ritz.right[:k, :], basis.dtype) @ basis
    is_distant = problem.operator.is_distant
    rows = cast(rows, wide) if error > 10 * allowed or is_distant else rows
    image = (problem.operator.matmul(rows.T) / problem.unit).T
    half = triangular_inverse(hasty_cholesky(gram_of(cast(rows, wide))))
    gram = gram_of(image if is_distant else cast(image, wide))
    xp = array_namespace(gram)

    def refined() -> Refined:
        squares, turn = xp.linalg.eigh(half @ gram @ half.T)
        values = np.append(np.sqrt(to_numpy(squares)[::-1]), ritz.values[k:])
        right = xp.concat([xp.flip(turn, axis=1).T @ ritz.right[:k, :], ritz.right[k:, :]])
        return np.minimum.accumulate(values), lambda n: cast(right[:n, :], basis.dtype) @ basis

    return refined


# --- what a look at the Ritz values shows ------------------------------------------------------


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
        has_settled = ritz.leak <= problem.eps**0.25
        n_leading = has_settled.size if has_settled.all() else int(np.argmin(has_settled))
        n_settled = min(ritz.values.size - 1, n_leading)
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
