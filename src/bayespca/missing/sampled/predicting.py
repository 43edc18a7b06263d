"""Compiled loop over pairs; `draws.averaged_by_numpy` shows what it computes over all draws."""

from __future__ import annotations

import numba


@numba.njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def add_draw(own, other, noise, biases, count, out):  # type: ignore[no-untyped-def]
    """Add a draw to means, sums of squares (Welford's method) and sums of noise variances."""
    a, wa, mean_a, rows = own
    b, wb, mean_b, columns = other
    tau, new_row, new_column = noise
    mean, squares, total = out
    H = mean_a.size - (1 if biases else 0)
    for p in range(rows.size):
        i, j = rows[p], columns[p]
        low, w = 0.0, 1.0
        w *= wa[i] if i >= 0 else new_row
        w *= wb[j] if j >= 0 else new_column
        for h in range(H):
            x = a[i, h] if i >= 0 else mean_a[h]
            y = b[j, h] if j >= 0 else mean_b[h]
            low += x * y
        if biases:
            low += a[i, H] if i >= 0 else mean_a[H]
            low += b[j, H] if j >= 0 else mean_b[H]
        change = low - mean[p]
        mean[p] += change / count
        squares[p] += change * (low - mean[p])
        total[p] += 1.0 / (tau * w)
