"""Where rounds are heading: one of them prolonged, or the last few extrapolated.

The caller must check that the result lowers the free energy.

**One round.** Components follow columns and rows of rising weight. Let hⱼ be the leverage of a
column: the share of its noise that components explain. If its precision rises by δ, components turn
towards it, and its residual falls by (1 − (1 − hⱼ)²)δ, so that the next rounds go on in the same
direction. To first order all of them together go 1/(1 − hⱼ)² times as far: the diagonal of
Jöreskog's approximation to Newton's method for factor analysis (Psychometrika 32, 1967). The same
holds for rows with the other singular vectors.

**The last rounds** are extrapolated by Anderson's mixing, in logarithms of the precisions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayespca.arrays.types import FloatArray, Vector
from bayespca.inference.accelerating import mixed
from bayespca.lowrank.scales import Scales

from .data import Whitened, Whitening

# Lower limit of (1 − h)².
LEAST_LEFT = 0.05
# No variance changes by more than a factor of e to these powers at once.
FURTHEST_OF_ONE, FURTHEST_OF_MANY = 1.5, 2.0
# Most rounds that are remembered, all of the same rank.
MEMORY = 12
# Rounds shorter than this part of the one before need no help.
FAST = 0.3


def hastened(found: Whitened, start: Whitening, end: Whitening) -> Whitening:
    """The noise that many rounds would reach from `start`, where one leads to `end`."""
    if not found.solution.rank:
        return end
    columns, rows = end.columns, end.rows
    if not end.partials:
        columns = _further(start.columns, columns, found.kept @ found.components**2)
    if rows is not None and start.rows is not None and found.rows is not None:
        rows = _further(start.rows, rows, found.rows.leverage)
    return replace(end, columns=columns, rows=rows)


def _further(start: Scales, end: Scales, leverage: FloatArray) -> Scales:
    change = np.log(end.precision / start.precision)
    if not change.any():
        return end
    change = (change - change.mean()) / np.maximum((1 - leverage) ** 2, LEAST_LEFT)
    change = np.clip(change, -FURTHEST_OF_ONE, FURTHEST_OF_ONE)
    return end.with_precision(start.precision * np.exp(change)).at_unit_scale()


@dataclass(frozen=True, eq=False)
class Round:
    """The start and the end of a round."""

    start: Vector
    end: Vector

    @property
    def length(self) -> float:
        """Distance from start to end."""
        return float(np.linalg.norm(self.end - self.start))


def coordinates(whitening: Whitening) -> FloatArray:
    """log ⟨1/u⟩ of rows and columns, and partial autocorrelations on an unbounded scale."""
    rows = whitening.rows
    parts = [np.log(whitening.columns.precision), np.arctanh(whitening.partials)]
    return np.concatenate([*parts, *([] if rows is None else [np.log(rows.precision)])])


def remembered(rounds: tuple[Round, ...], start: Whitening, end: Whitening) -> tuple[Round, ...]:
    """The rounds with one more, without those that are too old."""
    return (*rounds, Round(coordinates(start), coordinates(end)))[-MEMORY:]


def extrapolated(rounds: tuple[Round, ...], last: Whitening) -> Whitening | None:
    """The noise that rounds are heading for; None before there are two, or if they are fast."""
    if len(rounds) < 2 or rounds[-1].length < FAST * rounds[-2].length:
        return None
    changes = np.array([one.end - one.start for one in rounds])
    ends = np.array([one.end for one in rounds])
    goal = ends[-1] + np.clip(mixed(changes, ends), -FURTHEST_OF_MANY, FURTHEST_OF_MANY)
    p = last.columns.precision.size
    q = p + len(last.partials)
    rows = None if last.rows is None else _at(last.rows, goal[q:])
    return Whitening(_at(last.columns, goal[:p]), rows, tuple(np.tanh(goal[p:q]).tolist()))


def _at(scales: Scales, logs: FloatArray) -> Scales:
    return scales.with_precision(np.exp(logs - logs.mean()))
