"""The free energy of weighted rows, written out, and minimised by brute force.

Slow and obvious. A row of weight rₙ contributes its expected log-likelihood and the divergence of
its latent variable rₙ times. Terms that are the same for all rows count one row less, because the
mean takes up one.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize


def free_energy(X, r, mean, a, s_a, b, s_b, c_a, c_b, noise):
    """F of one cluster with one component.

    a and s_a are the posterior means and variance of the rows' latent variables, b and s_b those of
    the loadings, c_a and c_b their prior variances.
    """
    p, one_less = X.shape[1], r.sum() - 1
    b2 = b @ b + p * s_b
    squares = np.sum((X - mean - np.outer(a, b)) ** 2, axis=1) + a**2 * p * s_b
    total = one_less * p * np.log(2 * np.pi * noise) + (r @ squares + one_less * s_a * b2) / noise
    divergence_a = r @ a**2 / c_a + one_less * (s_a / c_a - 1 - np.log(s_a / c_a))
    divergence_b = b2 / c_b - p - p * np.log(s_b / c_b)
    return 0.5 * (total + divergence_a + divergence_b)


def least_free_energy(X, r, rng, starts=6):
    """Lowest of the minima that a general-purpose optimiser finds from several starts."""
    n, p = X.shape

    def value(theta):
        mean, a, b, rest = np.split(theta, [p, p + n, 2 * p + n])
        s_a, s_b, c_a, c_b, noise = np.exp(np.clip(rest, -30, 30))
        return free_energy(X, r, mean, a, s_a, b, s_b, c_a, c_b, noise)

    found = []
    for _ in range(starts):
        start = np.concatenate([X.mean(axis=0), 3 * rng.normal(size=n + p), np.zeros(5)])
        options = {"maxiter": 20000, "maxfun": 10**7, "ftol": 1e-15, "gtol": 1e-9}
        found.append(minimize(value, start, method="L-BFGS-B", options=options).fun)
    return min(found)
