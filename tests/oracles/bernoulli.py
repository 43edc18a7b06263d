"""Mixtures of Bernoulli distributions by sums over all assignments of rows to clusters."""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy import stats
from scipy.special import betaln, gammaln, psi


def likelihood(x, p):
    """Π_d p_d^{x_d} (1 − p_d)^{1 − x_d} over the observed cells."""
    there = [(cell, q) for cell, q in zip(x, p, strict=True) if not np.isnan(cell)]
    return float(np.prod([q if cell == 1 else 1 - q for cell, q in there]))


def posterior_of_assignments(X, weights, means):
    """p(z_1, …, z_N | X) for every z, normalised by brute force, and log p(X)."""
    K = len(weights)
    joint = {
        z: np.prod([weights[k] * likelihood(x, means[k]) for x, k in zip(X, z, strict=True)])
        for z in product(range(K), repeat=len(X))
    }
    total = sum(joint.values())
    return {z: value / total for z, value in joint.items()}, float(np.log(total))


def responsibilities(X, weights, means):
    """p(z_n = k | X), summed from the posterior of all assignments."""
    posterior, _ = posterior_of_assignments(X, weights, means)
    q = np.zeros((len(X), len(weights)))
    for z, probability in posterior.items():
        for n, k in enumerate(z):
            q[n, k] += probability
    return q


def em_update(X, q):
    """π_k and p_kd of EM's M step, over the observed cells."""
    N, D = X.shape
    means = np.empty((q.shape[1], D))
    for k in range(q.shape[1]):
        for d in range(D):
            there = [n for n in range(N) if not np.isnan(X[n, d])]
            means[k, d] = sum(q[n, k] * X[n, d] for n in there) / sum(q[n, k] for n in there)
    return q.sum(axis=0) / N, means


def vb_free_energy(X, q, alpha0, a0, b0):
    """⟨log q(z) q(π) q(p)⟩ − ⟨log p(X, z, π, p)⟩ term by term, q(π) and q(p) best for q(z)."""
    K, D = q.shape[1], X.shape[1]
    alpha = alpha0 + q.sum(axis=0)
    log_pi = psi(alpha) - psi(alpha.sum())
    F = float(np.sum(q * np.log(q)) - np.sum(q @ log_pi))
    F += -stats.dirichlet(alpha).entropy() - _expected_log_dirichlet(alpha0, log_pi)
    for k in range(K):
        for d in range(D):
            there = ~np.isnan(X[:, d])
            ones, zeros = q[there, k] @ X[there, d], q[there, k] @ (1 - X[there, d])
            a, b = a0 + ones, b0 + zeros
            log_p, log_not = psi(a) - psi(a + b), psi(b) - psi(a + b)
            F -= ones * log_p + zeros * log_not
            F += -stats.beta(a, b).entropy()
            F -= (a0 - 1) * log_p + (b0 - 1) * log_not - betaln(a0, b0)
    return F


def _expected_log_dirichlet(alpha0, log_pi):
    K = log_pi.size
    return float(gammaln(K * alpha0) - K * gammaln(alpha0) + (alpha0 - 1) * log_pi.sum())


def log_evidence(X, K, alpha0, a0, b0):
    """log p(X) with π and p integrated out, summed over all assignments."""
    terms = []
    for z in product(range(K), repeat=len(X)):
        labels = np.array(z)
        sizes = np.bincount(labels, minlength=K)
        log = gammaln(K * alpha0) - gammaln(K * alpha0 + len(X))
        log += (gammaln(alpha0 + sizes) - gammaln(alpha0)).sum()
        for k in range(K):
            ones = np.nansum(X[labels == k], axis=0)
            seen = (~np.isnan(X[labels == k])).sum(axis=0)
            log += (betaln(a0 + ones, b0 + seen - ones) - betaln(a0, b0)).sum()
        terms.append(log)
    return float(np.logaddexp.reduce(terms))
