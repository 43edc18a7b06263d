"""Views with likelihoods by definition: the free energy as sums over cells, rows and columns."""

from __future__ import annotations

import numpy as np

from oracles.binary_pca import normal_kl
from oracles.likelihoods import expected


def free_energy(x, view, kinds, parameters, rows, columns, prior, spread):
    """−⟨log p(x | z)⟩ + KL(A) + KL(B, μ).

    `rows` lists means and covariances of A, whose prior is N(0, 1); `columns` lists those of (B, μ)
    with all factors, which are 0 where `prior` (V, H) is. NaN in x marks holes.
    """
    H = prior.shape[1]
    F = sum(normal_kl(mean, cov, np.ones(H)) for mean, cov in rows)
    for (mean, cov), v in zip(columns, view, strict=True):
        there = np.append(np.flatnonzero(prior[v]), H)
        own = np.append(prior[v, there[:-1]], spread[v])
        F += normal_kl(mean[there], cov[np.ix_(there, there)], own)
    for i, j in np.argwhere(~np.isnan(x)):
        (a, a_cov), (b, b_cov) = rows[i], columns[j]
        mean, cov = np.append(a, 1.0), np.zeros((H + 1, H + 1))
        cov[:H, :H] = a_cov
        m = mean @ b
        v = np.trace((cov + np.outer(mean, mean)) @ (b_cov + np.outer(b, b))) - m * m
        value = x[i, j] if kinds[j] == "normal" else int(x[i, j])
        F -= expected(kinds[j], value, m, v, parameters[j])
    return float(F)
