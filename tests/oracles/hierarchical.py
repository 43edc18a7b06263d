"""The bound of Bishop's variational PCA from its definition: every sample and entry written out."""

from __future__ import annotations

import numpy as np
from scipy import integrate, stats
from scipy.special import psi


def bound(T, m_x, cov_x, W, W_cov, b_alpha, b_tau, mu, mu_variance, hyper):
    """⟨ln P(D, X, W, α, μ, τ)⟩ − ⟨ln Q⟩, term by term (icann1999 Eq. 10, 15, 16–20)."""
    N, d = T.shape
    q = W.shape[1]
    shape_tau, shape_alpha = hyper.a_tau + N * d / 2, hyper.a_alpha + d / 2
    tau, log_tau = shape_tau / b_tau, psi(shape_tau) - np.log(b_tau)
    total = 0.0
    for n in range(N):
        xx = cov_x + np.outer(m_x[n], m_x[n])
        total += -0.5 * (q * np.log(2 * np.pi) + np.trace(xx))
        for k in range(d):
            ww = W_cov + np.outer(W[k], W[k])
            square = T[n, k] ** 2 + np.sum(ww * xx) + mu[k] ** 2 + mu_variance
            square += 2 * mu[k] * (W[k] @ m_x[n]) - 2 * T[n, k] * (W[k] @ m_x[n] + mu[k])
            total += 0.5 * (log_tau - np.log(2 * np.pi) - tau * square)
        total += stats.multivariate_normal(np.zeros(q), cov_x).entropy()
    for k in range(d):
        total += stats.multivariate_normal(np.zeros(q), W_cov).entropy()
        for i in range(q):
            second = W[k, i] ** 2 + W_cov[i, i]
            if hyper.alpha is not None:
                total += 0.5 * (np.log(hyper.alpha / (2 * np.pi)) - hyper.alpha * second)
                continue
            alpha, log_alpha = shape_alpha / b_alpha[i], psi(shape_alpha) - np.log(b_alpha[i])
            total += 0.5 * (log_alpha - np.log(2 * np.pi) - alpha * second)
        if hyper.has_mean:
            square = mu[k] ** 2 + mu_variance
            total += 0.5 * (np.log(hyper.beta / (2 * np.pi)) - hyper.beta * square)
            total += stats.norm(0, np.sqrt(mu_variance)).entropy()
    if hyper.alpha is None:
        for i in range(q):
            total -= gamma_kl(shape_alpha, b_alpha[i], hyper.a_alpha, hyper.b_alpha)
    return total - gamma_kl(shape_tau, b_tau, hyper.a_tau, hyper.b_tau)


def gamma_kl(shape, rate, prior_shape, prior_rate):
    """By quadrature."""
    q, p = stats.gamma(shape, scale=1 / rate), stats.gamma(prior_shape, scale=1 / prior_rate)
    low, high = q.ppf(1e-13), q.isf(1e-13)

    def integrand(x):
        return q.pdf(x) * (q.logpdf(x) - p.logpdf(x))

    return integrate.quad(integrand, low, high, limit=400, points=[q.mean()])[0]
