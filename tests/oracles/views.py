"""Several views by definition: the free energy as sums over cells, and plain coordinate descent.

Rows of (B, μ) are b̃, rows of (A, 1) are ã. The means take up one row: covariances of A have weight
(n − 1)/n, and the flat prior of μⱼ has density √nⱼ.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Moments(NamedTuple):
    """Means (n, k) and covariances (n, k, k) of rows."""

    mean: np.ndarray
    cov: np.ndarray

    def second(self, i):
        return np.outer(self.mean[i], self.mean[i]) + self.cov[i]


def with_one(A):
    """Moments of ã, with covariances times (n − 1)/n."""
    n, k = A.mean.shape
    cov = np.zeros((n, k + 1, k + 1))
    cov[:, :k, :k] = A.cov * (n - 1) / n
    return Moments(np.column_stack([A.mean, np.ones(n)]), cov)


def residuals(X, view, A, B):
    """Σ⟨(x − ãᵀb̃)²⟩ over the cells of each view."""
    wide, total = with_one(A), np.zeros(view.max() + 1)
    for i, j in np.argwhere(~np.isnan(X)):
        square = X[i, j] ** 2 - 2 * X[i, j] * wide.mean[i] @ B.mean[j]
        total[view[j]] += square + (wide.second(i) * B.second(j)).sum()
    return total


def free_energy(X, view, A, B, prior, noise):
    """−⟨log p(X | A, B)⟩ + KL(A) + KL(B, μ); loadings are 0 where `prior` (V, k) is."""
    (n, k), seen = A.mean.shape, ~np.isnan(X)
    cells = np.array([seen[:, view == v].sum() for v in range(len(noise))])
    total = 0.5 * (cells * np.log(2 * np.pi * noise) + residuals(X, view, A, B) / noise).sum()
    share = (n - 1) / n
    for i in range(n):
        entropy = k + np.linalg.slogdet(A.cov[i])[1]
        total += 0.5 * (A.mean[i] @ A.mean[i] + share * (np.trace(A.cov[i]) - entropy))
    for j, v in enumerate(view):
        on = np.flatnonzero(prior[v])
        c2, known = prior[v, on], np.append(on, k)
        total += 0.5 * (np.diag(B.second(j))[on] / c2 + np.log(c2)).sum()
        entropy = on.size + np.linalg.slogdet(B.cov[j][np.ix_(known, known)])[1]
        total -= 0.5 * (entropy + 1 + np.log(2 * np.pi) + np.log(seen[:, j].sum()))
    return total


def best_rows(X, B, noise_of_column):
    """r(A) given the columns: precision I + Σⱼ⟨bⱼbⱼᵀ⟩/σ², row by row."""
    k = B.mean.shape[1] - 1
    A = Moments(np.zeros((len(X), k)), np.zeros((len(X), k, k)))
    for i, x in enumerate(X):
        precision, pull = np.eye(k), np.zeros(k)
        for j in np.flatnonzero(~np.isnan(x)):
            second = B.second(j)
            precision += second[:k, :k] / noise_of_column[j]
            pull += (x[j] * B.mean[j, :k] - second[:k, k]) / noise_of_column[j]
        A.cov[i] = np.linalg.inv(precision)
        A.mean[i] = A.cov[i] @ pull
    return A


def best_columns(X, view, A, prior, noise):
    """r(bⱼ, μⱼ) given the rows, for the factors that are active in the view of column j."""
    wide, (p, k) = with_one(A), (X.shape[1], A.mean.shape[1])
    B = Moments(np.zeros((p, k + 1)), np.zeros((p, k + 1, k + 1)))
    for j, v in enumerate(view):
        known = np.append(np.flatnonzero(prior[v]), k)
        precision = np.diag(np.append(1 / prior[v, known[:-1]], 0.0))
        pull = np.zeros(known.size)
        for i in np.flatnonzero(~np.isnan(X[:, j])):
            precision += wide.second(i)[np.ix_(known, known)] / noise[v]
            pull += X[i, j] * wide.mean[i, known] / noise[v]
        cov = np.linalg.inv(precision)
        B.cov[j][np.ix_(known, known)], B.mean[j, known] = cov, cov @ pull
    return B


def descended(X, view, active, *, rounds, seed):
    """Free energy after coordinate descent from random loadings, for a pattern `active` (V, k)."""
    rng, (V, k) = np.random.default_rng(seed), active.shape
    prior, noise = active.astype(float), np.ones(V)
    B = Moments(np.zeros((X.shape[1], k + 1)), np.zeros((X.shape[1], k + 1, k + 1)))
    B.mean[:, :k] = rng.normal(size=(X.shape[1], k)) * active[view]
    for _ in range(rounds):
        A = best_rows(X, B, noise[view])
        B = best_columns(X, view, A, prior, noise)
        left = residuals(X, view, A, B)
        for v in range(V):
            squares = sum(np.diag(B.second(j))[:k] for j in np.flatnonzero(view == v))
            prior[v] = np.where(active[v], squares / (view == v).sum(), 0.0)
            noise[v] = left[v] / (~np.isnan(X[:, view == v])).sum()
    return free_energy(X, view, best_rows(X, B, noise[view]), B, prior, noise)
