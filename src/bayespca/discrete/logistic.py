"""Averages of the logistic function over normal distributions, by closed forms.

The logistic function is, to 2·10⁻⁹ everywhere, a mixture of normal distribution functions,

    σ(z) = Σ_k p_k Φ(s_k z)                                  (Monahan and Stefanski 1992),

so that with z ~ N(m, v), u_k = s_k m / t_k and t_k = √(1 + s_k² v)

    ⟨σ(z)⟩ = Σ p_k Φ(u_k),   ⟨σ'(z)⟩ = Σ p_k s_k φ(u_k)/t_k,
    ⟨log(1 + eᶻ)⟩ = Σ p_k (m Φ(u_k) + t_k φ(u_k)/s_k),

and the derivatives of the last with respect to m and v are exactly the first and half the second.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from bayespca.arrays.types import FloatArray

SHARES = (
    *(0.003246343272134, 0.051517477033972, 0.195077912673858, 0.315569823632818),
    *(0.274149576158423, 0.131076880695470, 0.027912418727972, 0.001449567805354),
)
SLOPES = (
    *(1.365340806296348, 1.059523971016916, 0.830791313765644, 0.650732166639391),
    *(0.508135425366489, 0.396313345166341, 0.308904252267995, 0.238212616409306),
)
# Cells computed at a time: their arrays stay in a core's cache.
CHUNK = 1 << 12
ROOT_2PI = float(np.sqrt(2 * np.pi))


class Averages(NamedTuple):
    """⟨log(1 + eᶻ)⟩, ⟨σ(z)⟩ and ⟨σ'(z)⟩ of each cell."""

    log_norm: FloatArray
    probability: FloatArray
    slope: FloatArray


def averages(mean: FloatArray, variance: FloatArray) -> Averages:
    """Averages over z ~ N(mean, variance), each with the shape of `mean`."""
    m, v = mean.ravel(), variance.ravel()
    found = np.empty((3, m.size))
    for first in range(0, m.size, CHUNK):
        some = slice(first, first + CHUNK)
        found[:, some] = _averages(m[some], v[some])
    return Averages(*(values.reshape(mean.shape) for values in found))


def _averages(m: FloatArray, v: FloatArray) -> FloatArray:
    log_norm, probability, slope = found = np.zeros((3, m.size))
    for p, s in zip(SHARES, SLOPES, strict=True):
        t = np.sqrt(1 + s * s * v)
        u = s * m / t
        density = p / ROOT_2PI * np.exp(-0.5 * u * u)
        probability += p * ndtr(u)
        slope += s * density / t
        log_norm += t * density / s
    log_norm += m * probability
    return found
