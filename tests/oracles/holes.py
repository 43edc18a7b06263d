"""The free energy of a factorization with holes, cell by cell, from its definition."""

from __future__ import annotations

import numpy as np

from bayespca.spectrum import VB

LOG_2PI = np.log(2 * np.pi)


def free_energy(X, a, a_cov, b, b_cov, prior_a, prior_b, s2, family=VB, centred=True):
    """⟨−log p(X | A, B, μ)⟩ + KL(A) + KL(B, μ), for rows a with covariance a_cov each.

    Covariances of rows count (n − 1)/n, because one of n rows goes to the mean. The last column of
    b is μ, with a flat prior of density √nⱼ: of it only that and the entropy of r(b, μ) are left.
    A point-estimated factor has −log of its prior density in place of KL.
    """
    n = len(a)
    w = (n - 1) / n if centred else 1.0
    total = sum(
        _cell(X[i, j], a[i], w * family.integrates_a * a_cov[i], b[j], b_cov[j], s2)
        for i, j in np.argwhere(~np.isnan(X))
    )
    for i in range(n):
        total += _row(a[i], a_cov[i], prior_a, w, family.integrates_a)
    for j in range(len(b)):
        total += _column(b[j], b_cov[j], prior_b, family.integrates_b, centred)
        total -= centred * 0.5 * np.log(np.sum(~np.isnan(X[:, j])))
    return float(total)


def _cell(x, a, a_cov, b, b_cov, s2):
    H = a.size
    ones = np.append(a, 1.0)
    A2 = np.outer(ones, ones)
    A2[:H, :H] += a_cov
    B2 = b_cov + np.outer(b, b)
    square = x**2 - 2 * x * ones @ b + np.sum(A2 * B2)
    return 0.5 * (LOG_2PI + np.log(s2)) + 0.5 * square / s2


def _row(a, a_cov, prior, w, integrated):
    quadratic = 0.5 * np.sum(a**2 / prior)
    if not integrated:
        return quadratic + 0.5 * w * np.sum(np.log(2 * np.pi * prior))
    spread = np.sum(np.diag(a_cov) / prior) - a.size + np.sum(np.log(prior))
    return quadratic + 0.5 * w * (spread - np.linalg.slogdet(a_cov)[1])


def _column(b, b_cov, prior, integrated, centred):
    H = prior.size
    first, last = (0 if integrated else H), H + centred
    known = b_cov[first:last, first:last]
    entropy = 0.5 * (np.linalg.slogdet(known)[1] + len(known) * (1 + LOG_2PI))
    if np.isinf(prior).any():
        return -entropy
    second = np.diag(b_cov)[:H] * integrated + b[:H] ** 2
    return -entropy + 0.5 * np.sum(np.log(2 * np.pi * prior) + second / prior)
