"""Compiled loops over exponentials: those of all pairs of inducing points and rows are most of the
work of a GP-LVM. `pairs.py` has the same for arrays of any library.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic

# log₂e, and log 2 in two parts; the last bits of the first are zeros, so that k·LOG_2 is exact.
LOG2_E = 1.4426950408889634
LOG_2, LOG_2_REST = 6.93147180369123816490e-01, 1.90821492927058770002e-10
# Below this, e^x counts as 0.
LEAST = -700.0


@intrinsic
def _from_bits(typing_context: Any, bits: Any) -> Any:
    """The floating-point number with the bits of an integer."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


@njit(inline="always", fastmath=True)
def exponential(x: float) -> float:
    """e^x for x ≤ 700 without a branch or a call, so that loops over it are vectorised.

    x = k log 2 + r with |r| ≤ ½ log 2; e^r by its Taylor polynomial, accurate to a few 1e-14.
    """
    x = max(x, LEAST)
    k = np.floor(x * LOG2_E + 0.5)
    r = (x - k * LOG_2) - k * LOG_2_REST
    p = 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    return p * _from_bits((np.int64(k) + 1023) << 52)  # type: ignore[call-arg]


@njit(cache=True, fastmath=True, nogil=True)
def add_exponentials(exponents, total):  # type: ignore[no-untyped-def]
    """total += Σ exp(exponents) over rows."""
    N, P = exponents.shape
    for n in range(N):
        row = exponents[n]
        for p in range(P):
            total[p] += exponential(row[p])


@njit(cache=True, fastmath=True, nogil=True)
def weigh_exponentials(exponents, weights):  # type: ignore[no-untyped-def]
    """exponents ← weights·exp(exponents), with a row of weights for each row, or one for all."""
    N, P = exponents.shape
    shared = weights.shape[0] == 1
    for n in range(N):
        row = exponents[n]
        given = weights[0] if shared else weights[n]
        for p in range(P):
            row[p] = given[p] * exponential(row[p])
