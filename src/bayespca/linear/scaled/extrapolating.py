"""Extrapolation of rounds: Anderson's mixing of the last few, in logarithms of the precisions.

The caller must check that the result lowers the free energy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayespca.arrays.types import FloatArray, Vector
from bayespca.inference.accelerating import mixed
from bayespca.lowrank.scales import Scales

from .whitening import Whitening

# Most rounds that are remembered, all of the same rank.
MEMORY = 12
# No variance changes by more than a factor of e to this power at once.
FURTHEST = 2.0
# Rounds shorter than this part of the one before need no help.
FAST = 0.3


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
    """log ⟨1/u⟩ of rows and columns, and φ on an unbounded scale."""
    rows = whitening.rows
    parts = [np.log(whitening.columns.precision), [np.arctanh(whitening.phi)]]
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
    goal = ends[-1] + np.clip(mixed(changes, ends), -FURTHEST, FURTHEST)
    p = last.columns.precision.size
    columns, phi = _at(last.columns, goal[:p]), float(np.tanh(goal[p]))
    rows = None if last.rows is None else _at(last.rows, goal[p + 1 :])
    return Whitening(columns, rows, phi)


def _at(scales: Scales, logs: FloatArray) -> Scales:
    return scales.with_precision(np.exp(logs - logs.mean()))
