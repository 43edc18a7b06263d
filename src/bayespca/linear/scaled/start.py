"""Where the search for the noise begins: all of the data are noise.

From the fit with equal noise it would not come away: components that were bought by its errors
explain what they were bought for.
"""

from __future__ import annotations

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.lowrank.noise_models import NoiseModel
from bayespca.lowrank.scales import Scales, given
from bayespca.spectrum.tolerances import LEAST_NOISE_OF_FEATURES

from .data import NoisyTable
from .whitening import Whitening

# Rows and columns are divided by each other's variances in turns.
TURNS = 3


def all_noise(data: NoisyTable, noise: NoiseModel) -> Whitening:
    """Variances of rows and columns of the data themselves."""
    n, p = data.n_samples, data.p
    rows, columns = np.ones(n), np.ones(p)
    if noise.columns:
        columns = np.where(data.squares > 0, data.squares, 1.0) / data.M
    for _ in range(TURNS if noise.rows else 0):
        rows = _of_rows(data, columns)
        columns = _of_columns(data, rows) if noise.columns else columns
    return Whitening(_scales(columns), _scales(rows) if noise.rows else None)


def _of_rows(data: NoisyTable, columns: FloatArray) -> FloatArray:
    found = data.row_squares(1 / columns) / data.p
    return np.maximum(found, LEAST_NOISE_OF_FEATURES * found.mean()) if found.any() else found + 1.0


def _of_columns(data: NoisyTable, rows: FloatArray) -> FloatArray:
    return data.column_squares(1 / rows) / data.M


def _scales(variances: FloatArray) -> Scales:
    return given(np.where(variances > 0, variances, 1.0)).at_unit_scale()
