"""The parts of Bishop's variational model (icann1999) that do not depend on how data are stored.

    t_n = W x_n + μ + ε,  x_n ~ N(0, I),  ε ~ N(0, τ⁻¹I),  μ ~ N(0, β⁻¹I),
    w_i ~ N(0, α_i⁻¹I),  α_i ~ Γ(a_α, b_α),  τ ~ Γ(a_τ, b_τ)

These are Q(α) and Q(τ), the terms of the bound (Eq. 10), and the coordinates of the latent space in
which the bound is highest. Models of data with and without holes form sums over samples themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, psi

from bayespca.arrays.types import FloatArray
from bayespca.inference.loop import Run
from bayespca.inference.model import Model
from bayespca.spectrum.tolerances import LEAST_NOISE_AT_START, LOG_2PI, SWITCHED_OFF

from .holes_posterior import HolesPosterior, from_columns
from .records import VariationalFit
from .rows import Columns

# Parameter of nearly uninformative priors, for data whose noise and mean are of the order of 1.
BROAD = 1e-3


@dataclass(frozen=True)
class Hyper:
    """Parameters of the priors; `alpha` fixes all αᵢ (at 1 in the lecture's model) unless None.

    `has_mean` is False for a model without μ. Parameters that `open` names are set from the data
    (`suiting`).
    """

    a_alpha: float = BROAD
    b_alpha: float = BROAD
    a_tau: float = BROAD
    b_tau: float = BROAD
    beta: float = BROAD
    alpha: float | None = None
    has_mean: bool = True
    open: tuple[str, ...] = ()

    def suiting(
        self, noise: float, deviation: float, mean: FloatArray, *, of_columns: float = BROAD
    ) -> Hyper:
        """Make open priors so broad that they are uninformative, whatever the units of the data.

        The rate of τ is a thousandth of the `noise` variance and that of α is `of_columns` times
        it; neither falls below the level of rounding errors, given the root mean square `deviation`
        of the data. The prior variance of μ is a thousand times the mean square of the data.
        """
        least = BROAD * LEAST_NOISE_AT_START * deviation**2
        width = deviation**2 + float(np.mean(mean**2)) if mean.size else deviation**2
        broad = {
            "b_alpha": max(of_columns * noise, least),
            "b_tau": max(BROAD * noise, least),
            "beta": BROAD / (width or 1.0),
        }
        found = {name: broad[name] or BROAD for name in self.open}
        return replace(self, **found, open=())  # type: ignore[arg-type]

    def in_units(self, unit: float) -> Hyper:
        """These priors for data divided by `unit`."""
        u2 = unit * unit
        return replace(
            self,
            b_alpha=self.b_alpha / u2,
            b_tau=self.b_tau / u2,
            beta=self.beta * u2,
            alpha=None if self.alpha is None else self.alpha * u2,
        )


@dataclass(frozen=True)
class Counts:
    """N samples in d dimensions, and the number of their cells that were observed."""

    N: int
    d: int
    cells: int


class Counted(Protocol):
    """Data divided by `unit`."""

    @property
    def unit(self) -> float: ...
    @property
    def counts(self) -> Counts: ...


D = TypeVar("D", bound=Counted)
S = TypeVar("S")


@dataclass(frozen=True)
class BishopModel(Model[D, S, VariationalFit]):
    """Bishop's model with q columns; its posterior has the given dtype."""

    hyper: Hyper
    q: int
    dtype: str = "float64"

    def free_energy(self, run: Run[S], data: D) -> float:
        return run.free_energy + data.counts.cells * float(np.log(data.unit))


# --- Q(α) and Q(τ) -----------------------------------------------------------------------------


def shape_alpha(counts: Counts, hyper: Hyper) -> float:
    """First parameter of Q(αᵢ) (Eq. 19)."""
    return hyper.a_alpha + 0.5 * counts.d


def shape_tau(counts: Counts, hyper: Hyper) -> float:
    """First parameter of Q(τ) (Eq. 20)."""
    return hyper.a_tau + 0.5 * counts.cells


def relevance(b_alpha: FloatArray, counts: Counts, hyper: Hyper) -> FloatArray:
    """⟨αᵢ⟩"""
    if hyper.alpha is not None:
        return np.full(b_alpha.size, hyper.alpha)
    return np.asarray(shape_alpha(counts, hyper) / b_alpha)


def precision(b_tau: float, counts: Counts, hyper: Hyper) -> float:
    """⟨τ⟩"""
    return shape_tau(counts, hyper) / b_tau


def is_on(W: FloatArray, variance: FloatArray) -> NDArray[np.bool_]:
    """Mask of the columns of W that are not switched off; `variance` is Σⱼ Var(wⱼᵢ) of each."""
    mean = np.einsum("kq,kq->q", W, W)
    return np.asarray((mean > SWITCHED_OFF * variance) & (mean > 0))


# --- the bound ---------------------------------------------------------------------------------


def bound_of_data(residual: float, b_tau: float, counts: Counts, hyper: Hyper) -> float:
    """⟨ln P(D|X, W, μ, τ)P(τ)⟩ − ⟨ln Q(τ)⟩, residual = Σ⟨(t − wᵀx − μ)²⟩ over observed cells."""
    shape = shape_tau(counts, hyper)
    log_tau = float(psi(shape) - np.log(b_tau))
    likelihood = 0.5 * (counts.cells * (log_tau - LOG_2PI) - shape / b_tau * residual)
    return likelihood - gamma_kl(shape, np.array([b_tau]), hyper.a_tau, hyper.b_tau)


def bound_of_latent(trace: float, log_det: float, dimensions: int) -> float:
    """⟨ln P(X)⟩ − ⟨ln Q(X)⟩ from Σ⟨xᵀx⟩, Σ log|Σ_x| and the number of entries of X."""
    return 0.5 * (log_det + dimensions - trace)


def bound_of_weights(
    sizes: FloatArray, log_det: float, b_alpha: FloatArray, counts: Counts, hyper: Hyper
) -> float:
    """⟨ln P(W|α)P(α)⟩ − ⟨ln Q(W)Q(α)⟩ from the diagonal of ⟨WᵀW⟩ and Σ log|Σ_w| over rows."""
    d, q = counts.d, sizes.size
    alpha = relevance(b_alpha, counts, hyper)
    entropy = 0.5 * (log_det + d * q)
    quadratic = -0.5 * float(alpha @ sizes)
    if hyper.alpha is not None:
        return 0.5 * d * q * float(np.log(hyper.alpha)) + quadratic + entropy
    shape = shape_alpha(counts, hyper)
    log_alpha = float((psi(shape) - np.log(b_alpha)).sum())
    kl = gamma_kl(shape, b_alpha, hyper.a_alpha, hyper.b_alpha)
    return 0.5 * d * log_alpha + quadratic + entropy - kl


def bound_of_mean(square: float, log_det: float, counts: Counts, hyper: Hyper) -> float:
    """⟨ln P(μ)⟩ − ⟨ln Q(μ)⟩ from Σ⟨μ²⟩, with μ less its prior mean, and Σ log Var(μ)."""
    return 0.5 * (log_det + counts.d * (float(np.log(hyper.beta)) + 1) - hyper.beta * square)


def gamma_kl(shape: float, rate: FloatArray, prior_shape: float, prior_rate: float) -> float:
    """Σ KL(Γ(shape, rate) ‖ Γ(prior_shape, prior_rate))"""
    kl = (
        (shape - prior_shape) * psi(shape)
        - gammaln(shape)
        + gammaln(prior_shape)
        + prior_shape * (np.log(rate) - np.log(prior_rate))
        + shape * (prior_rate - rate) / rate
    )
    return float(np.sum(kl))


# --- coordinates of the latent space -----------------------------------------------------------


def best_turn(Sxx: FloatArray, Sww: FloatArray, counts: Counts, hyper: Hyper) -> FloatArray | None:
    """R with the highest bound for W·R and R⁻¹x; None if that would lower the bound.

    Σ⟨xxᵀ⟩ = Sxx becomes white, ⟨WᵀW⟩ = Sww diagonal with its largest entry first, and each column
    gets its best scale, which would be 1 without the Gamma prior.
    """
    root = np.linalg.cholesky(Sxx / counts.N)
    _, vectors = np.linalg.eigh(root.T @ Sww @ root)
    R = root @ vectors[:, ::-1]
    sizes = np.einsum("iq,ij,jq->q", R, Sww, R)
    R = R * np.sqrt(best_squares(sizes, counts, hyper))
    as_it_is = turned_bound(None, Sxx, Sww, counts, hyper)
    return R if turned_bound(R, Sxx, Sww, counts, hyper) >= as_it_is else None


def best_squares(sizes: FloatArray, counts: Counts, hyper: Hyper) -> FloatArray:
    """u = f² of the best scale f of each column, once ⟨xxᵀ⟩/N = I and ⟨WᵀW⟩ = diag(sizes).

    N/u − (N − d) − (2a_α + d)·½us/(b_α + ½us) = 0, a quadratic equation in u; with α fixed
    N/u − (N − d) − αus = 0.
    """
    N, d = counts.N, counts.d
    if hyper.alpha is not None:
        A, B, C = hyper.alpha * sizes, np.full(sizes.size, float(d - N)), np.full(sizes.size, N)
    else:
        A = 0.5 * sizes * (N + 2 * hyper.a_alpha)
        B = 0.5 * N * sizes - (N - d) * hyper.b_alpha
        C = np.full(sizes.size, N * hyper.b_alpha)
    root = np.sqrt(B * B + 4 * A * C)
    # Of the two forms of the root, the one without cancellation.
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(B > 0, (B + root) / (2 * A), 2 * C / (root - B)))


def turned_bound(
    R: FloatArray | None, Sxx: FloatArray, Sww: FloatArray, counts: Counts, hyper: Hyper
) -> float:
    """The part of the bound that depends on the coordinates,

    −½tr(R⁻¹SxxR⁻ᵀ) − (N − d) log|R| − (a_α + d/2) Σ log(b_α + ½(RᵀSwwR)ᵢᵢ),
    with −½α·tr(RᵀSwwR) in place of the last term where α is fixed.
    """
    log_det = 0.0
    if R is not None:
        back = np.linalg.inv(R)
        Sxx, Sww = back @ Sxx @ back.T, R.T @ Sww @ R
        log_det = float(np.linalg.slogdet(R)[1])
    sizes = np.diag(Sww)
    if hyper.alpha is not None:
        weights = -0.5 * hyper.alpha * float(sizes.sum())
    else:
        weights = -shape_alpha(counts, hyper) * float(np.log(hyper.b_alpha + 0.5 * sizes).sum())
    return -0.5 * float(np.trace(Sxx)) - (counts.N - counts.d) * log_det + weights


# --- the posterior record ----------------------------------------------------------------------


def posterior_of_weights(
    weights: FloatArray,
    cov: FloatArray,
    *,
    mean: FloatArray,
    mean_variance: FloatArray,
    noise_variance: float,
    dtype: str,
) -> HolesPosterior:
    """The posterior record, which gives scores, densities and filled holes.

    `weights` are ⟨W⟩ of the columns that are on (p, k), `cov` the covariance of each row (p, k, k).
    """
    p, k = weights.shape
    b_cov = np.zeros((p, k + 1, k + 1))
    b_cov[:, :k, :k] = cov
    b_cov[:, k, k] = mean_variance
    unit = float(np.sqrt(noise_variance)) or 1.0
    columns = Columns(
        b=np.concatenate([weights / unit, np.zeros((p, 1))], axis=1),
        b_cov=b_cov / unit**2,
        prior_a=np.ones(k),
        noise_variance=noise_variance / unit**2,
    )
    return from_columns(
        columns, location=mean, scale=np.ones(p), unit=unit, like=np.empty(0, dtype)
    )
