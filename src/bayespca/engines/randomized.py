"""Randomized block Krylov: the largest singular values and vectors, as far as the plan needs them.

*The process.* A Gaussian block of b right vectors is multiplied by A and Aᵀ in turn (A is X less
its column means), each product made orthonormal against all that came before it. This is Golub and
Kahan's bidiagonalisation in blocks. It keeps three things:

    Aᵀ·left = right·Bᵀ      left: n×m and right: p×(m+b), orthonormal; B: m×(m+b), small

so the singular triplets of B, A's Ritz triplets, cost no product with A, and no Gram matrix squares
the condition number. The last b columns of `right` are the *frontier*: not yet multiplied by A.
The weight of a Ritz vector there, its *leak*, tells how far it is from convergence. When all is
settled but a few vectors, only the part of the frontier where those leak is multiplied.

*What is handed to the plan.* Ritz values never exceed the singular values they stand for. Kept ones
are converged, so they and the sum of squares, which is exact, fix the noise. Dropped ones are
handed over as far as they have settled, and one more: an underestimate, which the plan reads as
a bound of all the values it is not told. It is no such bound unless it leaves room for the energy
that remains, (N − j)·θⱼ² ≥ ‖A‖² − Σ_{i≤j} θᵢ² with N = min(n, p), as true ones always do.
The left side less the right falls with j, so that a first few Ritz values can be handed over, and
none at all as long as the process has not seen enough. What a truncated spectrum cannot exclude is
that a great many components, with less noise, explain the whole of it better. Weights of the Ritz
vectors in the random start tell how many singular values each stands for: the plan is asked once
about the complete spectrum that they suggest (`Look.surveyed_rank`).

*How sure it is.* Let a singular value γ be missed, θ < γ be the largest Ritz value left after the
settled ones, and e products be done. The Krylov space holds A·f(AᵀA)·Gc for every polynomial f of
degree below e/2 and every c, with G the Gaussian block; free of the settled vectors, none of these
has a Rayleigh quotient above θ². Take the f with

    √x·√(θ² − x)·f(x) = θ²·sin(e·arcsin √(x/θ²)),

of Chebyshev's kind: at most θ² below θ², growing fastest above; and c along g, the b coordinates
of G in the direction missed. The other coordinates of Gc are independent of g. It follows that

    ‖g‖²·sinh²(e·arsinh √(γ²/θ² − 1)) ≤ χ² of at most N − 1 degrees of freedom,

and the probability of that is a beta distribution's. For b = 1 this is a little sharper than the
1.648·√N·exp(−(e−1)·√(1 − θ²/γ²)) of Kuczyński and Woźniakowski (1992), and it counts the columns of
a block together. The sum of squares bounds how many there can be to miss. Because the process
stops at a fixed level of this, the bound holds at whatever moment it does.
That the space is free of c settled vectors has its price: f must vanish at their λ, which takes
one degree for b of them, 2c/b products, and leaves the product of |1 − γ²/λ| to the power 1/b of
its growth. This part is an estimate. In thousands of simulations whose start was rigged against one
direction the inequality with it failed once, by 15 %; without it, often and by many powers of ten.
A cluster of more than b singular values that agree to within the tolerance is beyond all this; it
shows as b kept values that agree, and is given up.

*What it costs.* 4·n·p multiplications and additions per basis vector, which nothing that only
multiplies can avoid: about five blocks to be sure, more where kept vectors converge more slowly. On
top of it 2·(n + p)·m² for each of two orthogonalisations, and a pass over X for its mean and sum of
squares. Stored are (n + p)·m numbers, both sides alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import device
from scipy.special import betainc, betaincinv

from bayespca.arrays.namespaces import (
    array_namespace,
    cast,
    eps,
    hasty_cholesky,
    normal_draws,
    on_accelerator,
    to_namespace,
    to_numpy,
    triangular_inverse,
)
from bayespca.arrays.types import Array, FloatArray
from bayespca.spectrum.records import Solution, Spectrum
from bayespca.spectrum.tolerances import EPS, SLACK_OF_SPECTRUM

from .operators import Operator
from .records import Decomposition, Plan
from .tall import TallBasis, TallOperator, TallRows

# Columns multiplied at once: enough to run at the speed of arithmetic, few enough to take steps. On
# an accelerator, where each step waits for the host several times, more.
BLOCK, ACCELERATOR_BLOCK = 24, 64
# How far to go before the next look: the share of the way that is estimated, and of the size. On an
# accelerator a look takes as long as a step.
WAY, ACCELERATOR_WAY = (0.5, 1 / 8), (2.0, 1 / 2)
# Columns for each row of normal draws from which on the rows are far from dependent: eigenvalues of
# their Gram matrix are then within a factor of 4 of each other.
MANY_COLUMNS = 10
# The smallest number of columns worth a pass over the data.
NARROW = 8
# Full steps before the first look: no confidence is reached sooner, or hardly ever. On an
# accelerator as many as noise would need, within bounds.
FIRST_LOOK, ACCELERATOR_FIRST_LOOK = 3, (4, 8)
# Ritz values that must lie below those kept before an answer is believed.
SPARE = 4
# How much smaller the eigenvalues of a Gram matrix may be than its largest, over the precision of
# the numbers: rows that Cholesky's factor makes orthonormal are so to a hundredth at worst.
WELL = 100.0
# How far the Gram matrix of rows may be from the identity for a second Cholesky factor to make them
# orthonormal to full precision.
NEARLY = 0.1
# Where the energy below the kept components is a smaller part of theirs than this, a difference
# does not tell it to six digits: then others must find the noise.
LOST = 2e7 * EPS


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
        Draws the starting block. What comes out depends on it only within the tolerance: subspaces
        to 1e-7 in float64, 1e-4 in float32.
    block
        Number of columns to multiply at once; by default what suits the place of the data.
    max_miss
        The largest probability allowed of having missed a singular value above the threshold.
        Where the plan keeps fewer than are above it, the value to miss is one above the last kept,
        by 5 % at least.
    max_basis
        Give up beyond this many basis vectors; by default a third of the shorter side, from where
        on other ways cost less.
    hasty
        Whether to check orthonormal rows only when there is a look at the Ritz values, and to begin
        again with care if they are not; by default on accelerators, which never wait then.

    Returns
    -------
    Decomposition or None
        None if the spectrum falls too slowly to be cut off within `max_basis`.
    """
    if not np.isfinite(operator.sum_of_squares):
        raise ValueError("the squares of the data overflow: divide them by a common factor.")
    if block is None:
        block = ACCELERATOR_BLOCK if on_accelerator(operator.mean) else BLOCK
    problem = Problem.of(operator, plan, block, max_miss, max_basis)
    if not operator.sum_of_squares:
        rows = to_namespace(np.zeros((0, operator.shape[1])), operator.mean, operator.dtype)
        return problem.decomposition(problem.spectrum(np.zeros(0)), rows, 0.0)
    if on_accelerator(operator.mean) if hasty is None else hasty:
        try:
            return _explored(HastySpace.start(operator, rng, problem), problem)
        except DoubtfulError:
            pass
    return _explored(Space.start(operator, rng, problem), problem)


def _explored(space: Space, problem: Problem) -> Decomposition | None:
    """Expand the space until its Ritz values tell what is asked for, or that they will not."""
    while space.size + space.width <= problem.max_basis:
        space.expand()
        if space.is_exhausted:
            return _exhausted(space, problem)
        if space.full_steps < FIRST_LOOK or space.size < space.next_look:
            continue
        # Asked only now, when an accelerator has something to do meanwhile.
        if space.full_steps < problem.first_look:
            continue
        look = Look.at(space, problem)
        if look.is_done:
            return _answer(space, problem, look)
        if look.is_hopeless(problem):
            return None
        space.aim(look)
    return None


@dataclass(frozen=True)
class Problem:
    """What is asked for. `unit` is divided out of all products, so that squares stay in range."""

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
    ) -> Problem:
        n, p = operator.shape
        shape = (p, max(n - 1, 1) if operator.centered else n)
        if isinstance(operator, TallOperator):
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
        """How far a kept vector may be from its limit."""
        return max(4e-8, 0.5 * self.eps**0.5)

    @cached_property
    def first_look(self) -> int:
        """Full steps before the first look."""
        if not on_accelerator(self.operator.mean):
            return FIRST_LOOK
        least, most = ACCELERATOR_FIRST_LOOK
        return int(np.clip(np.ceil(0.5 * self.products_for_noise()), least, most))

    def products_for_noise(self) -> float:
        """Products after which it is sure that nothing was missed, if all is noise.

        Its largest singular value, which nothing converges beyond, is √L + √M times its size.
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
        """What the plan makes of a spectrum on the way: rank, threshold and whether it is sure."""
        return self.plan(spectrum, other_ranks=False)

    def spectrum(self, values: FloatArray, *, is_complete: bool = False) -> Spectrum:
        """The spectrum in the units of the data: truncated, unless all that is not given is 0."""
        total = None if is_complete else self.operator.sum_of_squares
        return Spectrum(values * self.unit, self.shape, total, resolution=self.eps)

    def n_feasible(self, values: FloatArray) -> int:
        """How many of the Ritz values leave room for the energy that remains below them."""
        squares = values**2
        rest = self.energy - np.cumsum(squares)
        room = (self.full_rank - 1 - np.arange(values.size)) * squares
        return _leading(rest <= room + min(20 * self.eps, 0.5 * SLACK_OF_SPECTRUM) * self.energy)

    def decomposition(self, spectrum: Spectrum, rows: Array, miss: float) -> Decomposition:
        """The record, with the right vectors in `rows`."""
        op = self.operator
        return Decomposition(
            spectrum, lambda k: rows[:k, :], op.mean, op.shape[0], "randomized", miss
        )


def _answer(space: Space, problem: Problem, look: Look) -> Decomposition | None:
    """The decomposition, if the plan says of the trusted values what it said of all of them."""
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


def _exhausted(space: Space, problem: Problem) -> Decomposition | None:
    """The decomposition when the Krylov space holds all of A; None if energy is left over.

    The last is the case for singular values with more copies than a block has columns, and where
    noise is lost among the rounding errors of strong components.
    """
    ritz = space.ritz()
    k = int(np.count_nonzero(ritz.values > 4 * space.rounding))
    values, rows = _refining(space, problem, ritz, k)()
    rounding = 200 * EPS + 10 * k * problem.eps**2
    if problem.energy - float(values[:k] @ values[:k]) > rounding * problem.energy:
        return None
    # A zero tells that all further values are zero.
    handed = np.append(values[:k], 0.0)[: problem.full_rank]
    return problem.decomposition(problem.spectrum(handed, is_complete=True), rows(k), 0.0)


Refined = tuple[FloatArray, Callable[[int], Array]]


def _refining(space: Space, problem: Problem, ritz: Ritz, k: int) -> Callable[[], Refined]:
    """Ritz values and vectors, the first k by one product more if the rest needs that: an
    accelerator is told of it, and what comes out is there when it is asked for.

    The energy that the kept values leave over must not drown in their rounding errors. An error of
    the vectors enters the values squared, so that vectors in float32 will do. Rounding errors of
    a product in float32 are random, and a sum of their squares over all rows hardly sees them: it
    is better than Ritz values by two digits. Where that is not enough the product is in float64.
    """
    basis, wide = space.right.rows, problem.operator.mean.dtype
    known = float(ritz.values[:k] @ ritz.values[:k])
    error, allowed = problem.eps * known, 1e-6 * (problem.energy - known)
    if problem.eps < 1e-10 or error <= allowed:
        return lambda: (ritz.values, lambda n: cast(ritz.right[:n, :], basis.dtype) @ basis)
    rows = cast(ritz.right[:k, :], basis.dtype) @ basis
    is_tall = isinstance(problem.operator, TallOperator)
    rows = cast(rows, wide) if error > 10 * allowed or is_tall else rows
    image = (problem.operator.matmul(rows.T) / problem.unit).T
    half = triangular_inverse(hasty_cholesky(_gram(cast(rows, wide))))
    gram = _gram(image if is_tall else cast(image, wide))
    xp = array_namespace(gram)

    def refined() -> Refined:
        squares, turn = xp.linalg.eigh(half @ gram @ half.T)
        values = np.append(np.sqrt(to_numpy(squares)[::-1]), ritz.values[k:])
        right = xp.concat([xp.flip(turn, axis=1).T @ ritz.right[:k, :], ritz.right[k:, :]])
        return np.minimum.accumulate(values), lambda n: cast(right[:n, :], basis.dtype) @ basis

    return refined


# --- looking at the Ritz values ----------------------------------------------------------------


@dataclass(frozen=True)
class Ritz:
    """Singular values of B in decreasing order, and right vectors as rows, where B is.

    `leak` is the norm of their part in the frontier. `counts` estimates how many singular values
    of A each stands for, from its weight in the random start.
    """

    values: FloatArray
    right: Array
    leak: FloatArray
    counts: FloatArray


@dataclass(frozen=True)
class Look:
    """What the plan makes of the Ritz values, and what is still missing.

    `rank` is −1 while the plan cannot tell. `n_settled` first Ritz values will hardly change, of
    which `n_trusted`, with one more, can be handed over. `errors` estimates, per kept vector, its
    distance from the limit in units of the tolerance; `to_go` the number of basis vectors to come.
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
    def at(cls, space: Space, problem: Problem) -> Look:
        """Take a look."""
        ritz = space.ritz()
        n_settled = min(ritz.values.size - 1, _leading(ritz.leak <= problem.eps**0.25))
        n_feasible = problem.n_feasible(ritz.values)
        solution = _decided(ritz, n_feasible, problem)
        if solution is None:
            return cls(ritz, n_settled)
        k = solution.rank
        errors, steps = _convergence(ritz, k, problem)
        chance = Chance.of(problem, ritz.values, solution, max(k, n_settled))
        miss, to_go = chance.missed_after(2 * space.full_steps), float(steps.sum())
        is_sure = miss <= problem.max_miss
        if not is_sure:
            # What settles comes out of the way, so the need of today is an upper bound.
            full = min(0.5 * chance.products_needed() - space.full_steps, space.full_steps)
            to_go = max(to_go, 0.5 * full * problem.block)
        n_trusted = min(max(k, n_settled) + 1, n_feasible)
        return cls(ritz, n_settled, k, n_trusted, errors, miss, is_sure, to_go)

    @property
    def is_done(self) -> bool:
        below = self.ritz.values.size - self.rank
        return self.rank >= 0 and self.is_sure and below >= SPARE and bool((self.errors <= 1).all())

    def is_hopeless(self, problem: Problem) -> bool:
        """Whether the basis would outgrow its limit, or could not show what there is."""
        m, limit = self.ritz.values.size, problem.max_basis
        if _is_cluster(self.ritz.values[: max(self.rank, 0)], problem.block):
            return True
        # Vectors converge ever faster, so that the estimate is about twice too large.
        if 2 * m > limit and m + 0.4 * self.to_go > limit:
            return True
        # A survey that has not seen most of the singular values is worth nothing.
        has_seen = self.ritz.counts.sum() > 0.6 * problem.full_rank
        is_in_doubt = has_seen and self.rank >= 0 and m + self.to_go > limit
        return bool(is_in_doubt and self.surveyed_rank(problem) > 0.75 * limit)

    def has_rival(self, problem: Problem) -> bool:
        """Whether many more components and less noise might explain the spectrum better."""
        # Counts come from random numbers: look at the most cautious that are likely, too.
        spread = min(np.sqrt(2 / (problem.block * problem.full_rank)), 0.2)
        ranks = (self.surveyed_rank(problem, caution) for caution in (0.0, 3 * spread))
        return any(rank > 1.5 * self.rank + 8 for rank in ranks)

    def surveyed_rank(self, problem: Problem, caution: float = 0.0) -> int:
        """The rank that the plan finds in an estimate of the complete spectrum.

        Truncated spectra do not tell noise from a great many components: this does, roughly.
        """
        settled, rest = np.split(self.ritz.values, [self.n_settled])
        places = np.arange(problem.full_rank - self.n_settled) + 0.5
        ends = np.cumsum(self.ritz.counts[self.n_settled :]) * (1 - caution)
        values = np.append(settled, np.append(rest, 0.0)[np.searchsorted(ends, places)])
        return problem.rough(problem.spectrum(values, is_complete=True)).rank


def _decided(ritz: Ritz, n_feasible: int, problem: Problem) -> Solution | None:
    """The plan's solution for the Ritz values, if it is one and leaves some of them."""
    if not n_feasible:
        return None
    solution = problem.rough(problem.spectrum(ritz.values[:n_feasible]))
    leaves = solution.rank < ritz.values.size and ritz.values[solution.rank] > 0
    return solution if solution.status.exact and leaves else None


def _leading(holds: np.ndarray[Any, np.dtype[np.bool_]]) -> int:
    """How many come before the first for which it does not hold."""
    return int(holds.size if holds.all() else np.argmin(holds))


def _convergence(ritz: Ritz, k: int, problem: Problem) -> tuple[FloatArray, FloatArray]:
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
    # A gap below 1 % is no gap: vectors on its sides are as good as each other.
    gap = np.maximum(theta**2 - gamma**2, 0.01 * theta**2)
    floor = 4 * problem.eps * theta[0] / theta
    tolerance = np.maximum(problem.tolerance, floor)
    errors = leak * frontier * gamma / gap / tolerance
    rate = 2 * np.arcsinh(np.sqrt(gap) / gamma)
    return errors, np.log(np.maximum(errors, 1.0)) / rate


def _is_cluster(kept: FloatArray, block: int) -> bool:
    """Whether as many kept values agree as a block has columns: there may be more of them."""
    first = kept[: max(kept.size - block + 1, 0)]
    return block > 1 and bool(np.any(first <= 1.0001 * kept[block - 1 :]))


@dataclass(frozen=True)
class Chance:
    """How likely it is that a singular value was missed, given the largest Ritz value left.

    `ratio` is γ²/θ², the square of the smallest value that must not be missed over that one;
    `n_spent` the products, and `log_damping` the growth, that the settled vectors cost.
    """

    ratio: float
    block: int
    n_directions: int
    n_candidates: float
    max_miss: float
    n_spent: float
    log_damping: float

    @classmethod
    def of(cls, problem: Problem, values: FloatArray, solution: Solution, n_settled: int) -> Chance:
        """With the settled vectors taken out, kept and dropped."""
        k, c = solution.rank, n_settled
        theta, edge = values[c], solution.threshold / problem.unit
        if values[k] > edge:
            # The rank was limited from outside: what matters is a value above the last kept.
            edge = max(values[k - 1], 1.05 * theta) if k else np.inf
        rest = max(problem.energy - float(values[:k] @ values[:k]), 0.0)
        factors = np.abs(1 - np.minimum(edge / values[:c], 1e3) ** 2)
        return cls(
            ratio=(edge / theta) ** 2 if theta else np.inf,
            block=problem.block,
            n_directions=problem.full_rank,
            n_candidates=1.0 + rest / edge**2,
            max_miss=problem.max_miss,
            n_spent=2 * c / problem.block,
            log_damping=float(np.log(np.clip(factors, 0.01, 1)).sum()) / problem.block,
        )

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
        """How many products it takes to be sure, if the Ritz value stays."""
        level = float(betaincinv(*self._shape, min(self.max_miss / self.n_candidates, 1.0)))
        growth = np.sqrt(1 / level - 1) * np.exp(-self.log_damping)
        return self.n_spent + float(np.arcsinh(growth)) / max(self._rate, 1e-9)


# --- the Krylov space --------------------------------------------------------------------------


class Rows:
    """Orthonormal rows, in storage that doubles when it is full."""

    def __init__(self, width: int, like: Array, dtype: Any) -> None:
        self._store = to_namespace(np.empty((0, width)), like, dtype)
        self.size = 0

    @property
    def rows(self) -> Array:
        return self._store[: self.size, :]

    def append(self, block: Array) -> None:
        """Add rows, which must be orthonormal to those that are there."""
        size = self.size + int(block.shape[0])
        if size > self._store.shape[0]:
            xp = array_namespace(block)
            old, shape = self.rows, (2 * size, block.shape[1])
            self._store = xp.empty(shape, dtype=block.dtype, device=device(block))
            self._store[: self.size, :] = old
        self._store[self.size : size, :] = block
        self.size = size

    def replace(self, first: int, block: Array) -> None:
        """Put rows in place of those from `first` on."""
        self._store[first : self.size, :] = block


class Space:
    """The growing Krylov space: Aᵀ·left = right·Bᵀ. It is changed in place, to copy nothing.

    `n_expanded` right vectors have been multiplied by A; the others are the frontier. The next
    step multiplies the first `width` of them. Multiplying all of them is a full step: after q of
    them the space holds the block Krylov space of 2q products, whatever other steps were taken.
    """

    def __init__(self, operator: Operator, start: Array, problem: Problem) -> None:
        n, p = operator.shape
        self.operator = operator
        self.unit, self.eps, self.tolerance = problem.unit, problem.eps, problem.tolerance
        self.left: Rows | TallBasis = Rows(n, start, start.dtype)
        if isinstance(operator, TallOperator):
            self.left = operator.new_basis()
        self.right = Rows(p, start, start.dtype)
        self.right.append(start)
        self.B = to_namespace(np.zeros((0, self.right.size)), start, operator.mean.dtype)
        self.n_expanded = self.full_steps = self.next_look = 0
        self.n_start = self.width = self.right.size
        self.norm = 0.0

    @classmethod
    def start(cls, operator: Operator, rng: np.random.Generator, problem: Problem) -> Space:
        """A space with a Gaussian block as its frontier."""
        shape = (problem.block, operator.shape[1])
        draws = normal_draws(rng, shape, operator.mean, operator.dtype)
        return cls(operator, cls._orthonormal(draws), problem)

    @staticmethod
    def _orthonormal(draws: Array) -> Array:
        for _ in range(2):
            _, draws = _orthonormal(draws, _gram(draws), 0.0)
        return draws

    @property
    def size(self) -> int:
        """Number of left vectors, and of Ritz values."""
        return self.left.size

    @property
    def frontier(self) -> int:
        """Number of right vectors that are not multiplied yet."""
        return self.right.size - self.n_expanded

    @property
    def is_exhausted(self) -> bool:
        """Whether A maps the space into itself."""
        return not self.frontier

    def expand(self) -> None:
        """Multiply the first part of the frontier by A, and what is new by Aᵀ."""
        first, last = self.n_expanded, self.n_expanded + self.width
        self.full_steps += self.width == self.frontier
        image = self.operator.matmul(self.right.rows[first:last, :].T).T
        self.n_expanded = last
        _, _, left = self._extended(self.left, image)
        if left.shape[0]:
            image = self.operator.rmatmul(left.T).T
            along, beyond, right = self._extended(self.right, image)
            xp = array_namespace(beyond)
            shape = (self.size, beyond.shape[1])
            above = xp.zeros(shape, dtype=beyond.dtype, device=device(beyond))
            columns = [(self.B, along), (above, beyond)]
            self.B = xp.concat([xp.concat(column) for column in columns], axis=1)
            self.left.append(left)
            self.right.append(right)
        self._turn_to_newest()

    def _extended(self, basis: Rows | TallBasis, image: Array) -> tuple[Array, Array, Array]:
        """C, R and new rows, orthonormal to the basis, with image = C·basis + R·new.

        Directions that rounding errors of the product could have made are left out.
        """
        if self.unit != 1.0:
            image = image / self.unit
        along, image = _projected(image, basis.rows)
        gram = _gram(image)
        self._see(along, gram)
        beyond, image = _orthonormal(image, gram, self.rounding)
        # Again, with rows of length one, so that small directions come out as clean as large ones.
        again, image = _projected(image, basis.rows)
        along = along + beyond @ again
        turn, image = _orthonormal(image, _gram(image), 0.5)
        return along, beyond @ turn, image

    def _see(self, along: Array, gram: Array) -> None:
        """Learn the norm of A from a product with vectors of length one."""
        if gram.shape[0]:
            xp = array_namespace(gram)
            squares = xp.linalg.diagonal(gram) + xp.sum(along**2, axis=1)
            self.norm = max(self.norm, float(xp.max(squares)) ** 0.5)

    @property
    def rounding(self) -> float:
        """The size of the rounding errors in a product."""
        return 8 * self.eps * self.norm

    def ritz(self) -> Ritz:
        """The singular triplets of B."""
        values, right = _singular(self.B, self.tolerance)
        self.norm = max(self.norm, float(values[0])) if values.size else self.norm
        xp = array_namespace(right)
        parts = (right[:, self.n_expanded :], right[:, : self.n_start])
        squares = to_numpy(xp.stack([xp.sum(part**2, axis=1) for part in parts]))
        leak, weight = np.sqrt(squares[0]), squares[1]
        return Ritz(values, right, leak, weight * (self.operator.shape[1] / self.n_start))

    def aim(self, look: Look) -> None:
        """Choose what to multiply next, and when to look again."""
        slow = np.flatnonzero(look.errors > 1)
        width = self.frontier
        if look.is_sure and 0 < slow.size < width:
            rest = np.setdiff1d(np.arange(look.ritz.values.size), slow)
            order = np.append(slow, rest)[: self.frontier]
            leaks = to_numpy(look.ritz.right)[order, self.n_expanded :]
            turn, _ = np.linalg.qr(leaks.T, mode="complete")
            self._turn(turn.T)
            width = min(-(-slow.size // NARROW) * NARROW, width)
        self.width = width
        # Looks cost the cube of the size: let it grow a little in between.
        way, growth = ACCELERATOR_WAY if on_accelerator(self.B) else WAY
        self.next_look = self.size + int(min(way * look.to_go, growth * self.size))

    def _turn(self, rotation: FloatArray) -> None:
        """Rotate the frontier."""
        first = self.n_expanded
        rows = self.right.rows[first:, :]
        self.right.replace(first, to_namespace(rotation, rows) @ rows)
        self.B[:, first:] = self.B[:, first:] @ to_namespace(rotation.T, self.B)

    def _turn_to_newest(self) -> None:
        """Bring forward the newest part of the frontier, to which the last step led."""
        self.width = min(self.width, self.frontier)
        if 0 < self.width < self.frontier:
            self._turn(np.roll(np.eye(self.frontier), self.width, axis=0))


class DoubtfulError(ArithmeticError):
    """Rows that were to be orthonormal are not: they have to be made so with more care."""


class HastySpace(Space):
    """The same without a look at each Gram matrix, so that an accelerator need not wait for it.

    Whether the first Cholesky factor was good shows in the rows that it made: the second Gram
    matrix is nearly the identity. That is looked at together with the Ritz values.
    """

    def __init__(self, operator: Operator, start: Array, problem: Problem) -> None:
        super().__init__(operator, start, problem)
        self._evidence: list[Array] = []

    @staticmethod
    def _orthonormal(draws: Array) -> Array:
        """A Gram matrix of normal draws needs no look, if there are many more of them than rows."""
        if draws.shape[1] < MANY_COLUMNS * draws.shape[0]:
            return Space._orthonormal(draws)
        for _ in range(2):
            draws = cast(triangular_inverse(hasty_cholesky(_gram(draws))), draws.dtype) @ draws
        return draws

    def _extended(self, basis: Rows | TallBasis, image: Array) -> tuple[Array, Array, Array]:
        if self.unit != 1.0:
            image = image / self.unit
        along, image = _projected(image, basis.rows)
        gram = _gram(image)
        beyond = hasty_cholesky(gram)
        inverse = triangular_inverse(beyond)
        again, image = _projected(cast(inverse, image.dtype) @ image, basis.rows)
        second = _gram(image)
        turn = hasty_cholesky(second)
        self._remember(along, gram, inverse, second)
        image = cast(triangular_inverse(turn), image.dtype) @ image
        return along + beyond @ again, beyond @ turn, image

    def _remember(self, along: Array, gram: Array, inverse: Array, second: Array) -> None:
        """The square of the norm seen, a bound of the smallest direction's, and how far the rows
        are from being orthonormal.
        """
        xp = array_namespace(gram)
        largest = xp.max(xp.linalg.diagonal(gram) + xp.sum(along**2, axis=1))
        identity = xp.eye(second.shape[0], dtype=second.dtype, device=device(second))
        off = xp.linalg.matrix_norm(second - identity)
        self._evidence.append(xp.stack([largest, 1.0 / xp.sum(inverse**2), off]))

    def ritz(self) -> Ritz:
        largest, smallest, off = to_numpy(array_namespace(self.B).stack(self._evidence)).T
        self.norm = float(np.sqrt(largest.max()))
        if not ((smallest > self.rounding**2).all() and (off < NEARLY).all()):
            raise DoubtfulError
        return super().ritz()


def _singular(B: Array, tolerance: float) -> tuple[FloatArray, Array]:
    """Singular values of a wide matrix in decreasing order, and its right vectors as rows.

    By the eigenvalues of B·Bᵀ, in a quarter of the time, where rounding errors of the largest
    stay far below the tolerance in the vectors of the smallest.
    """
    xp = array_namespace(B)
    if not B.shape[0]:
        return np.zeros(0), B
    squares, left = xp.linalg.eigh(B @ B.T)
    known = to_numpy(squares)
    if known[0] * 0.01 * tolerance <= EPS * known[-1]:
        _, values, right = np.linalg.svd(to_numpy(B), full_matrices=False)
        return values, to_namespace(right, B)
    return np.sqrt(known[::-1]), xp.flip((left / xp.sqrt(squares)).T, axis=0) @ B


def _projected(image: Array, rows: Array) -> tuple[Array, Array]:
    """C = image·rowsᵀ in float64, and what it leaves of the image."""
    along = image @ rows.T
    return _wide(along), image - along @ rows


def _gram(image: Array) -> Array:
    return _wide(image @ image.T)


def _wide(small: Array) -> Array:
    return cast(small, array_namespace(small).float64)


def _orthonormal(image: Array, gram: Array, floor: float) -> tuple[Array, Array]:
    """R and orthonormal rows with image = R·rows, without directions that are below `floor`.

    By Cholesky's factor of the Gram matrix, which is products only, as long as it is well
    conditioned: a second time makes them orthonormal to full precision. By Householder's QR if not.
    """
    if not image.shape[0]:
        return gram, image
    R, inverse = _cholesky(gram, least=WELL * eps(image.dtype), floor=floor)
    if R is not None:
        return R, cast(inverse, image.dtype) @ image
    if isinstance(image, TallRows):
        return _orthonormal_by_triangle(image, floor)
    Q, R = array_namespace(image).linalg.qr(image.T)
    left, sizes, right = np.linalg.svd(to_numpy(R).astype(np.float64))
    keep = sizes > floor
    turned = to_namespace(left[:, keep].T, image) @ Q.T
    return to_namespace(right[keep].T * sizes[keep], gram), turned


def _cholesky(gram: Array, *, least: float, floor: float) -> tuple[Array, Array]:
    """Cholesky's factor and its inverse; None where the smallest eigenvalue is not above `least`
    times the largest, or not above the square of `floor`.

    The inverse is small, well conditioned, and wanted in a product with rows that are long.
    """
    xp = array_namespace(gram)
    try:
        R = xp.linalg.cholesky(gram)
        inverse = triangular_inverse(R)
    except (np.linalg.LinAlgError, RuntimeError):  # the latter is what torch raises
        return None, None
    # Bounds of both, which are cheap, may tell already: the second is that of rows that are nearly
    # orthonormal.
    middle = xp.mean(xp.linalg.diagonal(gram))
    size = xp.linalg.matrix_norm(gram)
    off = xp.sqrt(xp.clip(size**2 - gram.shape[0] * middle**2, 0.0))
    bounds = xp.stack([1.0 / xp.sum(inverse**2), middle - off, size])
    by_inverse, by_middle, largest = to_numpy(bounds)
    if max(by_inverse, by_middle) > max(least * largest, floor**2):
        return R, inverse
    squares = to_numpy(xp.linalg.eigvalsh(gram))
    good = squares[0] > max(least * squares[-1], floor**2)
    return (R, inverse) if good else (None, None)


def _orthonormal_by_triangle(image: TallRows, floor: float) -> tuple[FloatArray, TallRows]:
    """The same without Q, which would be as tall: what is kept of the image, divided by its sizes.

    Small directions come out with rounding errors of the large ones; those are the reason for the
    second time.
    """
    _, sizes, right = np.linalg.svd(image.triangle())
    keep = sizes > floor
    return right[keep].T * sizes[keep], (right[keep] / sizes[keep, None]) @ image
