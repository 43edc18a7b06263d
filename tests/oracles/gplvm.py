"""The GP-LVM written out: averages by quadrature, the bound by definition, evidence on a grid."""

from __future__ import annotations

from itertools import product

import numpy as np


def kernel_matrix(X, Z, parameters):
    """k(x, z) of every pair, entry by entry; `parameters` are as in `kernels.Hyper`."""
    w, v, b, _ = parameters
    K = np.zeros((len(X), len(Z)))
    for i, x in enumerate(X):
        for j, z in enumerate(Z):
            if w.size:
                K[i, j] += np.exp(-0.5 * np.sum(w * (x - z) ** 2))
            if v.size:
                K[i, j] += np.sum(v * x * z)
            if b.size:
                K[i, j] += b[0]
    return K


def own_variance(X, parameters):
    w, v, b, e = parameters
    return np.array(
        [(1.0 if w.size else 0.0) + np.sum(v * x * x if v.size else 0.0) for x in X]
    ) + (b.sum() + e.sum())


def psi_statistics(mean, variance, Z, parameters, order=40):
    """ψ₀, ψ₁ and ψ₂ of one row by Gauss–Hermite quadrature in each dimension."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    weights = weights / weights.sum()
    psi0, psi1, psi2 = 0.0, np.zeros(len(Z)), np.zeros((len(Z), len(Z)))
    for index in product(range(order), repeat=len(mean)):
        chosen = list(index)
        x = mean + np.sqrt(variance) * nodes[chosen]
        share = weights[chosen].prod()
        k = kernel_matrix(x[None], Z, parameters)[0]
        psi0 += share * own_variance(x[None], parameters)[0]
        psi1 += share * k
        psi2 += share * np.outer(k, k)
    return psi0, psi1, psi2


def free_energy(Y, mean, variance, Z, parameters, signal, noise, jitter=0.0):
    """F of Titsias and Lawrence 2010, Eq. 14, and KL; without a mean, and with NaN for holes."""
    N, D = Y.shape
    rows = [psi_statistics(mean[n], variance[n], Z, parameters) for n in range(N)]
    K = kernel_matrix(Z, Z, parameters) + parameters[3].sum() * np.eye(len(Z))
    K = signal * (K + jitter * np.trace(K) / len(K) * np.eye(len(K)))
    total = 0.5 * np.sum(mean**2 + variance - 1 - np.log(variance))
    for d in range(D):
        there = np.flatnonzero(~np.isnan(Y[:, d]))
        y = Y[there, d]
        psi0 = signal * sum(rows[n][0] for n in there)
        Psi1 = signal * np.array([rows[n][1] for n in there])
        Psi2 = signal**2 * sum(rows[n][2] for n in there)
        inner = K + Psi2 / noise
        total += 0.5 * len(there) * np.log(2 * np.pi * noise)
        total += 0.5 * (np.linalg.slogdet(inner)[1] - np.linalg.slogdet(K)[1])
        total += 0.5 * y @ y / noise
        pulled = Psi1.T @ y / noise
        total -= 0.5 * pulled @ np.linalg.solve(inner, pulled)
        total += 0.5 / noise * (psi0 - np.trace(np.linalg.solve(K, Psi2)))
    return total


def log_evidence(y, parameters, signal, noise, points=81, reach=5.0):
    """log ∫ N(y; 0, σ_f²K(X) + σ²I) N(X; 0, I) dX of one column and one dimension, on a grid."""
    grid = np.linspace(-reach, reach, points)
    step = grid[1] - grid[0]
    logs = []
    for place in product(grid, repeat=len(y)):
        X = np.array(place)[:, None]
        C = signal * kernel_matrix(X, X, parameters) + noise * np.eye(len(y))
        logs.append(
            -0.5 * (np.linalg.slogdet(2 * np.pi * C)[1] + y @ np.linalg.solve(C, y))
            - 0.5 * np.sum(X**2 + np.log(2 * np.pi))
        )
    top = max(logs)
    return top + np.log(np.sum(np.exp(np.array(logs) - top))) + len(y) * np.log(step)


def variances_of_points(new, X, w, noise):
    """Variances of Gaussian processes with an unknown mean and unit variance, in long doubles.

    The kernel is the squared exponential, and the noise is that of the values at X.
    """
    n, long = len(X), np.longdouble
    C = _squared_exponential(X, X, w) + noise * np.eye(n, dtype=long)
    k = _squared_exponential(new, X, w)
    solved = _eliminated(C, np.concatenate([np.ones((n, 1), long), k.T], axis=1))
    ones, rest = solved[:, 0], solved[:, 1:]
    found = 1 - (k * rest.T).sum(axis=1) + (1 - k @ ones) ** 2 / ones.sum()
    return found.astype(float)


def _squared_exponential(X, Z, w):
    apart = X[:, None, :].astype(np.longdouble) - Z
    return np.exp(-0.5 * (w * apart**2).sum(axis=2))


def _eliminated(A, B):
    """The solution of AX = B by Gaussian elimination, for a positive definite A."""
    A, B = A.copy(), B.copy()
    for i in range(len(A)):
        factor = A[i + 1 :, i : i + 1] / A[i, i]
        A[i + 1 :] -= factor * A[i]
        B[i + 1 :] -= factor * B[i]
    for i in reversed(range(len(A))):
        B[i] = (B[i] - A[i, i + 1 :] @ B[i + 1 :]) / A[i, i]
    return B


def averaged(mean, variance, predicted, order=12):
    """Mean and variance of functions over normal points, by Gauss–Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    weights = weights / weights.sum()
    m = s = v = 0.0
    for index in product(range(order), repeat=mean.shape[1]):
        chosen = list(index)
        values, spread = predicted(mean + np.sqrt(variance) * nodes[chosen])
        share = weights[chosen].prod()
        m, s, v = m + share * values, s + share * values**2, v + share * spread
    return m, v + s - m**2
