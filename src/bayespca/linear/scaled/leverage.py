"""How far a round should have gone: components follow the columns and rows that count for more.

Let hⱼ be the leverage of a column: the share of its noise that components explain. If its precision
rises by δ, they turn towards it, and what they leave over of it falls by (1 − (1 − hⱼ)²)δ, so that
the next rounds go on where this one stopped. To first order all of them together go 1/(1 − hⱼ)²
times as far: the diagonal of Jöreskog's approximation to Newton's method for factor analysis
(Psychometrika 32, 1967). Rows are the same with the other singular vectors.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.lowrank.scales import Scales

from .data import Whitened
from .whitening import Whitening

# What a side has left of its noise, squared, at least.
LEAST_LEFT = 0.05
# Further than by this factor, e to its power, no variance is taken at once.
FURTHEST = 1.5


def hastened(found: Whitened, start: Whitening, end: Whitening) -> Whitening:
    """Where many rounds would lead from `start`, of which one leads to `end`."""
    k = found.solution.rank
    if not k:
        return end
    gamma = found.spectrum.singular_values[:k] * found.spectrum.scale
    kept = found.solution.shrunk_singular_values / gamma
    columns, rows = end.columns, end.rows
    if not end.phi:
        columns = _further(start.columns, columns, kept @ found.components**2)
    if rows is not None and start.rows is not None and found.rows is not None:
        rows = _further(start.rows, rows, found.rows.leverage)
    return replace(end, columns=columns, rows=rows)


def _further(start: Scales, end: Scales, leverage: FloatArray) -> Scales:
    change = np.log(end.precision / start.precision)
    if not change.any():
        return end
    change = (change - change.mean()) / np.maximum((1 - leverage) ** 2, LEAST_LEFT)
    change = np.clip(change, -FURTHEST, FURTHEST)
    return end.with_precision(start.precision * np.exp(change)).at_unit_scale()
