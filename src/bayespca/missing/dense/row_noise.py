"""The best noise of rows, for given columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.lowrank.rows import RowMisfits
from bayespca.lowrank.scales import Scales

from .scales import Estimate, in_units, shares

# Updates of the rows' scales in each sweep: each changes the covariances that the next one sees.
ROUNDS = 3
# So many rows have one, which takes as long as a sweep.
MANY_ROWS = 5000


class RowTask(NamedTuple):
    """What the noise of rows follows from: what is left of them, and nᵢ observed cells of each; k
    components with a prior; how variances are estimated, the least of them, whether their scale is
    free, and the units in which they have a prior in common.
    """

    found: RowMisfits
    counts: FloatArray
    rank: int
    centred: bool
    estimate: Estimate
    least: float
    is_free: bool
    units: FloatArray


def best_rows(rows: Scales, task: RowTask) -> Scales:
    """r(u) that minimises the free energy for given columns, with A at its best for each.

    Scores √wᵢzᵢ and their covariance do not change with wᵢ beyond the root, so that

        F(u) = Σᵢ [½wᵢQᵢ + ½nᵢ⟨log uᵢ⟩ + shareᵢ(gᵢ + ½k·loosenessᵢ)] + KL

    with what is left of a row, Q, and what it tells of its scores, g. Given the covariances, 1/uᵢ
    has a gamma distribution with Qᵢ + k·shareᵢ/wᵢ for its squares; the derivative of the shares is
    among them. It is repeated, and given up where that does not lead lower.
    """
    energy = _energy(rows, task)
    for _ in range(ROUNDS if task.counts.size < MANY_ROWS else 1):
        new = _updated(rows, task)
        new_energy = _energy(new, task)
        if not new_energy < energy:
            return rows
        rows, energy = new, new_energy
    return rows


def _updated(rows: Scales, task: RowTask) -> Scales:
    w, share, found = rows.precision, shares(rows, task.centred), task.found
    of_share = found.gain + 0.5 * task.rank * rows.looseness
    slope = task.centred * (of_share - of_share @ w / w.sum()) / w.sum()
    squares = found.squares + task.rank * share / w
    squares = np.maximum(squares - 2 * slope, 0.1 * squares)
    squares = np.maximum(squares, task.counts * task.least)
    counts = task.counts + task.rank * share
    return in_units(task.estimate, squares, counts, task.units, is_free=task.is_free)


def _energy(rows: Scales, task: RowTask) -> float:
    share, found = shares(rows, task.centred), task.found
    total = 0.5 * float(rows.precision @ found.squares + task.counts @ rows.log_variance)
    of_share = found.gain + 0.5 * task.rank * rows.looseness
    return total + float(share @ of_share) + rows.divergence
