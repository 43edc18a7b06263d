"""The free energy of a matrix factorization, from its definition, with loops over all rows."""

from __future__ import annotations

import numpy as np

LOG_2PI = np.log(2 * np.pi)


def factor_energy(mean, cov, prior, integrated):
    """Σ over rows of KL(N(mean, cov)‖N(0, diag prior)), or of −log N(mean; 0, diag prior)."""
    total = 0.0
    for row in mean:
        if not integrated:
            total += 0.5 * np.sum(LOG_2PI + np.log(prior) + row**2 / prior)
            continue
        spread = np.sum((row**2 + np.diag(cov)) / prior) + np.sum(np.log(prior))
        total += 0.5 * (spread - len(row) - np.linalg.slogdet(cov)[1])
    return total


def free_energy(V, A, B, a_cov, b_cov, prior_a, prior_b, s2, family):
    """F of V ≈ BAᵀ (L×M, with A M×H and B L×H): the sum of every entry of ⟨(V − BAᵀ)²⟩, and KL."""
    L, M = V.shape
    square = 0.0
    for l in range(L):
        for m in range(M):
            bb = np.outer(B[l], B[l]) + b_cov
            aa = np.outer(A[m], A[m]) + a_cov
            square += V[l, m] ** 2 - 2 * V[l, m] * B[l] @ A[m] + np.sum(aa * bb)
    likelihood = 0.5 * (L * M * (LOG_2PI + np.log(s2)) + square / s2)
    of_a = factor_energy(A, a_cov, prior_a, family.integrates_a)
    of_b = factor_energy(B, b_cov, prior_b, family.integrates_b)
    return likelihood + of_a + of_b
