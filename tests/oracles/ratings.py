"""The free energy of a factorization of ratings, cell by cell, from its definition."""

from __future__ import annotations

import numpy as np

LOG_2PI = np.log(2 * np.pi)


def free_energy(cells, rows, columns, location, s2, *, biases):
    """⟨−log p(x | …)⟩ plus KL, or −log prior, of both factors.

    `cells` are (i, j, x); `rows` and `columns` are (mean, cov, prior), with cov None for a point
    estimate. With `biases`, the last entry of each mean is a bias.
    """
    total = 0.0
    for i, j, x in cells:
        a, A2 = _moments(rows, i)
        b, B2 = _moments(columns, j)
        if biases:
            a, A2, b, B2 = _augmented(a, A2, b, B2, location)
        square = x**2 - 2 * x * a @ b + np.sum(A2 * B2)
        total += 0.5 * (LOG_2PI + np.log(s2)) + 0.5 * square / s2
    return float(total + _energy(*rows) + _energy(*columns))


def _moments(factor, i):
    mean, cov, _ = factor
    return mean[i], np.outer(mean[i], mean[i]) + (0 if cov is None else cov[i])


def _augmented(a, A2, b, B2, m):
    """Means and second moments of (a, u, 1) and (b, 1, v + m)."""
    K = a.size
    to_a = np.zeros((K + 1, K + 1))
    to_a[:K, :K], to_a[K, K] = np.eye(K), 1.0
    to_b = np.zeros((K + 1, K + 1))
    to_b[: K - 1, : K - 1] = np.eye(K - 1)
    to_b[K - 1, K] = 1.0
    to_b[K, K - 1], to_b[K, K] = 1.0, m
    full = []
    for mean, second, to in ((a, A2, to_a), (b, B2, to_b)):
        big = np.ones((K + 1, K + 1))
        big[:K, :K], big[:K, K], big[K, :K] = second, mean, mean
        full += [to @ np.append(mean, 1.0), to @ big @ to.T]
    return full


def _energy(mean, cov, prior):
    total = 0.0
    for i in range(len(mean)):
        if cov is None:
            total += 0.5 * np.sum(np.log(2 * np.pi * prior) + mean[i] ** 2 / prior)
            continue
        second = mean[i] ** 2 + np.diag(cov[i])
        log_det = np.linalg.slogdet(cov[i])[1]
        total += 0.5 * (np.sum(second / prior + np.log(prior)) - prior.size - log_det)
    return total


def covariances_integrated(X, rows, columns, prior, s2, *, biases):
    """Σᵢ = (Σⱼ zⱼzⱼᵀ/(σ² + Var yᵀφⱼ) + 1/c²)⁻¹ of each row, cell by cell: (n, K, K).

    `rows` and `columns` are pairs of means (n, K) and covariances (n, K, K) of θ and φ; Var is over
    both yᵢ = (aᵢ, 1) and φⱼ = (bⱼ, vⱼ), minus what remains given φⱼ. NaN in X marks holes.
    """
    (theta, of_theta), (phi, of_phi) = rows, columns
    found = []
    for i, x in enumerate(X):
        y, of_y, information = theta[i].copy(), of_theta[i].copy(), np.diag(1 / prior)
        if biases:
            y[-1], of_y[-1], of_y[:, -1] = 1.0, 0.0, 0.0
        for j in np.flatnonzero(~np.isnan(x)):
            z = phi[j].copy()
            if biases:
                z[-1] = 1.0
            variance = y @ of_phi[j] @ y + np.trace(of_y @ of_phi[j])
            information = information + np.outer(z, z) / (s2 + variance)
        found.append(np.linalg.inv(information))
    return np.array(found)
