"""Logistic PCA by definition: averages over fine grids, and sums written out."""

from __future__ import annotations

import numpy as np
from scipy import integrate, optimize, stats

# Sums over a fine grid converge faster than any power of its width for functions like these.
GRID = np.linspace(-10, 10, 1001)
DENSITY = stats.norm.pdf(GRID) * (GRID[1] - GRID[0])


def average(function, mean, variance):
    """⟨function(z)⟩ over z ~ N(mean, variance), by a sum over a fine grid."""
    return float(DENSITY @ function(mean + np.sqrt(variance) * GRID))


def log_one_plus_exp(z):
    return np.logaddexp(0.0, z)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def normal_kl(mean, cov, prior):
    """KL(N(mean, cov) ‖ N(0, diag prior))."""
    inner = np.trace(cov / prior[:, None]) + mean @ (mean / prior) - mean.size
    return 0.5 * (inner + np.log(prior).sum() - np.linalg.slogdet(cov)[1])


def free_energy(X, a, a_cov, b, b_cov, prior, spread):
    """−Σ⟨log p(x | z)⟩, z normal with its mean and variance, plus KL of every row and column."""
    n, p = X.shape
    H = prior.size
    F = 0.0
    for i in range(n):
        F += normal_kl(a[i], a_cov[i], prior)
        mean = np.append(a[i], 1.0)
        cov = np.zeros((H + 1, H + 1))
        cov[:H, :H] = a_cov[i]
        for j in range(p):
            if np.isnan(X[i, j]):
                continue
            m = mean @ b[j]
            second_a, second_b = cov + np.outer(mean, mean), b_cov[j] + np.outer(b[j], b[j])
            v = np.trace(second_a @ second_b) - m * m
            F -= X[i, j] * m - average(log_one_plus_exp, m, v)
    for j in range(p):
        F += normal_kl(b[j], b_cov[j], np.append(prior, spread))
    return float(F)


def log_marginal_of_row(x, b, prior):
    """log ∫ p(x | a) p(a) da of a row with one score, given loadings (p, 2), by quadrature."""
    there = ~np.isnan(x)
    z0, slope, x = b[there, 1], b[there, 0], x[there]

    def joint(t):
        z = z0 + slope * t * np.sqrt(prior)
        return np.exp(np.sum(x * z - np.logaddexp(0.0, z))) * stats.norm.pdf(t)

    value, _ = integrate.quad(joint, -12, 12, epsabs=0, epsrel=1e-11, limit=200)
    return float(np.log(value))


def best_normal_bound(x, b, prior):
    """Highest bound on `log_marginal_of_row` over normal posteriors, by a general minimiser."""
    there = ~np.isnan(x)
    z0, slope, x = b[there, 1], b[there, 0], x[there]

    def energy(parameters):
        m, v = parameters[0], np.exp(parameters[1])
        fit = sum(
            xj * (zj + sj * m) - average(log_one_plus_exp, zj + sj * m, sj * sj * v)
            for xj, zj, sj in zip(x, z0, slope, strict=True)
        )
        return 0.5 * ((m * m + v) / prior - 1 + np.log(prior / v)) - fit

    found = optimize.minimize(
        energy,
        [0.0, 0.0],
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000},
    )
    return -float(found.fun)


def log_evidence(X, prior, spread, n=150_000, seed=0):
    """log p(X) from draws of A, B and μ from their priors, and its standard error."""
    rng = np.random.default_rng(seed)
    (rows, p), root = X.shape, np.sqrt(prior)
    A = root * rng.normal(size=(n, rows, prior.size))
    B = root * rng.normal(size=(n, p, prior.size))
    z = A @ B.transpose(0, 2, 1) + np.sqrt(spread) * rng.normal(size=(n, 1, p))
    there = ~np.isnan(X)
    logs = (X * z - np.logaddexp(0.0, z))[:, there].sum(axis=1)
    weights = np.exp(logs - logs.max())
    error = weights.std() / weights.mean() / np.sqrt(n)
    return float(logs.max() + np.log(weights.mean())), float(error)
