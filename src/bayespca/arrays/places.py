"""Arrays where the data live: NumPy's on the host, those of torch and CuPy on their device.

Arrays on the host, in float64, are moved to the data when a pass over rows begins.
"""

from __future__ import annotations

import math

import numpy as np

from .namespaces import array_namespace, cast, device, is_numpy_array, to_namespace, to_numpy
from .types import Array


def at(like: Array, values: Array) -> Array:
    """Numbers in float64 where `like` lives."""
    xp = array_namespace(like)
    if is_numpy_array(values) or array_namespace(values) is not xp:
        return to_namespace(to_numpy(values), like, dtype=xp.float64)
    return cast(values, xp.float64)


def brought(*arrays: Array) -> list[np.ndarray]:
    """Small arrays of floats, or numbers, on the host.

    Those of a device come in one transfer, so that the host waits for it once.
    """
    there = [a for a in arrays if not (isinstance(a, float) or is_numpy_array(a))]
    if not there:
        return [np.asarray(a) for a in arrays]
    xp = array_namespace(there[0])
    flat = to_numpy(xp.concat([xp.reshape(a, (-1,)) for a in there]))
    found, end = [], 0
    for a in arrays:
        if isinstance(a, float) or is_numpy_array(a):
            found.append(np.asarray(a))
            continue
        begin, end = end, end + math.prod(a.shape)
        found.append(flat[begin:end].reshape(a.shape))
    return found


def taken(values: Array, index: np.ndarray, axis: int = 0) -> Array:
    """values[index] along an axis, for an index on the host."""
    if is_numpy_array(values):
        return np.take(values, index, axis=axis)
    xp = array_namespace(values)
    return xp.take(values, xp.asarray(index, device=device(values)), axis=axis)


def columns_of(values: np.ndarray, index: np.ndarray) -> np.ndarray:
    """values[:, index]; without a copy where these columns are neighbours."""
    if index.size and (np.diff(index) == 1).all():
        return values[:, index[0] : index[-1] + 1]
    return values[:, index]
