"""The free energy of a mixture of PCAs, summed over rows and clusters; Gaussians with holes."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln


def free_energy(X, r, clusters, concentration):
    """F of complete data with responsibilities r.

    Each cluster has mean, W (k, p), shrinkage, noise, and c_a/s_a and c_b/s_b of each component,
    which are ratios of prior to posterior variance. The mean of a cluster takes up one of its rows;
    its prior is normal with the variances of the data.
    """
    n, p = X.shape
    variances = X.var(axis=0, ddof=1)
    total = 0.0
    for k, c in enumerate(clusters):
        of_rows = 0.0
        for i in range(n):
            d = X[i] - c["mean"]
            t = c["W"] @ d
            fit = (d @ d - c["shrinkage"] @ t**2) / c["noise"]
            of_rows += r[i, k] * 0.5 * (fit + _same_for_all(c, p))
        N = r[:, k].sum()
        loadings = 0.5 * p * np.log(c["ratio_b"]).sum()
        total += of_rows - 0.5 * _same_for_all(c, p) + loadings + _mean_cost(N, variances)
    entropy = -sum(q * np.log(q) for q in r.ravel() if q > 0)
    alpha = concentration + r.sum(axis=0)
    prior = np.full(alpha.size, concentration)
    return total - entropy + _log_beta(prior) - _log_beta(alpha) - _mean_cost(n, variances)


def _same_for_all(c, p):
    return p * np.log(2 * np.pi * c["noise"]) + np.log(c["ratio_a"]).sum()


def _mean_cost(N, variances):
    return 0.5 * (variances.size * np.log(N + 1) + np.log(2 * np.pi * variances).sum())


def _log_beta(alpha):
    return gammaln(alpha).sum() - gammaln(alpha.sum())


def log_density_of_seen(x, mean, covariance):
    """log N of the cells that are not NaN, by definition."""
    o = ~np.isnan(x)
    d, C = (x - mean)[o], covariance[np.ix_(o, o)]
    return -0.5 * (d @ np.linalg.solve(C, d) + np.linalg.slogdet(2 * np.pi * C)[1])


def conditional(x, mean, covariance):
    """Mean and covariance of all cells given those that are not NaN."""
    o = ~np.isnan(x)
    K = covariance[:, o] @ np.linalg.inv(covariance[np.ix_(o, o)])
    return mean + K @ (x - mean)[o], covariance - K @ covariance[o]
