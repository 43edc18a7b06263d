"""Where rounds are heading: Anderson's mixing of the last few, in logarithms of the precisions.

Whether that leads lower is for the caller to find out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayespca.arrays.types import FloatArray, Vector
from bayespca.inference.accelerating import mixed
from bayespca.lowrank.scales import Scales

from .whitening import Whitening

# Rounds that are remembered: those of one rank, which are alike.
MEMORY = 12
# Further than by this factor, e to its power, no variance is taken at once.
FURTHEST = 2.0
# Rounds that lead less than this part of the way of those before need no help.
FAST = 0.3


@dataclass(frozen=True, eq=False)
class Round:
    """Where a round began, and where it led."""

    start: Vector
    end: Vector

    @property
    def length(self) -> float:
        """How far it led."""
        return float(np.linalg.norm(self.end - self.start))


def coordinates(whitening: Whitening) -> FloatArray:
    """log ⟨1/u⟩ of rows and columns, and φ on a scale without ends."""
    rows = whitening.rows
    parts = [np.log(whitening.columns.precision), [np.arctanh(whitening.phi)]]
    return np.concatenate([*parts, *([] if rows is None else [np.log(rows.precision)])])


def remembered(rounds: tuple[Round, ...], start: Whitening, end: Whitening) -> tuple[Round, ...]:
    """The rounds with one more, and without those that are too old."""
    return (*rounds, Round(coordinates(start), coordinates(end)))[-MEMORY:]


def extrapolated(rounds: tuple[Round, ...], last: Whitening) -> Whitening | None:
    """Where the rounds are heading; None before there are two, or where they come nearer fast."""
    if len(rounds) < 2 or rounds[-1].length < FAST * rounds[-2].length:
        return None
    changes = np.array([one.end - one.start for one in rounds])
    ends = np.array([one.end for one in rounds])
    goal = ends[-1] + np.clip(mixed(changes, ends), -FURTHEST, FURTHEST)
    p = last.columns.precision.size
    columns, phi = _at(last.columns, goal[:p]), float(np.tanh(goal[p]))
    rows = None if last.rows is None else _at(last.rows, goal[p + 1 :])
    return Whitening(columns, rows, phi)


def _at(scales: Scales, logs: FloatArray) -> Scales:
    return scales.with_precision(np.exp(logs - logs.mean()))
