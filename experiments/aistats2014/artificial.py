"""Artificial1, Artificial2 and ArtificialCF: factors and noise from N(0, 1) (Section 5.1)."""

from __future__ import annotations

import numpy as np


def matrix(L: int, M: int, rank: int, seed: int) -> np.ndarray:
    """V = B·Aᵀ + noise, L×M."""
    draw = np.random.default_rng(seed).standard_normal
    return draw((L, rank)) @ draw((rank, M)) + draw((L, M))


def cells(
    L: int, M: int, rank: int, share: float, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, columns and values of a share of the cells of such a matrix, which is not formed."""
    rng = np.random.default_rng(seed)
    B, A = rng.standard_normal((L, rank)), rng.standard_normal((M, rank))
    rows, columns = np.divmod(rng.choice(L * M, round(share * L * M), replace=False), M)
    signal = np.einsum("ch,ch->c", B[rows], A[columns])
    return rows, columns, signal + rng.standard_normal(rows.size)
