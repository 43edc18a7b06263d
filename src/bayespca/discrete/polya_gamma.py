"""Draws of Pólya–Gamma variables PG(1, c), which make logistic cells normal measurements.

    1/(1 + eᶻ) = ½ e^(−z/2) ⟨exp(−ωz²/2)⟩,  ω ~ PG(1, 0)

(Polson, Scott and Windle, "Bayesian inference for logistic models using Pólya–Gamma latent
variables", JASA 108, 2013, Theorem 1), and given z the posterior of ω is PG(1, z). Draws are exact:
4ω is a Jacobi variable, drawn by rejection from an exponential to the right of 0.64 and an inverse
Gaussian to the left, with an alternating series that decides after a term or two (Devroye, "On
exact simulation algorithms for some distributions related to Jacobi theta functions", 2009).
"""

from __future__ import annotations

import math

import numba
import numpy as np

from bayespca.arrays.types import FloatArray

# Where the two proposals meet; both series fall fast on their own side of it.
MEET = 0.64

_compiled = numba.njit(nogil=True, cache=True, error_model="numpy")


def polya_gamma(c: FloatArray, rng: np.random.Generator) -> FloatArray:
    """A draw of PG(1, c) for each c, and 0 for NaN."""
    found = np.empty(c.size)
    _fill(np.ravel(c), rng, found)
    return found.reshape(c.shape)


@_compiled
def _fill(c, rng, found):  # type: ignore[no-untyped-def]
    for i in range(c.size):
        found[i] = 0.0 if math.isnan(c[i]) else _one(0.5 * abs(c[i]), rng)


@_compiled
def _one(z, rng):  # type: ignore[no-untyped-def]
    """PG(1, 2z): proposals until the series accepts one."""
    rate = math.pi**2 / 8 + z * z / 2
    right = _share_of_right(z, rate)
    while True:
        is_right = rng.random() < right
        x = MEET + rng.standard_exponential() / rate if is_right else _left(z, rng)
        if _accepted(x, rng):
            return 0.25 * x


@_compiled
def _accepted(x, rng):  # type: ignore[no-untyped-def]
    """Whether a uniform share of the first term lies below the alternating series."""
    total = _term(0, x)
    level = rng.random() * total
    n = 0
    while True:
        n += 1
        total -= _term(n, x)
        if level <= total:
            return True
        n += 1
        total += _term(n, x)
        if level > total:
            return False


@_compiled
def _term(n, x):  # type: ignore[no-untyped-def]
    """Term n of the series of the density at x, in the form that falls fast there."""
    h = n + 0.5
    if x > MEET:
        return math.pi * h * math.exp(-0.5 * h * h * math.pi**2 * x)
    return math.pi * h * (2 / (math.pi * x)) ** 1.5 * math.exp(-2 * h * h / x)


@_compiled
def _share_of_right(z, rate):  # type: ignore[no-untyped-def]
    """Mass of the exponential proposal over that of both.

    Both masses are multiplied by e^(rate·MEET): the inverse Gaussian's second part would overflow.
    """
    root = math.sqrt(1 / MEET)
    start = rate * MEET
    up = math.exp(start - z) * _below(root * (MEET * z - 1))
    down = math.exp(start + z) * _below(-root * (MEET * z + 1))
    return 1 / (1 + 4 / math.pi * rate * (up + down))


@_compiled
def _below(x):  # type: ignore[no-untyped-def]
    """Φ(x)"""
    return 0.5 * math.erfc(-x * math.sqrt(0.5))


@_compiled
def _left(z, rng):  # type: ignore[no-untyped-def]
    """An inverse Gaussian variable of mean 1/z and shape 1, given that it is below MEET."""
    if z * MEET < 1:
        while True:
            one, two = rng.standard_exponential(), rng.standard_exponential()
            if one * one * MEET > 2 * two:
                continue
            x = MEET / (1 + MEET * one) ** 2
            if rng.random() <= math.exp(-0.5 * z * z * x):
                return x
    mean = 1 / z
    while True:
        y = mean * rng.standard_normal() ** 2
        x = mean * (1 + 0.5 * (y - math.sqrt(y * (4 + y))))
        if rng.random() * (mean + x) > mean:
            x = mean * mean / x
        if x <= MEET:
            return x
