"""Where steps are heading: Anderson's mixing of the last few, for every model.

A step takes a state x to g(x), and the fixed point is wanted. The combination of the last steps,
with weights that add up to 1, whose change g(x) − x is shortest has the same combination of g(x)
for its goal. The next step is taken from there; if it does not lead lower, it is as if it had not
been, and a plain step follows.

A model says how its states are turned into vectors and back (`Chart`). What follows from the rest
in one step need not be in the vector, and what a step may change without changing anything, signs
and turns, must not be: vectors are aligned with others. Changes are measured in standard errors, in
which steps of the EM kind are nearly gradients, so that the shortest change is a sensible one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from bayespca.arrays.types import FloatArray, Vector

S = TypeVar("S")

# Steps that are remembered.
MEMORY = 20
# Plain steps after one that was not taken.
PAUSE = 3
# Beside a saddle: how often a change is taken at most along a direction of the last steps, and how
# independent these have to be for their curvatures to be known. None is much more than 1.
LONGEST = 64.0
INDEPENDENT = 0.1
STEEPEST = 1.5
# Relative to the largest, a singular value of changes of changes that is rounding.
DEPENDENT = 1e-9


class StatePoint(NamedTuple):
    """A state as a vector, and the standard errors of its entries, or numbers of their kind.

    `reach` is how often the last change of each entry has to be taken to come to where many steps
    would, as far as the model knows: None where it knows nothing. Squares of errors contain it.
    """

    vector: Vector
    errors: Vector
    reach: Vector | None = None


class Chart(Protocol[S]):
    """How states are turned into vectors and back."""

    def point(self, state: S, like: Vector | None) -> StatePoint | None:
        """A state as a vector, aligned with one of the same kind; None where it has none."""

    def at(self, state: S, vector: Vector) -> S:
        """A state like another one, at a vector."""


@dataclass(frozen=True, eq=False)
class Memory:
    """Where the last steps began and where they led, one in each row, and the errors of the last.

    `pause` is the number of plain steps before steps are taken from elsewhere again.
    """

    starts: FloatArray
    ends: FloatArray
    errors: FloatArray
    pause: int = 0
    reaches: bool = False

    @classmethod
    def empty(cls, pause: int = 0) -> Memory:
        return cls(np.empty((0, 0)), np.empty((0, 0)), np.empty(0), pause)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def like(self) -> Vector | None:
        """What vectors are aligned with."""
        return self.ends[-1] if len(self) else None

    def with_step(self, start: StatePoint, end: StatePoint) -> Memory:
        """The memory with one more step, without steps that are too old or of another kind."""
        pause, reaches = max(self.pause - 1, 0), end.reach is not None
        led = end.vector
        if end.reach is not None:
            led = start.vector + end.reach * (led - start.vector)
        if not len(self) or self.errors.shape != end.errors.shape:
            return Memory(start.vector[None], led[None], end.errors, pause, reaches)
        starts = np.vstack([self.starts, start.vector])[-MEMORY:]
        ends = np.vstack([self.ends, led])[-MEMORY:]
        return Memory(starts, ends, end.errors, pause, reaches)

    @property
    def goal(self) -> Vector | None:
        """Where the steps are heading; None before there are two, and while there is a pause."""
        if len(self) < 2 - self.reaches or self.pause:
            return None
        if len(self) == 1:
            return self.ends[-1]
        changes = (self.ends - self.starts) / self.errors
        move = _past_saddle(np.diff(self.starts, axis=0) / self.errors, changes)
        move = mixed(changes, self.ends) if move is None else move * self.errors
        goal = self.ends[-1] + move
        return goal if np.isfinite(goal).all() and move.any() else None


def _past_saddle(moves: FloatArray, changes: FloatArray) -> FloatArray | None:
    """Where a direction of the last moves leads down ever more steeply: along it, from the last end
    on. None elsewhere.

    The change c of a step is −K times the distance to the fixed point, K symmetric. Mixing would
    lead to a saddle as well as to a minimum; with |K| in the place of K it is left.
    """
    sizes = np.linalg.norm(moves, axis=1)[:, None]
    if not sizes.all():
        return None
    U, S, Vt = np.linalg.svd(moves / sizes, full_matrices=False)
    known = S > INDEPENDENT * S[0]
    V = Vt[known].T
    K = V.T @ (-(np.diff(changes, axis=0) / sizes).T @ (U[:, known] / S[known]))
    curvatures, u = np.linalg.eigh(0.5 * (K + K.T))
    if curvatures[0] > 0 or curvatures[-1] > STEEPEST:
        return None
    along = u.T @ (V.T @ changes[-1])
    times = 1 / np.maximum(np.abs(curvatures), 1 / LONGEST) - 1
    return np.asarray(V @ (u @ (times * along)))


def mixed(changes: FloatArray, ends: FloatArray) -> FloatArray:
    """From the last end to the combination of ends whose change is shortest."""
    between = np.diff(changes, axis=0)
    sizes = np.linalg.norm(between, axis=1)
    between, ends = between[sizes > 0], np.diff(ends, axis=0)[sizes > 0]
    sizes = sizes[sizes > 0]
    weights, *_ = np.linalg.lstsq((between / sizes[:, None]).T, changes[-1], rcond=DEPENDENT)
    return np.asarray(-(weights / sizes) @ ends)


def remembered(memory: Memory, start: S, end: S, chart: Chart[S] | None) -> Memory:
    """The memory with one more step."""
    if chart is None:
        return memory
    before = chart.point(start, memory.like)
    after = None if before is None else chart.point(end, before.vector)
    if before is None or after is None or before.vector.shape != after.vector.shape:
        return Memory.empty()
    return memory.with_step(before, after)
