"""The bound of Bishop's variational PCA from its definition: every cell and entry written out."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy import integrate, stats
from scipy.special import psi


def bound(T, m_x, cov_x, W, W_cov, b_alpha, b_tau, mu, mu_variance, hyper):
    """⟨ln P(D, X, W, α, μ, τ)⟩ − ⟨ln Q⟩, term by term (icann1999 Eq. 10, 15, 16–20).

    Cells of T that are NaN are holes. Covariances are either common to all rows of X or of W, or
    one for each row.
    """
    N, d = T.shape
    q = W.shape[1]
    cov_x, W_cov = np.broadcast_to(cov_x, (N, q, q)), np.broadcast_to(W_cov, (d, q, q))
    mu_variance = np.broadcast_to(mu_variance, d)
    shape_tau = hyper.a_tau + np.count_nonzero(~np.isnan(T)) / 2
    shape_alpha = hyper.a_alpha + d / 2
    tau, log_tau = shape_tau / b_tau, psi(shape_tau) - np.log(b_tau)
    total = 0.0
    for n, k in np.argwhere(~np.isnan(T)):
        xx = cov_x[n] + np.outer(m_x[n], m_x[n])
        ww = W_cov[k] + np.outer(W[k], W[k])
        square = T[n, k] ** 2 + np.sum(ww * xx) + mu[k] ** 2 + mu_variance[k]
        square += 2 * mu[k] * (W[k] @ m_x[n]) - 2 * T[n, k] * (W[k] @ m_x[n] + mu[k])
        total += 0.5 * (log_tau - np.log(2 * np.pi) - tau * square)
    for n in range(N):
        xx = cov_x[n] + np.outer(m_x[n], m_x[n])
        total += -0.5 * (q * np.log(2 * np.pi) + np.trace(xx)) + entropy(cov_x[n])
    for k in range(d):
        total += entropy(W_cov[k])
        for i in range(q):
            second = W[k, i] ** 2 + W_cov[k, i, i]
            if hyper.alpha is not None:
                total += 0.5 * (np.log(hyper.alpha / (2 * np.pi)) - hyper.alpha * second)
                continue
            alpha, log_alpha = shape_alpha / b_alpha[i], psi(shape_alpha) - np.log(b_alpha[i])
            total += 0.5 * (log_alpha - np.log(2 * np.pi) - alpha * second)
        if hyper.has_mean:
            square = mu[k] ** 2 + mu_variance[k]
            total += 0.5 * (np.log(hyper.beta / (2 * np.pi)) - hyper.beta * square)
            total += entropy(mu_variance[k, None, None])
    if hyper.alpha is None:
        for i in range(q):
            total -= gamma_kl(shape_alpha, b_alpha[i], hyper.a_alpha, hyper.b_alpha)
    return total - gamma_kl(shape_tau, b_tau, hyper.a_tau, hyper.b_tau)


def entropy(cov):
    """Entropy of a Gaussian."""
    return stats.multivariate_normal(np.zeros(len(cov)), cov).entropy() if len(cov) else 0.0


@cache
def gamma_kl(shape, rate, prior_shape, prior_rate):
    """KL of two Gamma distributions, by quadrature."""
    q, p = stats.gamma(shape, scale=1 / rate), stats.gamma(prior_shape, scale=1 / prior_rate)
    low, high = q.ppf(1e-13), q.isf(1e-13)

    def integrand(x):
        return q.pdf(x) * (q.logpdf(x) - p.logpdf(x))

    return integrate.quad(integrand, low, high, limit=400, points=[q.mean()])[0]
