"""The Krylov space, which grows in place, and its Ritz triplets, which approximate those of A."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from bayespca.arrays.namespaces import (
    array_namespace,
    cast,
    hasty_cholesky,
    normal_draws,
    on_accelerator,
    to_namespace,
    to_numpy,
    triangular_inverse,
)
from bayespca.arrays.types import Array, FloatArray
from bayespca.engines.records import Basis, Operator, StoredBasis

from .orthonormal import gram_of, orthonormal, projected, singular
from .problem import RandomizedProblem

# Growth before the next look, as a share of the estimated way and of the size. On an accelerator a
# look takes as long as a step.
WAY, ACCELERATOR_WAY = (0.5, 1 / 8), (2.0, 1 / 2)
# Columns per row that make rows of normal draws far from dependent: eigenvalues of their Gram
# matrix are then within a factor of 4 of each other.
MANY_COLUMNS = 10
# The smallest number of columns worth a pass over the data.
NARROW = 8
# Largest distance of the Gram matrix of rows from the identity at which a second Cholesky factor
# makes them orthonormal to full precision.
NEARLY_ORTHONORMAL = 0.1


@dataclass(frozen=True)
class Ritz:
    """Singular values of B in decreasing order, and right vectors as rows on the device of B.

    `leak` is the norm of their part in the frontier. `counts` estimates how many singular values
    of A each stands for, from its weight in the random start.
    """

    values: FloatArray
    right: Array
    leak: FloatArray
    counts: FloatArray


class Space:
    """The growing Krylov space: Aᵀ·left = right·Bᵀ. It changes in place, to avoid copies.

    `n_expanded` right vectors have been multiplied by A; the others are the frontier. The next
    step multiplies the first `width` of them. Multiplying all of them is a full step: after q of
    them the space holds the block Krylov space of 2q products, whatever other steps were taken.
    """

    def __init__(self, operator: Operator, start: Array, problem: RandomizedProblem) -> None:
        self.operator = operator
        self.unit, self.eps, self.tolerance = problem.unit, problem.eps, problem.tolerance
        self.left = operator.new_basis(start)
        self.right = StoredBasis(operator.shape[1], start)
        self.right.append(start)
        self.B = to_namespace(np.zeros((0, self.right.size)), start, operator.mean.dtype)
        self.n_expanded = self.full_steps = self.next_look = 0
        self.n_start = self.width = self.right.size
        self.norm = 0.0

    @classmethod
    def start(
        cls, operator: Operator, rng: np.random.Generator, problem: RandomizedProblem
    ) -> Space:
        """A space with a Gaussian block as its frontier."""
        shape = (problem.block, operator.shape[1])
        draws = normal_draws(rng, shape, operator.mean, operator.dtype)
        return cls(operator, cls._begun(draws), problem)

    @staticmethod
    def _begun(draws: Array) -> Array:
        for _ in range(2):
            _, draws = orthonormal(draws, gram_of(draws), 0.0)
        return draws

    @property
    def size(self) -> int:
        """Number of left vectors, and of Ritz values."""
        return self.left.size

    @property
    def frontier(self) -> int:
        """Number of right vectors not yet multiplied."""
        return self.right.size - self.n_expanded

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
        # Bring forward the newest part of the frontier, to which this step led.
        self.width = min(self.width, self.frontier)
        if 0 < self.width < self.frontier:
            self._turn(np.roll(np.eye(self.frontier), self.width, axis=0))

    def _extended(self, basis: Basis, image: Array) -> tuple[Array, Array, Array]:
        """C, R and new rows, orthonormal to the basis, with image = C·basis + R·new.

        Directions that rounding errors of the product could have made are left out.
        """
        if self.unit != 1.0:
            image = image / self.unit
        along, image = projected(image, basis.rows)
        gram = gram_of(image)
        if gram.shape[0]:
            # The norm of A, from a product with vectors of length one.
            xp = array_namespace(gram)
            squares = xp.linalg.diagonal(gram) + xp.sum(along**2, axis=1)
            self.norm = max(self.norm, float(xp.max(squares)) ** 0.5)
        beyond, image = orthonormal(image, gram, self.rounding)
        # Again, with rows of length one, so that small directions come out as clean as large ones.
        again, image = projected(image, basis.rows)
        along = along + beyond @ again
        turn, image = orthonormal(image, gram_of(image), 0.5)
        return along, beyond @ turn, image

    @property
    def rounding(self) -> float:
        """The size of the rounding errors in a product."""
        return 8 * self.eps * self.norm

    def ritz(self) -> Ritz:
        """The singular triplets of B."""
        values, right = singular(self.B, self.tolerance)
        self.norm = max(self.norm, float(values[0])) if values.size else self.norm
        xp = array_namespace(right)
        parts = (right[:, self.n_expanded :], right[:, : self.n_start])
        squares = to_numpy(xp.stack([xp.sum(part**2, axis=1) for part in parts]))
        leak, weight = np.sqrt(squares[0]), squares[1]
        return Ritz(values, right, leak, weight * (self.operator.shape[1] / self.n_start))

    def aim(self, ritz: Ritz, slow: NDArray[np.intp], to_go: float) -> None:
        """Choose what to multiply next, and when to look again.

        Vectors that are `slow`, if there are any, are all that is left to settle; `to_go` estimates
        how many basis vectors that will take.
        """
        width = self.frontier
        if 0 < slow.size < width:
            rest = np.setdiff1d(np.arange(ritz.values.size), slow)
            order = np.append(slow, rest)[: self.frontier]
            leaks = to_numpy(ritz.right)[order, self.n_expanded :]
            turn, _ = np.linalg.qr(leaks.T, mode="complete")
            self._turn(turn.T)
            width = min(-(-slow.size // NARROW) * NARROW, width)
        self.width = width
        # Looks cost the cube of the size: let it grow a little in between.
        way, growth = ACCELERATOR_WAY if on_accelerator(self.B) else WAY
        self.next_look = self.size + int(min(way * to_go, growth * self.size))

    def _turn(self, rotation: FloatArray) -> None:
        """Rotate the frontier."""
        first = self.n_expanded
        rows = self.right.rows[first:, :]
        self.right.replace(first, to_namespace(rotation, rows) @ rows)
        self.B[:, first:] = self.B[:, first:] @ to_namespace(rotation.T, self.B)


class DoubtfulError(ArithmeticError):
    """Rows that should be orthonormal are not: they have to be made so with more care."""


class HastySpace(Space):
    """A `Space` that does not check each Gram matrix, so that an accelerator need not wait for it.

    Whether the first Cholesky factor was good shows in the rows that it made: the second Gram
    matrix is then nearly the identity. That is checked together with the Ritz values.
    """

    def __init__(self, operator: Operator, start: Array, problem: RandomizedProblem) -> None:
        super().__init__(operator, start, problem)
        self._evidence: list[Array] = []

    @staticmethod
    def _begun(draws: Array) -> Array:
        """Draws made orthonormal; their Gram matrix needs no check with many more columns."""
        if draws.shape[1] < MANY_COLUMNS * draws.shape[0]:
            return Space._begun(draws)
        for _ in range(2):
            draws = cast(triangular_inverse(hasty_cholesky(gram_of(draws))), draws.dtype) @ draws
        return draws

    def _extended(self, basis: Basis, image: Array) -> tuple[Array, Array, Array]:
        if self.unit != 1.0:
            image = image / self.unit
        along, image = projected(image, basis.rows)
        gram = gram_of(image)
        beyond = hasty_cholesky(gram)
        inverse = triangular_inverse(beyond)
        again, image = projected(cast(inverse, image.dtype) @ image, basis.rows)
        second = gram_of(image)
        turn = hasty_cholesky(second)
        # `ritz` checks the square of the norm seen, a bound on that of the smallest direction, and
        # how far the rows are from orthonormal.
        xp = array_namespace(gram)
        largest = xp.max(xp.linalg.diagonal(gram) + xp.sum(along**2, axis=1))
        identity = xp.eye(second.shape[0], dtype=second.dtype, device=device(second))
        off = xp.linalg.matrix_norm(second - identity)
        self._evidence.append(xp.stack([largest, 1.0 / xp.sum(inverse**2), off]))
        image = cast(triangular_inverse(turn), image.dtype) @ image
        return along + beyond @ again, beyond @ turn, image

    def ritz(self) -> Ritz:
        largest, smallest, off = to_numpy(array_namespace(self.B).stack(self._evidence)).T
        self.norm = float(np.sqrt(largest.max()))
        if not ((smallest > self.rounding**2).all() and (off < NEARLY_ORTHONORMAL).all()):
            raise DoubtfulError
        return super().ritz()
