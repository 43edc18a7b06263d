"""Problems for row updates by pattern, and a slow definition of what the kernels compute."""

from __future__ import annotations

import numpy as np

from bayespca.lowrank.kernels import OwnRows


def problem(n, m, H, seed=0):
    """Random Gram matrices for m patterns, and n rows spread unevenly over them."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(m, H + 3, H))
    gram = (np.swapaxes(factors, 1, 2) @ factors)[:, *np.triu_indices(H)].T.copy()
    pattern = (m * rng.random(n - m) ** 3).astype(int)
    starts = np.r_[0, np.cumsum(1 + np.bincount(pattern, minlength=m))]
    return gram, rng.normal(size=(n, H)), starts, 0.8, rng.uniform(0.1, 2, H), 0.7


def own_rows(n, m, seed=0):
    """Rows of unequal weight."""
    rng = np.random.default_rng(seed)
    return OwnRows(rng.uniform(0.5, 2, m), rng.uniform(0.5, 2, n))


def fresh(given):
    """A copy of the problem: kernels may overwrite their arguments."""
    return [np.copy(part) if isinstance(part, np.ndarray) else part for part in given]


def one_by_one(gram, pull, starts, share, ridge, s2, own=None):
    """The results that kernels must return, computed row by row."""
    n, H = pull.shape
    m = len(starts) - 1
    a, log_dets = np.empty((n, H)), np.empty(m)
    cov, second = np.empty((len(gram), m)), np.zeros(((H + 1) * (H + 2) // 2, m))
    for i in range(m):
        precision = np.zeros((H, H))
        precision[np.triu_indices(H)] = gram[:, i]
        precision = np.triu(precision, 1).T + precision + np.diag(ridge)
        Sigma = s2 * np.linalg.inv(precision)
        cov[:, i], log_dets[i] = Sigma[np.triu_indices(H)], np.linalg.slogdet(Sigma)[1]
        for row in range(starts[i], starts[i + 1]):
            a[row] = Sigma @ pull[row] / s2
            ones = np.append(a[row], 1 if own is None else own.last[row])
            square = np.outer(ones, ones)
            square[:H, :H] += share * Sigma if own is None else 0
            second[:, i] += square[np.triu_indices(H + 1)]
        if own is not None:
            second[np.triu_indices(H + 1)[1] < H, i] += own.shares[i] * cov[:, i]
    return a, cov, second, log_dets


SHAPES = [
    (40, 40, 5),
    (60, 7, 3),
    (5, 1, 1),
    (30, 30, 0),
    (300, 3, 4),
    (400, 200, 20),
    (9, 9, 90),
    (9, 8, 32),
    (9, 8, 33),
]
