"""Q of Eq. 14–20, the re-estimation of its factors, and the bound of Eq. 10, as the paper has them.

All five constants of the priors are 10⁻³. bayespca itself keeps no X and turns the latent space
after every sweep; this is what it is compared with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import numpy as np
from scipy.special import gammaln, psi

from bayespca import VariationalPCA

BROAD = 1e-3
LOG_2PI = np.log(2 * np.pi)
# Of central differences, in units of a parameter's own scale.
STEP = 1e-4


@dataclass(frozen=True)
class Posterior:
    """The parameters of Q: means and covariances of X, μ and rows of W; shapes and rates of α, τ.

    Rows of X share a covariance, rows of W another, and entries of μ a variance.
    """

    m_x: np.ndarray
    S_x: np.ndarray
    m_mu: np.ndarray
    s_mu: np.ndarray
    m_w: np.ndarray
    S_w: np.ndarray
    a_alpha: np.ndarray
    b_alpha: np.ndarray
    a_tau: np.ndarray
    b_tau: np.ndarray

    @property
    def tau(self) -> float:
        return float(self.a_tau / self.b_tau)

    @property
    def xx(self) -> np.ndarray:
        """Σ⟨xxᵀ⟩"""
        return self.m_x.T @ self.m_x + len(self.m_x) * self.S_x

    @property
    def ww(self) -> np.ndarray:
        """⟨WᵀW⟩"""
        return self.m_w.T @ self.m_w + len(self.m_w) * self.S_w

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """W from Eq. 18."""
        d, q = self.m_w.shape
        return self.m_w + rng.multivariate_normal(np.zeros(q), self.S_w, size=d)


def of_fit(model: VariationalPCA, T: np.ndarray) -> Posterior:
    """Q of a fitted model, from what it shows: ⟨W⟩, ⟨α⟩, ⟨μ⟩ and ⟨τ⟩.

    ⟨α⟩ gives ⟨‖wᵢ‖²⟩; the fit ends in coordinates in which the covariance of W is diagonal, so
    that its diagonal follows.
    """
    N, d = T.shape
    q = model.alpha_.size
    a_alpha, a_tau = BROAD + d / 2, BROAD + N * d / 2
    b_alpha, tau = a_alpha / model.alpha_, 1 / model.noise_variance_
    variances = (2 * (b_alpha - BROAD) - np.sum(model.weights_**2, axis=0)) / d
    found = Posterior(
        m_x=np.zeros((N, q)),
        S_x=np.eye(q),
        m_mu=model.mean_,
        s_mu=np.array(1 / (BROAD + N * tau)),
        m_w=model.weights_,
        S_w=np.diag(variances),
        a_alpha=np.full(q, a_alpha),
        b_alpha=b_alpha,
        a_tau=np.array(a_tau),
        b_tau=np.array(a_tau / tau),
    )
    return with_x(found, T)


def sweeps(T: np.ndarray, q: int, seed: int) -> Iterator[Posterior]:
    """The paper's cycle through the factors, from ⟨W⟩ ~ N(0, 1), ⟨α⟩ = 1 and the noise T has."""
    N, d = T.shape
    a_alpha, a_tau = BROAD + d / 2, BROAD + N * d / 2
    now = Posterior(
        m_x=np.zeros((N, q)),
        S_x=np.eye(q),
        m_mu=T.mean(axis=0),
        s_mu=np.array(0.0),
        m_w=np.random.default_rng(seed).standard_normal((d, q)),
        S_w=np.eye(q),
        a_alpha=np.full(q, a_alpha),
        b_alpha=np.full(q, a_alpha),
        a_tau=np.array(a_tau),
        b_tau=np.array(a_tau * T.var()),
    )
    while True:
        for update in (with_x, with_mu, with_w, with_alpha, with_tau):
            now = update(now, T)
        yield now


def with_x(now: Posterior, T: np.ndarray) -> Posterior:
    S_x = np.linalg.inv(np.eye(len(now.S_x)) + now.tau * now.ww)
    return replace(now, S_x=S_x, m_x=now.tau * (T - now.m_mu) @ now.m_w @ S_x)


def with_mu(now: Posterior, T: np.ndarray) -> Posterior:
    s_mu = 1 / (BROAD + len(T) * now.tau)
    total = np.sum(T - now.m_x @ now.m_w.T, axis=0)
    return replace(now, m_mu=now.tau * s_mu * total, s_mu=np.array(s_mu))


def with_w(now: Posterior, T: np.ndarray) -> Posterior:
    S_w = np.linalg.inv(np.diag(now.a_alpha / now.b_alpha) + now.tau * now.xx)
    return replace(now, S_w=S_w, m_w=now.tau * (T - now.m_mu).T @ now.m_x @ S_w)


def with_alpha(now: Posterior, T: np.ndarray) -> Posterior:
    return replace(now, b_alpha=BROAD + np.diag(now.ww) / 2)


def with_tau(now: Posterior, T: np.ndarray) -> Posterior:
    return replace(now, b_tau=np.array(BROAD + squares(now, T) / 2))


def squares(now: Posterior, T: np.ndarray) -> float:
    """Σ⟨‖t − Wx − μ‖²⟩, the sum of b_τ."""
    N, d = T.shape
    fitted = now.m_x @ now.m_w.T
    return float(
        np.sum(T**2)
        + N * (now.m_mu @ now.m_mu + d * now.s_mu)
        + np.sum(now.ww * now.xx)
        + 2 * np.sum(fitted * now.m_mu)
        - 2 * np.sum(T * fitted)
        - 2 * np.sum(T * now.m_mu)
    )


def bound(now: Posterior, T: np.ndarray) -> float:
    """⟨ln P(D, θ)⟩ − ⟨ln Q(θ)⟩ (Eq. 10), factor by factor of Eq. 15 and Eq. 16–20."""
    N, d = T.shape
    q = len(now.S_x)
    log_tau = psi(now.a_tau) - np.log(now.b_tau)
    alpha, log_alpha = now.a_alpha / now.b_alpha, psi(now.a_alpha) - np.log(now.b_alpha)
    of_mu = now.m_mu @ now.m_mu + d * now.s_mu
    terms = (
        (N * d * (log_tau - LOG_2PI) - now.tau * squares(now, T)) / 2,
        -(N * q * LOG_2PI + np.trace(now.xx)) / 2 + N * entropy(now.S_x),
        np.sum(d * (log_alpha - LOG_2PI) - alpha * np.diag(now.ww)) / 2 + d * entropy(now.S_w),
        (d * (np.log(BROAD) - LOG_2PI) - BROAD * of_mu) / 2 + d * entropy(now.s_mu[None, None]),
        np.sum(against_prior(now.a_alpha, now.b_alpha)),
        against_prior(now.a_tau, now.b_tau),
    )
    return float(sum(terms))


def entropy(S: np.ndarray) -> float:
    """Entropy of N(m, S)."""
    return 0.5 * (len(S) * (1 + LOG_2PI) + np.linalg.slogdet(S)[1])


def against_prior(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """⟨ln Γ(x|a₀, b₀)⟩ − ⟨ln Γ(x|a, b)⟩ over x ~ Γ(a, b), by Eq. 7 and 8."""
    x, log_x = a / b, psi(a) - np.log(b)
    prior = BROAD * np.log(BROAD) - gammaln(BROAD) + (BROAD - 1) * log_x - BROAD * x
    return prior - (a * np.log(b) - gammaln(a) + (a - 1) * log_x - b * x)


def derivatives(now: Posterior, T: np.ndarray) -> dict[str, float]:
    """The largest central difference of the bound over each group of parameters of Q, in nats.

    Per unit of a parameter's own scale: a mean's standard deviation, other parameters' values.
    """

    def moved(name: str, change: np.ndarray) -> float:
        return bound(replace(now, **{name: getattr(now, name) + change}), T)

    return {
        field.name: max(
            abs(moved(field.name, change) - moved(field.name, -change)) / (2 * STEP)
            for change in _changes(now, field.name)
        )
        for field in fields(now)
    }


def _changes(now: Posterior, name: str) -> Iterator[np.ndarray]:
    """A step in one entry after another; a covariance stays symmetric."""
    scale = _scale(now, name)
    is_covariance = name in ("S_x", "S_w")
    for place in np.ndindex(scale.shape):
        change = np.zeros(scale.shape)
        change[place] = STEP * scale[place]
        if is_covariance:
            change[place[::-1]] = change[place]
        yield change


def _scale(now: Posterior, name: str) -> np.ndarray:
    value = getattr(now, name)
    if name in ("S_x", "S_w"):
        deviations = np.sqrt(np.diag(value))
        return np.outer(deviations, deviations)
    variances = {"m_x": np.diag(now.S_x), "m_w": np.diag(now.S_w), "m_mu": now.s_mu}
    return np.broadcast_to(np.sqrt(variances[name]), value.shape) if name in variances else value
