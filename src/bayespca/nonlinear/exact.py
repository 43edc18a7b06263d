"""Point-estimated latent points (Lawrence 2005): Gaussian processes without inducing points.

Columns are N(mean, σ_f²(K + I/s)) with K the covariance of the latent points. Their mean has a flat
prior, σ_f² is a quotient given the rest, and points, kernel and s are found by descent. A prior
N(0, I) of the points would have no effect: length scales absorb any scale of the points, which can
shrink until the prior is as large as it can be. With the linear kernel this is the dual of
probabilistic PCA: the points are its scores.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from bayespca.arrays.types import FloatArray

from .data import GPData
from .kernels import KernelHyper, covariance, covariance_gradients

# Range of log s.
LEAST_RATIO, MOST_RATIO = -12.0, 25.0


@dataclass(frozen=True, eq=False)
class Exact:
    """Free energy, its gradients with respect to points, kernel and log s, and σ_f²."""

    energy: float
    X: FloatArray
    hyper: FloatArray
    log_ratio: float
    signal: float


def evaluate(X: FloatArray, hyper: KernelHyper, log_ratio: float, data: GPData) -> Exact:
    """−log p(data | X) with the mean of each column integrated out, and its gradients."""
    (N, D), Y, s = data.shape, data.centred, float(np.exp(log_ratio))
    n = N - int(data.center)
    C = covariance(X, hyper)
    C[np.diag_indices_from(C)] += 1 / s
    factor = cho_factor(C, lower=True, check_finite=False)
    log_det = 2 * float(np.log(np.diag(factor[0])).sum())
    Ci = cho_solve(factor, np.eye(N), check_finite=False)
    if data.center:
        u = Ci.sum(axis=1)
        total = float(u.sum())
        log_det += float(np.log(total / N))
        Ci = Ci - np.outer(u, u) / total
    A = Ci @ Y
    signal = float((A * Y).sum()) / (n * D)
    energy = 0.5 * (n * D * (np.log(2 * np.pi * signal) + 1) + D * log_det)
    # With the mean integrated out, the derivative of the log determinant is tr(Ci ∂C) as well.
    gC = 0.5 * (D * Ci - A @ A.T / signal)
    gX, g_hyper = covariance_gradients(X, hyper, gC)
    return Exact(energy, gX, g_hyper, -float(np.trace(gC)) / s, signal)
