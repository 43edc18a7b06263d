"""The free energy of a factorization with holes, cell by cell, from its definition."""

from __future__ import annotations

import numpy as np

from bayespca.spectrum import VB

LOG_2PI = np.log(2 * np.pi)


def free_energy(
    X, a, a_cov, b, b_cov, prior_a, prior_b, s2, family=VB, centred=True, rows=None, columns=None
):
    """⟨−log p(X | A, B, μ)⟩ + KL(A) + KL(B, μ), where row i of a has covariance a_cov[i].

    Covariances of rows have weight (n − 1)/n, because the mean takes up one of n rows. The last
    column of b is μ, whose flat prior has density √nⱼ: μ contributes only that and its part of the
    entropy of r(b, μ). A point-estimated factor contributes −log of its prior density, not KL.

    With `rows` and `columns`, which have ⟨1/u⟩, ⟨log u⟩ and the divergence of r(u), cell (i, j) has
    noise variance s2·uᵢ·vⱼ. Means are then scaled like the data, by √⟨1/u⟩ and √⟨1/v⟩, and
    covariances are in units of the noise: given uᵢ, that of the scores is uᵢ·a_cov and their prior
    variance uᵢ·prior_a, so that uᵢ cancels in their divergence.
    """
    (n, p), seen = X.shape, ~np.isnan(X)
    w, log_u = _of_scales(rows, n)
    q, log_v = _of_scales(columns, p)
    share = 1 - centred * w / w.sum()
    total = 0.5 * np.sum(seen * (log_u[:, None] + log_v))
    for i, j in np.argwhere(seen):
        ones = np.append(a[i], np.sqrt(w[i]))
        x = X[i, j] * np.sqrt(w[i] * q[j])
        total += _cell(x, ones, share[i] * family.integrates_a * a_cov[i], b[j], b_cov[j], s2)
    for i in range(n):
        total += _row(a[i], a_cov[i], prior_a, share[i], family.integrates_a)
    for j in range(p):
        total += _column(b[j], b_cov[j], prior_b, family.integrates_b, centred)
        # The prior of μ is not in units of the noise, so its entropy adds ½⟨log v⟩.
        total -= centred * 0.5 * (log_v[j] + np.log(np.sum(seen[:, j])))
    return float(total + sum(scales.divergence for scales in (rows, columns) if scales is not None))


def _of_scales(scales, size):
    if scales is None:
        return np.ones(size), np.zeros(size)
    return scales.precision, scales.log_variance


def _cell(x, ones, a_cov, b, b_cov, s2):
    H = ones.size - 1
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
