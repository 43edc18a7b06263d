"""Noise per row and column in complete data, slowly: the closed form of scaled data alternates with
updates of the scales; or a general-purpose optimiser minimises the whole free energy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma, gammaln

from bayespca.lowrank.scales import learned
from bayespca.spectrum import Spectrum, solve

from .holes import LOG_2PI


def alternated(X, *, rows, columns, steps=3000):
    """(free energy, rank) after closed form and scales have converged."""
    (n, p), M = X.shape, len(X) - 1
    of_rows = learned(((X - X.mean(0)) ** 2).sum(1), p) if rows else None
    of_columns = learned(((X - X.mean(0)) ** 2).sum(0), M) if columns else None
    energies = [np.inf]
    for _ in range(steps):
        w, log_u = _known(of_rows, n)
        q, log_v = _known(of_columns, p)
        V = np.sqrt(w)[:, None] * (X - w @ X / w.sum()) * np.sqrt(q)
        left, gamma, right = np.linalg.svd(V, full_matrices=False)
        solution = solve(Spectrum(gamma[: min(p, M)], (p, M), float(gamma @ gamma)))
        k, s2, m = solution.rank, solution.noise_variance, solution.moments
        F = solution.free_energy + 0.5 * (p * log_u.sum() + p * np.log(w.sum() / n))
        F += 0.5 * M * log_v.sum()
        F += sum(scales.divergence for scales in (of_rows, of_columns) if scales is not None)
        energies.append(F)
        if abs(energies[-2] - F) < 1e-10 * abs(F):
            break
        a, b = m.mean_a[:k] * left[:, :k], m.mean_b[:k] * right[:k].T
        # In units of the noise, the uncertainty of a row's scores does not depend on its noise, nor
        # that of a column's loadings and mean; the mean has variance σ²/Σw.
        square, share = (V - a @ b.T) ** 2, 1 - w / w.sum()
        of_loadings = (a**2 @ m.variance_b[:k])[:, None] + w[:, None] * s2 / w.sum()
        of_scores = share[:, None] * (b**2 @ m.variance_a[:k])
        of_a = (a**2 / m.prior_variance_a[:k]).sum(1)
        of_b = (b**2 / m.prior_variance_b[:k]).sum(1)
        if rows:
            of_rows = learned(((square + of_loadings).sum(1) / s2 + of_a) / w, p)
        if columns:
            of_columns = learned(((square + of_scores).sum(0) / s2 + of_b) / q, M)
    return F, k


def _known(scales, size):
    return (np.ones(size), np.zeros(size)) if scales is None else vars_of(scales)


def vars_of(scales):
    return scales.precision, scales.log_variance


@dataclass
class Gammas:
    """Posteriors r(1/u) = Gamma(shape, rate) under the prior Gamma(alpha, beta)."""

    shape: np.ndarray
    rate: np.ndarray
    alpha: float
    beta: float

    @property
    def precision(self):
        return self.shape / self.rate

    @property
    def log_variance(self):
        return np.log(self.rate) - digamma(self.shape)

    @property
    def divergence(self):
        s, r, a, b = self.shape, self.rate, self.alpha, self.beta
        return float(
            np.sum(
                (s - a) * digamma(s)
                - gammaln(s)
                + gammaln(a)
                + a * (np.log(r) - np.log(b))
                + s * (b - r) / r
            )
        )


def least_free_energy(X, start):
    """Lowest free energy of one component that L-BFGS finds from `start`; see `value`."""
    options = {"maxiter": 300, "maxfun": 10**7, "ftol": 1e-14, "gtol": 1e-8}
    return float(minimize(value, start, args=(X,), method="L-BFGS-B", options=options).fun)


def value(theta, X):
    """Free energy of one component with noise per row and column: `holes.free_energy` with σ² = 1.

    `theta` holds means of a, b and μ, log variances of a, Cholesky factors of the covariances of
    (b, μ), the prior, and two gammas.
    """
    (n, p), seen = X.shape, ~np.isnan(X)
    a, s, b, mu, C, c2, rows, columns = parameters(theta, n, p)
    w, q = rows.precision, columns.precision
    share = 1 - w / w.sum()
    V, r = np.where(seen, X, 0) * np.sqrt(w[:, None] * q), np.sqrt(w)
    # Covariances are in units of the noise; a, b and μ are scaled like V.
    square = (V - np.outer(a, b) - np.outer(r, mu)) ** 2
    square += np.outer(a**2, C[:, 0, 0]) + 2 * np.outer(a * r, C[:, 0, 1])
    square += np.outer(w, C[:, 1, 1]) + np.outer(share * s, C[:, 0, 0] + b**2)
    logs = rows.log_variance[:, None] + columns.log_variance + LOG_2PI
    total = np.sum(seen * (square + logs))
    total += np.sum(a**2 / c2 + share * (s / c2 - 1 - np.log(s / c2)))
    total += np.sum((b**2 + C[:, 0, 0]) / c2 + np.log(c2) - np.linalg.slogdet(C)[1])
    total -= np.sum(columns.log_variance + np.log(seen.sum(0))) + p * (2 + LOG_2PI)
    return 0.5 * float(total) + rows.divergence + columns.divergence


def parameters(theta, n, p):
    sizes = [n, n, p, p, 3 * p, 1, 2 * n + 2, 2 * p + 2]
    a, log_s, b, mu, roots, c, of_rows, of_columns = np.split(theta, np.cumsum(sizes)[:-1])
    L = np.zeros((p, 2, 2))
    L[:, 0, 0], L[:, 1, 0], L[:, 1, 1] = np.exp(roots[:p]), roots[p : 2 * p], np.exp(roots[2 * p :])
    scales = _gammas(of_rows), _gammas(of_columns)
    return a, np.exp(log_s), b, mu, L @ np.swapaxes(L, 1, 2), float(np.exp(c[0])), *scales


def _gammas(theta):
    size = (theta.size - 2) // 2
    parts = np.exp(np.clip(theta, -20, 20))
    return Gammas(parts[:size], parts[size : 2 * size], parts[-2], parts[-1])
