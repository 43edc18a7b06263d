"""The model of icann1999, Section 3, written out, with densities from scipy.stats."""

from __future__ import annotations

import numpy as np
from scipy import stats

from bayespca.linear.gibbs.step import GibbsState
from bayespca.lowrank.variational import Hyper


def draw_prior(d: int, q: int, prior: Hyper, rng: np.random.Generator) -> GibbsState:
    alpha = rng.gamma(prior.a_alpha, 1 / prior.b_alpha, size=q)
    tau = rng.gamma(prior.a_tau, 1 / prior.b_tau)
    W = rng.normal(size=(d, q)) / np.sqrt(alpha)
    return GibbsState(W, alpha, float(tau), rng.normal(size=d) / np.sqrt(prior.beta))


def draw_data(state: GibbsState, n: int, rng: np.random.Generator) -> np.ndarray:
    d, q = state.W.shape
    X, noise = rng.normal(size=(n, q)), rng.normal(size=(n, d)) / np.sqrt(state.tau)
    return X @ state.W.T + state.mu + noise


def draw_latent(T: np.ndarray, state: GibbsState, rng: np.random.Generator) -> np.ndarray:
    """Draw xₙ given tₙ, W, μ, τ for every row, from the joint Gaussian of x and t."""
    W, q = state.W, state.W.shape[1]
    C = W @ W.T + np.eye(len(W)) / state.tau
    gain = W.T @ np.linalg.inv(C)
    covariance = np.eye(q) - gain @ W
    return (T - state.mu) @ gain.T + rng.multivariate_normal(np.zeros(q), covariance, size=len(T))


def log_prior(state: GibbsState, prior: Hyper) -> float:
    gammas = stats.gamma.logpdf(state.alpha, prior.a_alpha, scale=1 / prior.b_alpha).sum()
    gammas += stats.gamma.logpdf(state.tau, prior.a_tau, scale=1 / prior.b_tau)
    loadings = stats.norm.logpdf(state.W, scale=1 / np.sqrt(state.alpha)).sum()
    mean = stats.norm.logpdf(state.mu, scale=1 / np.sqrt(prior.beta)).sum()
    return float(gammas + loadings + mean)


def log_joint(T: np.ndarray, state: GibbsState, prior: Hyper) -> float:
    """log p(T, W, α, μ, τ) with the latent variables integrated out."""
    C = state.W @ state.W.T + np.eye(len(state.W)) / state.tau
    rows = stats.multivariate_normal.logpdf(T, state.mu, C, allow_singular=True)
    return float(np.sum(rows)) + log_prior(state, prior)


def log_complete(T: np.ndarray, X: np.ndarray, state: GibbsState, prior: Hyper) -> float:
    """log p(T, X, W, α, μ, τ)."""
    rows = stats.norm.logpdf(T, X @ state.W.T + state.mu, 1 / np.sqrt(state.tau)).sum()
    return float(rows + stats.norm.logpdf(X).sum()) + log_prior(state, prior)


def quantiles(log_density, grid: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Quantiles of a one-dimensional density, known up to a constant, on a fine grid."""
    values = np.array([log_density(y) for y in grid])
    mass = np.cumsum(np.exp(values - values.max()))
    return np.interp(probabilities, mass / mass[-1], grid)
