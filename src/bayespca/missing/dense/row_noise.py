"""The best noise of rows, for given columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.lowrank.rows import RowMisfits
from bayespca.lowrank.scales import Scales

from .scales import Estimate, in_units, shares

# Updates of the rows' scales in each sweep; each changes the shares that the next one sees.
ROUNDS = 3
# From this many rows on there is one update only, as it takes as long as a sweep.
MANY_ROWS = 5000


class RowTask(NamedTuple):
    """Everything that determines the noise of rows.

    `found` holds the misfits of rows, `counts` their numbers nᵢ of observed cells, `least` the
    smallest variance; `is_free` says whether the scale of variances is free, and in `units`
    they share a prior.
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

    with Qᵢ the misfit of a row at that mean, and gᵢ what the row tells about its scores. Given the
    shares, 1/uᵢ has a gamma distribution in which Qᵢ, corrected for the derivative of the shares,
    is the sum of nᵢ squares. Updates are repeated; one that does not lower F is discarded.
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
