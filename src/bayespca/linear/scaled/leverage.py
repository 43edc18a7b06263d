"""Prolonged rounds, which allow for components that follow columns and rows of rising weight.

Let hⱼ be the leverage of a column: the share of its noise that components explain. If its precision
rises by δ, components turn towards it, and its residual falls by (1 − (1 − hⱼ)²)δ, so that the next
rounds go on in the same direction. To first order all of them together go 1/(1 − hⱼ)² times as far:
the diagonal of Jöreskog's approximation to Newton's method for factor analysis (Psychometrika 32,
1967). The same holds for rows with the other singular vectors.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.lowrank.scales import Scales

from .data import Whitened
from .whitening import Whitening

# Lower limit of (1 − h)².
LEAST_LEFT = 0.05
# No variance changes by more than a factor of e to this power at once.
FURTHEST = 1.5


def hastened(found: Whitened, start: Whitening, end: Whitening) -> Whitening:
    """The noise that many rounds would reach from `start`, where one leads to `end`."""
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
