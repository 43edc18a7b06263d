"""Likelihoods of cells by SciPy's distributions, and averages over z by fine grids."""

from __future__ import annotations

import numpy as np
from scipy import stats
from scipy.special import expit

from oracles.binary_pca import average


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
    """Cut points with the middle one at 0."""
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
