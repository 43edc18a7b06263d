"""The free energy of a factorization with holes, cell by cell, from its definition."""

from __future__ import annotations

import numpy as np


def gaussian_kl(mean, cov, prior_variance):
    """KL(N(mean, cov) ‖ N(0, diag(prior_variance)))."""
    k = len(mean)
    second = np.diag(cov) + mean**2
    return 0.5 * (
        np.sum(second / prior_variance)
        - k
        + np.sum(np.log(prior_variance))
        - np.linalg.slogdet(cov)[1]
    )


def free_energy(X, a, a_cov, b, b_cov, prior_a, prior_b, s2):
    """⟨−log p(X | A, B, μ)⟩ + KL(A) + KL(B, μ), for rows a with covariance a_cov each.

    The last column of b is μ, with a flat prior of density 1: of it only the negative entropy of
    r(b, μ) is left, and the expected log prior of b.
    """
    total = 0.0
    H = a.shape[1]
    for i, j in np.argwhere(~np.isnan(X)):
        aa = np.append(a[i], 1.0)
        A2 = np.zeros((H + 1, H + 1))
        A2[:H, :H] = a_cov[i]
        A2 += np.outer(aa, aa)
        B2 = b_cov[j] + np.outer(b[j], b[j])
        square = X[i, j] ** 2 - 2 * X[i, j] * aa @ b[j] + np.sum(A2 * B2)
        total += 0.5 * np.log(2 * np.pi * s2) + 0.5 * square / s2
    for i in range(len(a)):
        total += gaussian_kl(a[i], a_cov[i], prior_a)
    for j in range(len(b)):
        entropy = 0.5 * (np.linalg.slogdet(b_cov[j])[1] + (H + 1) * (1 + np.log(2 * np.pi)))
        second = np.diag(b_cov[j])[:H] + b[j, :H] ** 2
        log_prior = -0.5 * np.sum(np.log(2 * np.pi * prior_b) + second / prior_b)
        total += -entropy - log_prior
    return float(total)
