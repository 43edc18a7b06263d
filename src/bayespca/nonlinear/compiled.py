"""Second ψ statistics of the squared-exponential kernel, compiled: one exponential for each pair
of inducing points and row, and what gradients need of it.

With aₙ = w/(2wSₙ + 1) and d = √(aₙ/2)·(μₙ − z) the exponent of a pair is

    −½‖d_m‖² − ½‖d_j‖² − d_m·d_j − ½ Σ log(1 + 2wSₙ)

beside the factor exp(−¼ w·(z_m − z_j)²), which does not depend on the row. `statistics.py` has the
same in plain NumPy.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic

# log₂e, and log 2 in two parts whose first has zeros in its last digits.
LOG2_E = 1.4426950408889634
LOG_2, LOG_2_REST = 6.93147180369123816490e-01, 1.90821492927058770002e-10
# Below it e^x is as good as 0.
LEAST = -700.0


@intrinsic
def _from_bits(typing_context: Any, bits: Any) -> Any:
    """The floating-point number whose bits a whole number has."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


@njit(inline="always", fastmath=True)
def exponential(x: float) -> float:
    """e^x for x ≤ 700 without a branch or a call, so that loops over it are vectorised.

    x = k log 2 + r with |r| ≤ ½ log 2; e^r by Taylor's polynomial, right to a few 1e-14.
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


@njit(inline="always", fastmath=True)
def _prepare(mu, S, Z, w, D, h):  # type: ignore[no-untyped-def]
    """Scaled differences (Q, M) of one row, and the part of exponents that single points have."""
    Q, M = D.shape
    c = 0.0
    for m in range(M):
        h[m] = 0.0
    for q in range(Q):
        spread = 2.0 * w[q] * S[q] + 1.0
        c += math.log(spread)
        root = math.sqrt(0.5 * w[q] / spread)
        for m in range(M):
            d = root * (mu[q] - Z[m, q])
            D[q, m] = d
            h[m] -= 0.5 * d * d
    for m in range(M):
        h[m] -= 0.25 * c


@njit(inline="always", fastmath=True)
def _exponents(D, h, m, row):  # type: ignore[no-untyped-def]
    """Exponents of point m with itself and those after it.

    Loops begin at 0, on views: an index that might be negative would keep them from being
    vectorised.
    """
    Q, M = D.shape
    after, here = h[m:], h[m]
    for j in range(M - m):
        row[j] = here + after[j]
    for q in range(Q):
        others, d = D[q, m:], D[q, m]
        for j in range(M - m):
            row[j] -= d * others[j]


@njit(cache=True, fastmath=True, nogil=True)
def add_pairs(mu, S, Z, w, total):  # type: ignore[no-untyped-def]
    """Add the upper triangles of all rows to `total`: (M, M)."""
    N, Q = mu.shape
    M = Z.shape[0]
    D, h, row = np.empty((Q, M)), np.empty(M), np.empty(M)
    for n in range(N):
        _prepare(mu[n], S[n], Z, w, D, h)
        for m in range(M):
            _exponents(D, h, m, row)
            sums = total[m, m:]
            for j in range(M - m):
                sums[j] += exponential(row[j])


@njit(cache=True, fastmath=True, nogil=True)
def pairs_of_rows(mu, S, Z, w, packed):  # type: ignore[no-untyped-def]
    """The upper triangle of each row, packed as `arrays.packing` has it: (N, M(M + 1)/2)."""
    N, Q = mu.shape
    M = Z.shape[0]
    D, h, row = np.empty((Q, M)), np.empty(M), np.empty(M)
    for n in range(N):
        _prepare(mu[n], S[n], Z, w, D, h)
        for m in range(M):
            _exponents(D, h, m, row)
            found = packed[n, m * M - m * (m - 1) // 2 :]
            for j in range(M - m):
                found[j] = exponential(row[j])


@njit(cache=True, fastmath=True, nogil=True)
def add_gradients(mu, S, Z, w, weights, gmu, gS, gZ, gw):  # type: ignore[no-untyped-def]
    """Add the gradients of Σ weights·pairs, weights packed for each row, or one row for all.

    An entry beside the diagonal counts once: its weight is that of both.
    """
    N, Q = mu.shape
    M = Z.shape[0]
    D, E, h = np.empty((Q, M)), np.empty((Q, M)), np.empty(M)
    row, sums = np.empty(M), np.empty(M)
    shared = weights.shape[0] == 1
    for n in range(N):
        given = weights[0] if shared else weights[n]
        _prepare(mu[n], S[n], Z, w, D, h)
        total = 0.0
        for m in range(M):
            sums[m] = 0.0
        for q in range(Q):
            for m in range(M):
                E[q, m] = 0.0
        for m in range(M):
            _exponents(D, h, m, row)
            weight, after = given[m * M - m * (m - 1) // 2 :], sums[m:]
            here = 0.0
            for j in range(M - m):
                e = weight[j] * exponential(row[j])
                row[j] = e
                after[j] += e
                here += e
            sums[m] += here
            total += here
            for q in range(Q):
                others, pulled, d, t = D[q, m:], E[q, m:], D[q, m], 0.0
                for j in range(M - m):
                    pulled[j] += row[j] * d
                    t += row[j] * others[j]
                E[q, m] += t
        for q in range(Q):
            spread = 2.0 * w[q] * S[n, q] + 1.0
            root = math.sqrt(0.5 * w[q] / spread)
            slope, radial = 0.0, 0.0
            for m in range(M):
                g = -(sums[m] * D[q, m] + E[q, m])
                gZ[m, q] -= root * g
                slope += g
                radial += g * D[q, m]
            gmu[n, q] += root * slope
            gS[n, q] -= (radial + total) * w[q] / spread
            gw[q] += radial * (0.5 / w[q] - S[n, q] / spread) - total * S[n, q] / spread
