"""`decompose`: expand the space until its Ritz values give the answer, or cannot."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

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

from .looks import Look
from .orthonormal import gram_of
from .problem import FIRST_LOOK, RandomizedProblem
from .space import DoubtfulError, HastySpace, Ritz, Space

# Columns multiplied at once: enough to run at the speed of arithmetic, few enough to take steps. On
# an accelerator, where each step waits for the host several times, more.
BLOCK, ACCELERATOR_BLOCK = 24, 64
# Where the energy below the kept components is a smaller part of all energy than this, a difference
# does not give it to six digits: then another engine must find the noise.
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
        if space.is_exhausted:
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
