"""Loops over patterns of holes that BLAS cannot do; `kernels.by_numpy` says what they compute."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


# Inner products may be summed in another order, which lets them use vector instructions; the order
# is the same for any number of threads.
@numba.njit(parallel=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def by_loops(
    gram: FloatArray,
    pull: FloatArray,
    order: NDArray[np.intp],
    starts: NDArray[np.intp],
    weights: FloatArray,
    ridge: FloatArray,
    s2: float,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """One pattern after another, each by one thread: the same sums for any number of threads."""
    n, H = pull.shape
    m = gram.shape[0]
    size = H * (H + 1) // 2
    a = np.empty((n, H))
    cov = np.empty((m, size))
    second = np.empty((m, (H + 1) * (H + 2) // 2))
    log_dets = np.empty(m)
    for p in numba.prange(m):
        # Cholesky factor L of the precision times σ². All inner loops run along rows.
        L = np.empty((H, H))
        at = 0
        for h in range(H):
            for k in range(h, H):
                L[k, h] = gram[p, at]
                at += 1
            L[h, h] += ridge[h]
        log_det = H * np.log(s2)
        for g in range(H):
            for h in range(g + 1):
                total = L[g, h]
                for k in range(h):
                    total -= L[g, k] * L[h, k]
                L[g, h] = np.sqrt(total) if g == h else total / L[h, h]
            log_det -= 2 * np.log(L[g, g])
        log_dets[p] = log_det
        # R = L⁻ᵀ, upper.
        R = np.empty((H, H))
        for h in range(H):
            R[h, h] = 1 / L[h, h]
            for g in range(h + 1, H):
                total = 0.0
                for k in range(h, g):
                    total += L[g, k] * R[h, k]
                R[h, g] = -total / L[g, g]
        # σ²·RRᵀ
        C = np.empty((H, H))
        at = 0
        for h in range(H):
            for k in range(h, H):
                total = 0.0
                for g in range(k, H):
                    total += R[h, g] * R[k, g]
                C[h, k] = total * s2
                C[k, h] = total * s2
                cov[p, at] = total * s2
                at += 1
        at = 0
        for h in range(H):
            for k in range(h, H):
                second[p, at] = weights[p] * C[h, k]
                at += 1
            second[p, at] = 0.0
            at += 1
        second[p, at] = 0.0
        for r in range(starts[p], starts[p + 1]):
            row = order[r]
            for h in range(H):
                total = 0.0
                for k in range(H):
                    total += C[h, k] * pull[row, k]
                a[row, h] = total / s2
            at = 0
            for h in range(H):
                for k in range(h, H):
                    second[p, at] += a[row, h] * a[row, k]
                    at += 1
                second[p, at] += a[row, h]
                at += 1
            second[p, at] += 1.0
    return a, cov, second, log_dets
