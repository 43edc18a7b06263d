"""The filter that whitens noise that is correlated between neighbouring features.

    z_1 = √(1 − φ²)·v_1,   z_j = v_j − φ·v_{j−1}

Its matrix L, z = Lv, is bidiagonal with determinant √(1 − φ²). Noise that is autoregressive along
the features with variance σ²/(1 − φ²) becomes white with variance σ². With φ = 0 nothing changes.
"""

from __future__ import annotations

import numpy as np
from scipy.signal import lfilter

from bayespca.arrays.namespaces import array_namespace, to_namespace, to_numpy
from bayespca.arrays.types import Array, FloatArray


def filtered(V: Array, phi: float) -> Array:
    """Lv of each row v."""
    if not phi:
        return V
    first = V[:, :1] * float(np.sqrt(1 - phi * phi))
    return array_namespace(V).concat([first, V[:, 1:] - phi * V[:, :-1]], axis=1)


def unfiltered(Z: Array, phi: float) -> Array:
    """L⁻¹z of each row z."""
    if not phi:
        return Z
    rows = np.array(to_numpy(Z))
    rows[:, 0] /= np.sqrt(1 - phi * phi)
    return to_namespace(np.asarray(lfilter([1.0], [1.0, -phi], rows, axis=1)), Z)


def transposed(Z: Array, phi: float) -> Array:
    """Lᵀz of each row z."""
    if not phi:
        return Z
    xp, root = array_namespace(Z), float(np.sqrt(1 - phi * phi))
    if Z.shape[1] == 1:
        return Z * root
    first = root * Z[:, :1] - phi * Z[:, 1:2]
    return xp.concat([first, Z[:, 1:-1] - phi * Z[:, 2:], Z[:, -1:]], axis=1)


def filtered_gram(gram: FloatArray, phi: float) -> FloatArray:
    """L G Lᵀ"""
    return np.asarray(filtered(filtered(gram, phi).T, phi))


def innovations(X: Array, psi: float) -> Array:
    """What is new in each row but the first, where the noise of rows is autoregressive."""
    if not psi:
        return X
    return (X[1:, :] - psi * X[:-1, :]) / float(np.sqrt(1 - psi * psi))


def log_det(phi: float) -> float:
    """log|L|"""
    return 0.5 * float(np.log1p(-phi * phi))
