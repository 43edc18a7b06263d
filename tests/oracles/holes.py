"""The free energy of a factorization with holes, cell by cell, from its definition."""

from __future__ import annotations

import numpy as np


def free_energy(X, a, a_cov, b, b_cov, prior_a, prior_b, s2):
    """⟨−log p(X | A, B, μ)⟩ + KL(A) + KL(B, μ), for rows a with covariance a_cov each.

    Covariances of rows count (n − 1)/n, because one of n rows goes to the mean. The last column of
    b is μ, with a flat prior of density √nⱼ: of it only that and the entropy of r(b, μ) are left.
    """
    total, n, H = 0.0, len(a), a.shape[1]
    w = (n - 1) / n
    for i, j in np.argwhere(~np.isnan(X)):
        aa = np.append(a[i], 1.0)
        A2 = np.zeros((H + 1, H + 1))
        A2[:H, :H] = w * a_cov[i]
        A2 += np.outer(aa, aa)
        B2 = b_cov[j] + np.outer(b[j], b[j])
        square = X[i, j] ** 2 - 2 * X[i, j] * aa @ b[j] + np.sum(A2 * B2)
        total += 0.5 * np.log(2 * np.pi * s2) + 0.5 * square / s2
    for i in range(n):
        total += 0.5 * np.sum(a[i] ** 2 / prior_a)
        spread = np.sum(np.diag(a_cov[i]) / prior_a) - H + np.sum(np.log(prior_a))
        total += 0.5 * w * (spread - np.linalg.slogdet(a_cov[i])[1])
    for j in range(len(b)):
        entropy = 0.5 * (np.linalg.slogdet(b_cov[j])[1] + (H + 1) * (1 + np.log(2 * np.pi)))
        second = np.diag(b_cov[j])[:H] + b[j, :H] ** 2
        log_prior = -0.5 * np.sum(np.log(2 * np.pi * prior_b) + second / prior_b)
        log_prior += 0.5 * np.log(np.sum(~np.isnan(X[:, j])))
        total += -entropy - log_prior
    return float(total)
