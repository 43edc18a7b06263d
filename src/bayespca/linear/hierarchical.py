"""Bishop's variational principal components (icann1999) on sufficient statistics.

    t_n = W x_n + μ + ε,  x_n ~ N(0, I),  ε ~ N(0, τ⁻¹I),  μ ~ N(0, β⁻¹I),
    w_i ~ N(0, α_i⁻¹I),  α_i ~ Γ(a_α, b_α),  τ ~ Γ(a_τ, b_τ)

with Q(X)Q(W)Q(α)Q(μ)Q(τ), Eq. 16–20. Of N samples in d dimensions only the mean and the scatter
matrix enter, and the model does not change when features are turned: in the directions of the
scatter's eigenvectors it is diagonal, and a sweep costs K·q² for its K eigenvalues.

The mean of X and that of μ pull on each other slowly, so they are found together. After each sweep
the latent space is turned and stretched to where the bound is highest: ⟨xxᵀ⟩ white, ⟨WᵀW⟩ diagonal,
and a scale for each column, which is 1 but for the Gamma prior.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.special import gammaln, psi

from bayespca.inference import Info

FloatArray = NDArray[np.float64]

LOG_2PI = float(np.log(2 * np.pi))
# Squared mean over variance below which a column of W is switched off.
SWITCHED_OFF = 1e-2
START_NOISE = 0.1


@dataclass(frozen=True)
class Hyper:
    """Parameters of the priors; `alpha` fixes all αᵢ (the lecture's model has 1), else None.

    `has_mean` is False for a model without μ.
    """

    a_alpha: float = 1e-3
    b_alpha: float = 1e-3
    a_tau: float = 1e-3
    b_tau: float = 1e-3
    beta: float = 1e-3
    alpha: float | None = None
    has_mean: bool = True

    def in_units(self, unit: float) -> Hyper:
        """The same priors for data divided by `unit`."""
        u2 = unit * unit
        return replace(
            self,
            b_alpha=self.b_alpha / u2,
            b_tau=self.b_tau / u2,
            beta=self.beta * u2,
            alpha=None if self.alpha is None else self.alpha * u2,
        )


@dataclass(frozen=True, eq=False)
class Data:
    """Sums over samples, in the directions in which the scatter matrix is diagonal.

    `scatter` are its K eigenvalues, of the data less `mean` or of the data themselves where the
    model has no μ; `mean` has K entries and, where d > K, one more for its part in none of these
    directions.
    """

    N: int
    d: int
    scatter: FloatArray
    mean: FloatArray

    @property
    def padded(self) -> FloatArray:
        return np.append(self.scatter, np.zeros(self.mean.size - self.scatter.size))


@dataclass(frozen=True, eq=False)
class State:
    """Q(W): means (rows of W in the directions of `Data`) and the covariance of each row; Q(α) and
    Q(τ) by their second parameters; μ's mean.
    """

    W: FloatArray
    W_cov: FloatArray
    b_alpha: FloatArray
    b_tau: float
    mu: FloatArray


@dataclass(frozen=True, eq=False)
class Latent:
    """Q(X): its covariance, mean over samples, Σ⟨xxᵀ⟩ and Σ(t − ⟨μ⟩)⟨x⟩ᵀ."""

    cov: FloatArray
    mean: FloatArray
    second: FloatArray
    cross: FloatArray


def start(data: Data, hyper: Hyper, q: int, rng: np.random.Generator) -> State:
    """W from normal draws of the size of the data, τ from a tenth of their variance.

    More noise to begin with would switch off weak columns before it has fallen.
    """
    K = data.mean.size
    variance = float(data.scatter.sum()) / max(data.N * data.d, 1) or 1.0
    W = np.sqrt(variance / q) * rng.normal(size=(K, q)) if q else np.zeros((K, 0))
    return State(
        W=W,
        W_cov=np.zeros((q, q)),
        b_alpha=hyper.b_alpha + 0.5 * (W**2).sum(axis=0),
        b_tau=START_NOISE * variance * shape_tau(data, hyper),
        mu=data.mean * hyper.has_mean,
    )


def shape_tau(data: Data, hyper: Hyper) -> float:
    return hyper.a_tau + 0.5 * data.N * data.d


def shape_alpha(data: Data, hyper: Hyper) -> float:
    return hyper.a_alpha + 0.5 * data.d


def precision(state: State, data: Data, hyper: Hyper) -> float:
    """⟨τ⟩"""
    return shape_tau(data, hyper) / state.b_tau


def relevance(state: State, data: Data, hyper: Hyper) -> FloatArray:
    """⟨αᵢ⟩"""
    if hyper.alpha is not None:
        return np.full(state.b_alpha.size, hyper.alpha)
    return np.asarray(shape_alpha(data, hyper) / state.b_alpha)


def is_on(state: State, data: Data) -> NDArray[np.bool_]:
    """Which columns of W are not switched off."""
    mean = np.einsum("kq,kq->q", state.W, state.W)
    return np.asarray((mean > SWITCHED_OFF * data.d * np.diag(state.W_cov)) & (mean > 0))


# --- one sweep ---------------------------------------------------------------------------------


def step(state: State, data: Data, hyper: Hyper, *, settle: bool = True) -> tuple[State, Info]:
    """Q(X) and Q(μ), Q(W), the best coordinates, Q(α), Q(τ)."""
    state, latent = _update_latent(state, data, hyper)
    state = _update_weights(state, latent, data, hyper)
    if settle and state.b_alpha.size:
        state, latent = _settled(state, latent, data, hyper)
    state = replace(state, b_alpha=hyper.b_alpha + 0.5 * np.diag(_second_weights(state, data)))
    state = replace(state, b_tau=hyper.b_tau + 0.5 * _residual(state, latent, data, hyper))
    rank = int(np.count_nonzero(is_on(state, data)))
    noise = 1 / precision(state, data, hyper)
    return state, Info(-bound(state, latent, data, hyper), rank, noise)


def _update_latent(state: State, data: Data, hyper: Hyper) -> tuple[State, Latent]:
    """m_x = ⟨τ⟩Σ_x⟨W⟩ᵀ(t − m_μ) and m_μ = κ(t̄ − ⟨W⟩x̄), κ = N⟨τ⟩/(β + N⟨τ⟩), solved together."""
    tau, N, q = precision(state, data, hyper), data.N, state.b_alpha.size
    cov = _inverse(np.eye(q) + tau * _second_weights(state, data))
    pull = tau * cov @ state.W.T
    if hyper.has_mean:
        kappa = N * tau / (hyper.beta + N * tau)
        free = np.eye(q) - kappa * pull @ state.W
        mean = np.asarray(np.linalg.solve(free, (1 - kappa) * pull @ data.mean))
        mu = kappa * (data.mean - state.W @ mean)
        state = replace(state, mu=mu)
    else:
        mean = pull @ data.mean
    off = data.mean - state.mu
    scatter = data.padded
    first = pull * scatter  # Σ x̂(t − t̄)ᵀ
    second = N * cov + first @ pull.T + N * np.outer(mean, mean)
    cross = first.T + N * np.outer(off, mean)
    return state, Latent(cov, mean, second, cross)


def _update_weights(state: State, latent: Latent, data: Data, hyper: Hyper) -> State:
    """Σ_w = (diag⟨α⟩ + ⟨τ⟩Σ⟨xxᵀ⟩)⁻¹, ⟨W⟩ = ⟨τ⟩Σ(t − ⟨μ⟩)⟨x⟩ᵀΣ_w."""
    tau = precision(state, data, hyper)
    cov = _inverse(np.diag(relevance(state, data, hyper)) + tau * latent.second)
    return replace(state, W=tau * latent.cross @ cov, W_cov=cov)


def _second_weights(state: State, data: Data) -> FloatArray:
    """⟨WᵀW⟩"""
    return np.asarray(state.W.T @ state.W + data.d * state.W_cov)


def mean_variance(state: State, data: Data, hyper: Hyper) -> float:
    """Of each entry of μ, at the τ with which μ was last found."""
    return 1 / (hyper.beta + data.N * precision(state, data, hyper)) if hyper.has_mean else 0.0


def _residual(state: State, latent: Latent, data: Data, hyper: Hyper) -> float:
    """Σ⟨‖t − Wx − μ‖²⟩"""
    off = data.mean - state.mu
    centred = float(data.scatter.sum()) + data.N * float(off @ off)
    fitted = -2 * float(np.einsum("kq,kq->", latent.cross, state.W))
    product = float(np.einsum("ij,ij->", _second_weights(state, data), latent.second))
    spread = data.N * data.d * mean_variance(state, data, hyper)
    return centred + fitted + product + spread


def _inverse(matrix: FloatArray) -> FloatArray:
    """Of a positive definite matrix, symmetric to the last digit."""
    if not len(matrix):
        return matrix
    root = scipy.linalg.cho_factor(matrix, lower=True)
    inverse = scipy.linalg.cho_solve(root, np.eye(len(matrix)))
    return np.asarray(0.5 * (inverse + inverse.T))


# --- coordinates of the latent space -----------------------------------------------------------


def _settled(state: State, latent: Latent, data: Data, hyper: Hyper) -> tuple[State, Latent]:
    """W·R and R⁻¹x for the R with the highest bound, if that is higher than as things are.

    The bound depends on R as
    −½tr(R⁻¹SxxR⁻ᵀ) − (N − d) log|R| − (a_α + d/2) Σ log(b_α + ½(RᵀSwwR)ᵢᵢ),
    with −½α·tr(RᵀSwwR) in place of the last where α is fixed.
    """
    Sxx, Sww = latent.second, _second_weights(state, data)
    root = np.linalg.cholesky(Sxx / data.N)
    _, vectors = scipy.linalg.eigh(root.T @ Sww @ root)
    R = root @ vectors[:, ::-1]
    sizes = np.einsum("iq,ij,jq->q", R, Sww, R)
    R = R * np.sqrt(_best_squares(sizes, data, hyper))
    if _turned_bound(R, Sxx, Sww, data, hyper) < _turned_bound(None, Sxx, Sww, data, hyper):
        return state, latent
    back = np.linalg.inv(R)
    state = replace(state, W=state.W @ R, W_cov=R.T @ state.W_cov @ R)
    turned = Latent(
        back @ latent.cov @ back.T,
        back @ latent.mean,
        back @ Sxx @ back.T,
        latent.cross @ back.T,
    )
    return state, turned


def _best_squares(sizes: FloatArray, data: Data, hyper: Hyper) -> FloatArray:
    """u = f² of the best scale f of each column, once ⟨xxᵀ⟩/N = I and ⟨WᵀW⟩ = diag(sizes).

    N/u − (N − d) − (2a_α + d)·½us/(b_α + ½us) = 0, a quadratic equation in u; with α fixed
    N/u − (N − d) − αus = 0.
    """
    N, d = data.N, data.d
    if hyper.alpha is not None:
        A, B, C = hyper.alpha * sizes, np.full(sizes.size, float(d - N)), np.full(sizes.size, N)
    else:
        A = 0.5 * sizes * (N + 2 * hyper.a_alpha)
        B = 0.5 * N * sizes - (N - d) * hyper.b_alpha
        C = np.full(sizes.size, N * hyper.b_alpha)
    root = np.sqrt(B * B + 4 * A * C)
    # The two forms of the root: the one without cancellation.
    return np.asarray(np.where(B > 0, (B + root) / (2 * A), 2 * C / (root - B)))


def _turned_bound(
    R: FloatArray | None, Sxx: FloatArray, Sww: FloatArray, data: Data, hyper: Hyper
) -> float:
    """The part of the bound that depends on the coordinates."""
    log_det = 0.0
    if R is not None:
        back = np.linalg.inv(R)
        Sxx, Sww = back @ Sxx @ back.T, R.T @ Sww @ R
        log_det = float(np.linalg.slogdet(R)[1])
    sizes = np.diag(Sww)
    if hyper.alpha is not None:
        weights = -0.5 * hyper.alpha * float(sizes.sum())
    else:
        weights = -shape_alpha(data, hyper) * float(np.log(hyper.b_alpha + 0.5 * sizes).sum())
    return -0.5 * float(np.trace(Sxx)) - (data.N - data.d) * log_det + weights


# --- the bound ---------------------------------------------------------------------------------


def bound(state: State, latent: Latent, data: Data, hyper: Hyper) -> float:
    """L(Q) = ⟨ln P(D, X, W, α, μ, τ)⟩ − ⟨ln Q⟩ (Eq. 10), term by term."""
    N, d, q = data.N, data.d, state.b_alpha.size
    tau = precision(state, data, hyper)
    log_tau = float(psi(shape_tau(data, hyper)) - np.log(state.b_tau))
    likelihood = 0.5 * (N * d * (log_tau - LOG_2PI) - tau * _residual(state, latent, data, hyper))
    of_x = -0.5 * float(np.trace(latent.second)) + 0.5 * N * (_log_det(latent.cov) + q)
    total = likelihood + of_x + _bound_of_weights(state, data, hyper)
    total -= _gamma_kl(shape_tau(data, hyper), np.array([state.b_tau]), hyper.a_tau, hyper.b_tau)
    if hyper.has_mean:
        v = mean_variance(state, data, hyper)
        square = float(state.mu @ state.mu) + d * v
        total += 0.5 * d * (np.log(hyper.beta) + np.log(v) + 1) - 0.5 * hyper.beta * square
    return float(total)


def _bound_of_weights(state: State, data: Data, hyper: Hyper) -> float:
    """⟨ln P(W|α)P(α)⟩ − ⟨ln Q(W)Q(α)⟩"""
    d, q = data.d, state.b_alpha.size
    alpha = relevance(state, data, hyper)
    entropy = 0.5 * d * (_log_det(state.W_cov) + q)
    quadratic = -0.5 * float(alpha @ np.diag(_second_weights(state, data)))
    if hyper.alpha is not None:
        return 0.5 * d * q * float(np.log(hyper.alpha)) + quadratic + entropy
    shape = shape_alpha(data, hyper)
    log_alpha = float((psi(shape) - np.log(state.b_alpha)).sum())
    kl = _gamma_kl(shape, state.b_alpha, hyper.a_alpha, hyper.b_alpha)
    return 0.5 * d * log_alpha + quadratic + entropy - kl


def _gamma_kl(shape: float, rate: FloatArray, prior_shape: float, prior_rate: float) -> float:
    """Σ KL(Γ(shape, rate) ‖ Γ(prior_shape, prior_rate))"""
    kl = (
        (shape - prior_shape) * psi(shape)
        - gammaln(shape)
        + gammaln(prior_shape)
        + prior_shape * (np.log(rate) - np.log(prior_rate))
        + shape * (prior_rate - rate) / rate
    )
    return float(np.sum(kl))


def _log_det(matrix: FloatArray) -> float:
    return float(np.linalg.slogdet(matrix)[1]) if len(matrix) else 0.0
