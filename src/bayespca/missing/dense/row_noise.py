"""The best noise of rows, for given columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.lowrank.rows import RowMisfits
from bayespca.lowrank.scales import Scales

from .scales import Estimate, in_units, shares

# Updates of the rows' scales in each sweep: each changes the shares that the next one sees.
ROUNDS = 3
# So many rows have one, which takes as long as a sweep.
MANY_ROWS = 5000


class RowTask(NamedTuple):
    """What the noise of rows follows from: what is left of them, and nᵢ observed cells of each; how
    variances are estimated, the least of them, whether their scale is free, and the units in which
    they have a prior in common.
    """

    found: RowMisfits
    counts: FloatArray
    centred: bool
    estimate: Estimate
    least: float
    is_free: bool
    units: FloatArray


def best_rows(rows: Scales, task: RowTask) -> Scales:
    """r(u) that minimises the free energy for given columns, with A at its best for each.

    The mean of zᵢ does not depend on uᵢ, and its covariance is in units of uᵢ, so that

        F(u) = Σᵢ [½wᵢQᵢ + ½nᵢ⟨log uᵢ⟩ + shareᵢgᵢ] + KL

    with what is left of a row at that mean, Q, and what it tells of its scores, g. Given the
    shares, 1/uᵢ has a gamma distribution with Qᵢ for its nᵢ squares; the derivative of the shares
    is among them. It is repeated, and given up where that does not lead lower.
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
    w, found = rows.precision, task.found
    slope = task.centred * (found.gain - found.gain @ w / w.sum()) / w.sum()
    squares = np.maximum(found.squares - 2 * slope, 0.1 * found.squares)
    squares = np.maximum(squares, task.counts * task.least)
    return in_units(task.estimate, squares, task.counts, task.units, is_free=task.is_free)


def _energy(rows: Scales, task: RowTask) -> float:
    share, found = shares(rows, task.centred), task.found
    total = 0.5 * float(rows.precision @ found.squares + task.counts @ rows.log_variance)
    return total + float(share @ found.gain) + rows.divergence
