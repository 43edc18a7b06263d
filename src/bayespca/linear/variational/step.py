"""Bishop's variational principal components (icann1999) on sufficient statistics.

    t_n = W x_n + μ + ε,  x_n ~ N(0, I),  ε ~ N(0, τ⁻¹I),  μ ~ N(0, β⁻¹I),
    w_i ~ N(0, α_i⁻¹I),  α_i ~ Γ(a_α, b_α),  τ ~ Γ(a_τ, b_τ)

with Q(X)Q(W)Q(α)Q(μ)Q(τ), Eq. 16–20. Only the mean and the scatter matrix of the N samples in d
dimensions enter, and the model is invariant to rotations of the features: along the eigenvectors of
the scatter matrix it is diagonal, and a sweep costs K·q² for its K eigenvalues.

Alternating updates of the means of X and μ would converge slowly, so they are solved together.
After each sweep the latent space is turned and stretched to where the bound is highest: ⟨xxᵀ⟩
white, ⟨WᵀW⟩ diagonal, and a scale for each column, which would be 1 without the Gamma prior.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import FloatArray, Input
from bayespca.engines.decomposing import decompose
from bayespca.engines.records import Decomposition
from bayespca.inference.loop import Info
from bayespca.lowrank import variational as shared
from bayespca.lowrank.variational import Counts, Hyper, shape_tau
from bayespca.spectrum.forms import EVERYTHING
from bayespca.spectrum.solving import solve
from bayespca.spectrum.tolerances import CANCELS, ROUNDING, ROUNDING_OF_DEVIATIONS, START_NOISE


@dataclass(frozen=True, eq=False)
class Scatter:
    """Sums over samples, in the directions in which the scatter matrix is diagonal.

    `scatter` are its K eigenvalues, for the data less `mean`, or for the data themselves where the
    model has no μ; `mean` has K entries, and one more for its part outside these directions if it
    has one.
    """

    N: int
    d: int
    scatter: FloatArray
    mean: FloatArray

    @property
    def counts(self) -> Counts:
        return Counts(self.N, self.d, self.N * self.d)

    @property
    def padded(self) -> FloatArray:
        return np.append(self.scatter, np.zeros(self.mean.size - self.scatter.size))


@dataclass(frozen=True, eq=False)
class VariationalData(Scatter):
    """A `Scatter` in units of `unit`, with the decomposition that it comes from.

    `basis` has the directions as rows.
    """

    found: Decomposition
    basis: FloatArray
    unit: float


def variational_data(X: Input, *, center: bool, engine: str = "auto") -> VariationalData:
    """Decompose an array, a sparse matrix or a source of blocks."""
    found = decompose(X, plan=solve, center=center, engine=engine, n_needed=EVERYTHING)
    spectrum = found.spectrum
    unit = float(np.sqrt(spectrum.sum_of_squares / np.prod(spectrum.shape)))
    unit = unit * spectrum.scale or 1.0
    gamma = spectrum.singular_values * (spectrum.scale / unit)
    right = to_numpy(found.right(gamma.size)).astype(np.float64)
    live = np.any(right != 0, axis=0)
    mean = np.where(live, to_numpy(found.mean).astype(np.float64), 0.0) / unit
    along = right @ mean
    rest = mean - along @ right
    size = float(np.linalg.norm(rest))
    if size > ROUNDING_OF_DEVIATIONS * float(np.linalg.norm(mean)):
        # One more direction, for the part of the mean outside the others.
        right, along = np.concatenate([right, rest[None, :] / size]), np.append(along, size)
    return VariationalData(
        found.n_samples, spectrum.shape[0], gamma**2, along, found=found, basis=right, unit=unit
    )


@dataclass(frozen=True, eq=False)
class VariationalState:
    """Q(W): means (rows of W in the directions of `Scatter`) and the covariance of each row; Q(α)
    and Q(τ) by their second parameters; μ's mean. `height` is the bound, where it is known.
    """

    W: FloatArray
    W_cov: FloatArray
    b_alpha: FloatArray
    b_tau: float
    mu: FloatArray
    height: float = -np.inf


@dataclass(frozen=True, eq=False)
class ScatterLatent:
    """Q(X): its covariance, mean over samples, Σ⟨xxᵀ⟩ and Σ(t − ⟨μ⟩)⟨x⟩ᵀ; ⟨x⟩ is its mean plus
    `pull`·(t − t̄).
    """

    cov: FloatArray
    mean: FloatArray
    second: FloatArray
    cross: FloatArray
    pull: FloatArray


def precision(state: VariationalState, data: Scatter, hyper: Hyper) -> float:
    """⟨τ⟩"""
    return shared.precision(state.b_tau, data.counts, hyper)


def relevance(state: VariationalState, data: Scatter, hyper: Hyper) -> FloatArray:
    """⟨αᵢ⟩"""
    return shared.relevance(state.b_alpha, data.counts, hyper)


def is_on(state: VariationalState, data: Scatter) -> NDArray[np.bool_]:
    """Mask of the columns of W that are not switched off."""
    return shared.is_on(state.W, data.d * np.diag(state.W_cov))


# --- one sweep ---------------------------------------------------------------------------------


def step(
    state: VariationalState, data: Scatter, hyper: Hyper, *, settle: bool = True
) -> tuple[VariationalState, Info]:
    """A sweep: the new state, and its `Info`."""
    new = sweep(state, data, hyper, settle=settle)
    rank = int(np.count_nonzero(is_on(new, data)))
    return new, Info(-new.height, rank, 1 / precision(new, data, hyper))


def sweep(
    state: VariationalState, data: Scatter, hyper: Hyper, *, settle: bool = True
) -> VariationalState:
    """Update Q(X) and Q(μ), Q(W), the coordinates, Q(α) and Q(τ), in this order."""
    state, latent = update_latent(state, data, hyper)
    # Σ_w = (diag⟨α⟩ + ⟨τ⟩Σ⟨xxᵀ⟩)⁻¹, ⟨W⟩ = ⟨τ⟩Σ(t − ⟨μ⟩)⟨x⟩ᵀΣ_w.
    tau = precision(state, data, hyper)
    cov = _inverse(np.diag(relevance(state, data, hyper)) + tau * latent.second)
    state = replace(state, W=tau * latent.cross @ cov, W_cov=cov)
    if settle and state.b_alpha.size:
        state, latent = _settled(state, latent, data, hyper)
    state = replace(state, b_alpha=hyper.b_alpha + 0.5 * np.diag(_second_weights(state, data)))
    # b_τ + ½Σ⟨‖t − Wx − μ‖²⟩. The bound falls on both sides of its maximum, so that sweeps never
    # lower it, even where data without noise are at the lower limit.
    least = ROUNDING * _squares_about(state, data)
    left = max(_residual(state, latent, data, hyper), least)
    state = replace(state, b_tau=hyper.b_tau + 0.5 * left)
    return replace(state, height=bound(state, latent, data, hyper))


def update_latent(
    state: VariationalState, data: Scatter, hyper: Hyper
) -> tuple[VariationalState, ScatterLatent]:
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
    return state, ScatterLatent(cov, mean, second, cross, pull)


def _second_weights(state: VariationalState, data: Scatter) -> FloatArray:
    """⟨WᵀW⟩"""
    return np.asarray(state.W.T @ state.W + data.d * state.W_cov)


def mean_variance(state: VariationalState, data: Scatter, hyper: Hyper) -> float:
    """Variance of each entry of μ, at the τ with which μ was last found."""
    return 1 / (hyper.beta + data.N * precision(state, data, hyper)) if hyper.has_mean else 0.0


def _squares_about(state: VariationalState, data: Scatter) -> float:
    """Σ‖t − ⟨μ⟩‖²"""
    off = data.mean - state.mu
    return float(data.scatter.sum()) + data.N * float(off @ off)


def _residual(state: VariationalState, latent: ScatterLatent, data: Scatter, hyper: Hyper) -> float:
    """Σ⟨‖t − Wx − μ‖²⟩, from Σ⟨xxᵀ⟩ and Σ(t − μ)⟨x⟩ᵀ unless cancellation leaves hardly a digit."""
    squares = _squares_about(state, data)
    fitted = -2 * float(np.einsum("kq,kq->", latent.cross, state.W))
    product = float(np.einsum("ij,ij->", _second_weights(state, data), latent.second))
    spread = data.N * data.d * mean_variance(state, data, hyper)
    left = squares + fitted + product
    return spread + (left if left > CANCELS * squares else _small_residual(state, latent, data))


def _small_residual(state: VariationalState, latent: ScatterLatent, data: Scatter) -> float:
    """Σ⟨‖t − Wx − ⟨μ⟩‖²⟩ as a sum of positive terms, at a cost of K²·q instead of K·q."""
    rest = -state.W @ latent.pull
    rest[np.diag_indices_from(rest)] += 1.0
    off = data.mean - state.mu - state.W @ latent.mean
    of_means = float(np.einsum("ij,ij,j->", rest, rest, data.padded)) + data.N * float(off @ off)
    of_latent = data.N * np.einsum("ij,ij->", state.W.T @ state.W, latent.cov)
    return of_means + float(of_latent + data.d * np.einsum("ij,ij->", state.W_cov, latent.second))


def _inverse(matrix: FloatArray) -> FloatArray:
    """The inverse of a positive definite matrix, symmetric to the last digit.

    It uses Cholesky's factor, because entries of a precision differ by many orders of magnitude
    where columns are switched off.
    """
    if not len(matrix):
        return matrix
    root = scipy.linalg.cho_factor(matrix, lower=True)
    inverse = scipy.linalg.cho_solve(root, np.eye(len(matrix)))
    return np.asarray(0.5 * (inverse + inverse.T))


# --- coordinates of the latent space -----------------------------------------------------------


def _settled(
    state: VariationalState, latent: ScatterLatent, data: Scatter, hyper: Hyper
) -> tuple[VariationalState, ScatterLatent]:
    """The latent space turned and stretched to where the bound is highest."""
    R = shared.best_turn(latent.second, _second_weights(state, data), data.counts, hyper)
    if R is None:
        return state, latent
    back = np.linalg.inv(R)
    state = replace(state, W=state.W @ R, W_cov=R.T @ state.W_cov @ R)
    turned = ScatterLatent(
        back @ latent.cov @ back.T,
        back @ latent.mean,
        back @ latent.second @ back.T,
        latent.cross @ back.T,
        back @ latent.pull,
    )
    return state, turned


# --- the bound ---------------------------------------------------------------------------------


def bound(state: VariationalState, latent: ScatterLatent, data: Scatter, hyper: Hyper) -> float:
    """L(Q) = ⟨ln P(D, X, W, α, μ, τ)⟩ − ⟨ln Q⟩ (Eq. 10), term by term."""
    N, d, q, counts = data.N, data.d, state.b_alpha.size, data.counts
    sizes = np.diag(_second_weights(state, data))
    residual = _residual(state, latent, data, hyper)
    total = shared.bound_of_data(residual, state.b_tau, counts, hyper)
    trace, log_det = float(np.trace(latent.second)), N * _log_det(latent.cov)
    total += shared.bound_of_latent(trace, log_det, N * q)
    log_det = d * _log_det(state.W_cov)
    total += shared.bound_of_weights(sizes, log_det, state.b_alpha, counts, hyper)
    if hyper.has_mean:
        v = mean_variance(state, data, hyper)
        square = float(state.mu @ state.mu) + d * v
        total += shared.bound_of_mean(square, d * float(np.log(v)), counts, hyper)
    return total


def _log_det(matrix: FloatArray) -> float:
    return float(np.linalg.slogdet(matrix)[1]) if len(matrix) else 0.0


def start(data: Scatter, hyper: Hyper, q: int, rng: np.random.Generator) -> VariationalState:
    """W from normal draws of the size of the data, τ from a tenth of their variance."""
    K = data.mean.size
    variance = float(data.scatter.sum()) / max(data.N * data.d, 1) or 1.0
    W = np.sqrt(variance / q) * rng.normal(size=(K, q)) if q else np.zeros((K, 0))
    return VariationalState(
        W=W,
        W_cov=np.zeros((q, q)),
        b_alpha=hyper.b_alpha + 0.5 * (W**2).sum(axis=0),
        b_tau=START_NOISE * variance * shape_tau(data.counts, hyper),
        mu=data.mean * hyper.has_mean,
    )
