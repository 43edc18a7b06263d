"""Expectations of rows with holes under one normal distribution, row by row."""

from __future__ import annotations

import numpy as np


def expected_products(X, mean, C):
    """⟨x⟩ of each row, Σ Cov(x), and the entropy of all holes, from conditional normals."""
    filled, total, entropy = X.copy(), np.zeros_like(C), 0.0
    for row in filled:
        m = np.isnan(row)
        if not m.any():
            continue
        gain = C[np.ix_(m, ~m)] @ np.linalg.inv(C[np.ix_(~m, ~m)])
        cov = C[np.ix_(m, m)] - gain @ C[np.ix_(~m, m)]
        row[m] = mean[m] + gain @ (row[~m] - mean[~m])
        total[np.ix_(m, m)] += cov
        entropy += 0.5 * np.linalg.slogdet(2 * np.pi * np.e * cov)[1]
    return filled, total, entropy
