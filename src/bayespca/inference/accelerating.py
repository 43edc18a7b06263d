"""Anderson mixing: accelerates the steps of any model by extrapolating from the last few.

A step takes a state x to g(x), and the fixed point is wanted. Of all combinations of the last steps
with weights that add up to 1, one has the shortest change g(x) − x; the same combination of g(x) is
the goal. The next step starts from there. If it does not lead lower, it is discarded and a plain
step follows.

A model defines how its states are turned into vectors and back (`Chart`). The vector may leave out
whatever follows from the rest in one step. It must leave out signs and rotations, which a step may
change without changing the model: vectors are aligned with others. Changes are measured in standard
errors, in which steps of the EM kind are nearly gradients, so the shortest change makes sense.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from bayespca.arrays.types import FloatArray, Vector

S = TypeVar("S")

# Number of steps remembered.
MEMORY = 20
# Plain steps after one that was discarded.
PAUSE = 3
# Beside a saddle: the largest multiple of a change along a direction of the last steps, how
# independent these must be for their curvatures to be known, and the largest credible curvature:
# none is much more than 1.
LONGEST = 64.0
INDEPENDENT = 0.1
STEEPEST = 1.5
# Relative to the largest: a singular value of differences of changes that is rounding.
DEPENDENT = 1e-9


class StatePoint(NamedTuple):
    """A state as a vector, and the standard errors of its entries, or numbers like them.

    `reach` is the multiple of each entry's last change that leads to where many steps would, as far
    as the model knows; None where it does not know. Squares of errors include it.
    """

    vector: Vector
    errors: Vector
    reach: Vector | None = None


class Chart(Protocol[S]):
    """Conversion of states into vectors and back."""

    def point(self, state: S, like: Vector | None) -> StatePoint | None:
        """The state as a vector aligned with `like`; None where it has none."""

    def at(self, state: S, vector: Vector) -> S:
        """A state like `state`, at `vector`."""


@dataclass(frozen=True, eq=False)
class Memory:
    """Starts and ends of the last steps, one step per row, and the errors of the last.

    `pause` is the number of plain steps before the next accelerated one.
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
        """The vector that others are aligned with."""
        return self.ends[-1] if len(self) else None

    def with_step(self, start: StatePoint, end: StatePoint) -> Memory:
        """The memory with one more step, without steps that are too old or of another shape."""
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
        """The point where the steps are heading; None before there are enough and in a pause."""
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
    """Move away from a saddle, from the last end; None where no direction of the last moves leads
    down ever more steeply.

    The change c of a step is −K times the distance to the fixed point, K symmetric. Mixing would
    lead to a saddle as well as to a minimum; with |K| in place of K it leads away from a saddle.
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
    """Move from the last end to the combination of ends whose change is shortest."""
    between = np.diff(changes, axis=0)
    sizes = np.linalg.norm(between, axis=1)
    between, ends = between[sizes > 0], np.diff(ends, axis=0)[sizes > 0]
    sizes = sizes[sizes > 0]
    weights, *_ = np.linalg.lstsq((between / sizes[:, None]).T, changes[-1], rcond=DEPENDENT)
    return np.asarray(-(weights / sizes) @ ends)


def remembered(memory: Memory, start: S, end: S, chart: Chart[S] | None) -> Memory:
    """The memory with the step from `start` to `end`; empty where their vectors do not match."""
    if chart is None:
        return memory
    before = chart.point(start, memory.like)
    after = None if before is None else chart.point(end, before.vector)
    if before is None or after is None or before.vector.shape != after.vector.shape:
        return Memory.empty()
    return memory.with_step(before, after)
