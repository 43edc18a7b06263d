"""Arrays where the data live: NumPy's on the host, those of torch and CuPy on their device.

What is on the host, in float64, is brought to the data when a pass over rows begins.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import array_namespace, cast, device, is_numpy_array, to_namespace, to_numpy

Array = Any


def at(like: Array, values: Array) -> Array:
    """Numbers in float64 where `like` lives."""
    xp = array_namespace(like)
    if is_numpy_array(values) or array_namespace(values) is not xp:
        return to_namespace(to_numpy(values), like, dtype=xp.float64)
    return cast(values, xp.float64)


def taken(values: Array, index: np.ndarray, axis: int = 0) -> Array:
    """values[index] along an axis, for an index on the host."""
    if is_numpy_array(values):
        return np.take(values, index, axis=axis)
    xp = array_namespace(values)
    return xp.take(values, xp.asarray(index, device=device(values)), axis=axis)
