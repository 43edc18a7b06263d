"""Likelihoods of cells from SciPy's distributions, and averages over z on fine grids."""

from __future__ import annotations

import numpy as np
from scipy import stats
from scipy.special import expit

from oracles.binary_pca import average, normal_kl


def normal(x, z, log_s2):
    return stats.norm.logpdf(x, z, np.exp(log_s2 / 2))


def bernoulli(x, z):
    return stats.bernoulli.logpmf(x, expit(z))


def poisson(x, z):
    return stats.poisson.logpmf(x, np.exp(z))


def negative_binomial(x, z, log_r):
    r = np.exp(log_r)
    return stats.nbinom.logpmf(x, r, r / (r + np.exp(z)))


def ordinal(x, z, *log_gaps):
    """Log probability of an ordinal value, with the middle cut point at 0."""
    gaps = np.exp(np.array(log_gaps))
    cuts = np.concatenate([[0.0], np.cumsum(gaps)])
    cuts = np.concatenate([[-np.inf], cuts - cuts[len(gaps) // 2], [np.inf]])
    return np.log(expit(cuts[x + 1] - z) - expit(cuts[x] - z))


LOG_PROBABILITIES = {
    "normal": normal,
    "bernoulli": bernoulli,
    "poisson": poisson,
    "negative-binomial": negative_binomial,
    "ordinal": ordinal,
}


def expected(name, x, m, v, parameters):
    """⟨log p(x | z)⟩ over z ~ N(m, v)."""
    known = [one for one in parameters if not np.isnan(one)]
    return average(lambda z: LOG_PROBABILITIES[name](x, z, *known), m, v)


def free_energy(x, kinds, parameters, state):
    """−Σ⟨log p(x | z)⟩, z normal with its mean and variance, plus KL of every row and column.

    `kinds` and `parameters` have one entry per column; NaN in x marks holes.
    """
    rows, columns = state.rows, state.columns
    H = state.prior.size
    F = sum(normal_kl(rows.mean[i], rows.matrices[i], state.prior) for i in range(len(x)))
    prior = np.append(state.prior, state.spread)
    F += sum(
        normal_kl(columns.mean[j], columns.matrices[j], prior) for j in range(len(columns.mean))
    )
    for i, j in np.argwhere(~np.isnan(x)):
        mean = np.append(rows.mean[i], 1.0)
        cov = np.zeros((H + 1, H + 1))
        cov[:H, :H] = rows.matrices[i]
        m = mean @ columns.mean[j]
        second = columns.matrices[j] + np.outer(columns.mean[j], columns.mean[j])
        v = np.trace((cov + np.outer(mean, mean)) @ second) - m * m
        value = x[i, j] if kinds[j] == "normal" else int(x[i, j])
        F -= expected(kinds[j], value, m, v, parameters[j])
    return float(F)


def row_posterior(x, b, prior, kinds, parameters):
    """log ∫p(x | a)p(a)da of a row with one score, given loadings (p, 2), and the posterior mean
    and standard deviation of the score, by sums over a fine grid.
    """
    grid = np.linspace(-10, 10, 20_001) * np.sqrt(prior)
    logs = stats.norm.logpdf(grid, 0, np.sqrt(prior))
    for j in np.flatnonzero(~np.isnan(x)):
        value = x[j] if kinds[j] == "normal" else int(x[j])
        known = [one for one in parameters[j] if not np.isnan(one)]
        logs = logs + LOG_PROBABILITIES[kinds[j]](value, b[j, 0] * grid + b[j, 1], *known)
    weights = np.exp(logs - logs.max())
    total = weights.sum()
    mean = (weights @ grid) / total
    std = np.sqrt((weights @ (grid - mean) ** 2) / total)
    return float(logs.max() + np.log(total * (grid[1] - grid[0]))), mean, std
