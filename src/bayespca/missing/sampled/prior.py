"""Hyperpriors of users and items, and draws of the parameters of their priors.

Salakhutdinov and Mnih, "Bayesian probabilistic matrix factorization using Markov chain Monte Carlo"
(ICML 2008), with the biases among the factors: rows θᵢ = (aᵢ, uᵢ) ~ N(μ, Λ⁻¹),

    Λ ~ Wishart(W, ν₀), W⁻¹ = ν₀·s·I, ν₀ = K + excess,    μ ~ N(0, (β₀Λ)⁻¹),

likewise for columns, and noise of precision ταᵢβⱼ with τ ~ Γ(a, b). If users and items have noise
of their own, αᵢ, βⱼ ~ Γ(½ν, ½ν), with mean 1; each side has its own ν, which is one of several
equally probable values. The larger ν is, the more alike are the noise levels of that side.

If rows have features f, the mean of the prior is linear in them, θᵢ ~ N(μ + Bᵀfᵢ, Λ⁻¹), with
coefficients B ~ MN(0, (λI)⁻¹, Λ⁻¹) and λ ~ Γ(1, 1) (Simm et al., "Macau: scalable Bayesian
factorization with high-dimensional side information using MCMC", MLSP 2017).

With implicit feedback, the mean of a user is linear in which items they have rated. In SVD++
(Koren, "Factorization meets the neighborhood: a multifaceted collaborative filtering model", KDD
2008) a user's factors are shifted by vectors of all items that they have rated. Here the shift is
in the mean of the prior and includes biases, and items are shifted by who rated them:

    θᵢ ~ N(μ + Σⱼ fᵢⱼyⱼ, Λ⁻¹),    fᵢⱼ = [i rated j]/√Nᵢ − f̄ⱼ,    yⱼ ~ N(0, (λΛ)⁻¹).

f̄ⱼ is the mean over ratings, so that μ is the mean for the user of a random rating, and for a user
of whom nothing is known. Each yⱼ is drawn given the others, in time proportional to the number of
ratings; a draw of all at once would need a matrix of all pairs of columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from bayespca.arrays.packing import wishart_root
from bayespca.arrays.types import FloatArray, Matrix, Vector
from bayespca.missing.ratings.kernels import MANY

from .features import Features, Rated, products

# Values of ν, from noise levels that differ by factors to levels that are practically equal.
NUS = tuple(float(f"{nu:.3g}") for nu in np.geomspace(4, 1000, 25))


@dataclass(frozen=True)
class SampledPrior:
    """Constants for ratings with a variance of 1: s, β₀, excess, a and b, and a and b of drifts.

    `nus` are the values that ν may take, none if all cells have the same noise.
    """

    scale: float = 0.01
    beta: float = 2.0
    excess: float = 0.0
    a_tau: float = 1e-3
    b_tau: float = 1e-3
    nus: tuple[float, ...] = NUS
    a_drift: float = 1.0
    b_drift: float = 0.01


@dataclass(frozen=True, eq=False)
class NormalPrior:
    """N(μ, Λ⁻¹) of the rows of one side."""

    mean: Vector
    precision: Matrix

    def pull(self, shift: FloatArray) -> FloatArray:
        """Λ(μ + Bᵀf) of each row, for its shift Bᵀf (n, K)."""
        return np.asarray((self.mean + shift) @ self.precision)


@dataclass(frozen=True, eq=False)
class LinearMean:
    """Coefficients of the prior mean for p features: B (p, K) and λ."""

    weights: Matrix
    ridge: float = 1.0

    @classmethod
    def none(cls, p: int, K: int) -> LinearMean:
        return cls(np.zeros((p, K)))


def drawn_prior(
    theta: FloatArray, prior: SampledPrior, rng: np.random.Generator, *linear: LinearMean
) -> NormalPrior:
    """Draw μ and Λ given n rows `theta`, from which all Bᵀf are subtracted, and all B.

    They are normal–Wishart with ν₀ + n + Σp degrees of freedom and inverse scale matrix

        W⁻¹ + Σ(θ − θ̄)(θ − θ̄)ᵀ + β₀n/(β₀ + n)·θ̄θ̄ᵀ + ΣλBᵀB,

    then μ ~ N(nθ̄/(β₀ + n), ((β₀ + n)Λ)⁻¹).
    """
    n, K = theta.shape
    dof = K + prior.excess
    mean = theta.sum(axis=0) / max(n, 1)
    off = theta - mean
    inverse = off.T @ off + prior.beta * n / (prior.beta + n) * np.outer(mean, mean)
    inverse[range(K), range(K)] += dof * prior.scale
    for one in linear:
        inverse += one.ridge * one.weights.T @ one.weights
    dof_given = dof + n + sum(len(one.weights) for one in linear)
    half = wishart_root(dof_given, K, rng) @ np.linalg.inv(np.linalg.cholesky(inverse))
    precision = half.T @ half
    root = np.linalg.cholesky((prior.beta + n) * precision)
    spread = np.linalg.solve(root.T, rng.normal(size=K))
    return NormalPrior(n * mean / (prior.beta + n) + spread, precision)


def drawn_linear(
    theta: FloatArray,
    features: Features,
    prior: NormalPrior,
    now: LinearMean,
    rng: np.random.Generator,
) -> LinearMean:
    """Draw B ~ MN((FᵀF + λI)⁻¹Fᵀ(θ − μ), (FᵀF + λI)⁻¹, Λ⁻¹), then λ."""
    p, K = now.weights.shape
    if not p:
        return now
    gram, crossed = products(features, theta - prior.mean)
    root = np.linalg.cholesky(gram + now.ridge * np.eye(p))
    half = np.linalg.solve(root, crossed)
    half += rng.normal(size=(p, K)) @ np.linalg.inv(np.linalg.cholesky(prior.precision))
    B = np.linalg.solve(root.T, half)
    return LinearMean(B, drawn_ridge(B, prior, rng))


def drawn_ridge(B: FloatArray, prior: NormalPrior, rng: np.random.Generator) -> float:
    """Draw λ ~ Γ(1 + ½pK, 1 + ½ tr BΛBᵀ)."""
    rate = 1 + 0.5 * float(np.sum((B @ prior.precision) * B))
    return float(rng.standard_gamma(1 + 0.5 * B.size) / rate)


def drawn_nu(weights: FloatArray, prior: SampledPrior, rng: np.random.Generator) -> float:
    """Draw ν given the weights of one side; 0 if these are fixed at 1.

    log p = n(g log g − log Γ(g)) + g Σ(log α − α) + const with g = ½ν
    """
    if not prior.nus:
        return 0.0
    g = 0.5 * np.array(prior.nus)
    total = float(np.sum(np.log(weights) - weights))
    log_p = weights.size * (g * np.log(g) - gammaln(g)) + g * total
    p = np.exp(log_p - log_p.max())
    return prior.nus[int(rng.choice(g.size, p=p / p.sum()))]


class Shifted(NamedTuple):
    """The draw of y and λ, and the shift Σⱼ fᵢⱼyⱼ of each row (n, K) that follows from it."""

    mean: LinearMean
    shift: FloatArray


def drawn_implicit(
    rest: FloatArray, rated: Rated, prior: NormalPrior, now: Shifted, rng: np.random.Generator
) -> Shifted:
    """Draw each yⱼ in turn, then λ, given `rest`, the rows minus the rest of their mean, θ − μ − …:

    yⱼ ~ N(Σᵢ fᵢⱼ(rᵢ + fᵢⱼyⱼ)/(λ + Σᵢ fᵢⱼ²), ((λ + Σᵢ fᵢⱼ²)Λ)⁻¹),    r = rest − Σⱼ fᵢⱼyⱼ.
    """
    y, ridge = now.mean.weights, now.mean.ridge
    if not len(y):
        return now
    root = np.linalg.inv(np.linalg.cholesky(prior.precision))
    noise = rng.normal(size=y.shape) @ root / np.sqrt(ridge + rated.squares)[:, None]
    rest = rest * rated.active[:, None]
    if rated.own.n_rows < MANY:
        found, left = implicit_by_numpy(rest - now.shift, rated, now.mean, noise)
    else:
        # numba takes a second to import.
        from .compiled import implicit_by_loops

        found, left = implicit_by_loops(rest - now.shift, rated, now.mean, noise)
    # The shift follows from the residuals without another pass over the ratings.
    return Shifted(LinearMean(found, drawn_ridge(found, prior, rng)), rest - left)


def implicit_by_numpy(
    left: FloatArray, rated: Rated, now: LinearMean, noise: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Draw y column by column, with fᵢⱼ written out, and return it with the residuals of rows.

    `left` holds the residuals under the present y, which are 0 for rows without ratings.
    """
    y, left = now.weights.copy(), left.copy()
    for j in range(len(y)):
        f = -rated.centre[j] * rated.active
        there = rated.other.other[rated.other.starts[j] : rated.other.starts[j + 1]]
        f[there] += rated.scale[there]
        total = rated.squares[j]
        change = (f @ left + total * y[j]) / (now.ridge + total) + noise[j] - y[j]
        y[j] += change
        left -= np.outer(f, change)
    return y, left
