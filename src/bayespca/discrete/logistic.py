"""Averages of the logistic function over normal distributions, by closed forms.

The logistic function is, to 2·10⁻⁹ everywhere, a mixture of normal distribution functions,

    σ(z) = Σ_k p_k Φ(s_k z)                                  (Monahan and Stefanski 1992),

so that with z ~ N(m, v), u_k = s_k m / t_k and t_k = √(1 + s_k² v)

    ⟨σ(z)⟩ = Σ p_k Φ(u_k),   ⟨σ'(z)⟩ = Σ p_k s_k φ(u_k)/t_k,
    ⟨log(1 + eᶻ)⟩ = Σ p_k (m Φ(u_k) + t_k φ(u_k)/s_k),

and the derivatives of the last by m and v are the first and half the second, exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

FloatArray = NDArray[np.float64]

SHARES = (
    *(0.003246343272134, 0.051517477033972, 0.195077912673858, 0.315569823632818),
    *(0.274149576158423, 0.131076880695470, 0.027912418727972, 0.001449567805354),
)
SLOPES = (
    *(1.365340806296348, 1.059523971016916, 0.830791313765644, 0.650732166639391),
    *(0.508135425366489, 0.396313345166341, 0.308904252267995, 0.238212616409306),
)
ROOT_2PI = float(np.sqrt(2 * np.pi))


class Averages(NamedTuple):
    """⟨log(1 + eᶻ)⟩, ⟨σ(z)⟩ and ⟨σ'(z)⟩ of each cell."""

    log_norm: FloatArray
    probability: FloatArray
    slope: FloatArray


def averages(mean: FloatArray, variance: FloatArray) -> Averages:
    """Over z ~ N(mean, variance), each of the shape of `mean`."""
    log_norm, probability, slope = (np.zeros(mean.shape) for _ in range(3))
    for p, s in zip(SHARES, SLOPES, strict=True):
        t = np.sqrt(1 + s * s * variance)
        u = s * mean / t
        below = p * ndtr(u)
        density = p / ROOT_2PI * np.exp(-0.5 * u * u)
        probability += below
        slope += s * density / t
        log_norm += mean * below + t * density / s
    return Averages(log_norm, probability, slope)
