"""Exact sampling from the posterior of Bayesian PCA (the model of icann1999, Section 3).

    tₙ = W xₙ + μ + εₙ,  xₙ ~ N(0, I_q),  εₙ ~ N(0, τ⁻¹ I_d),
    wᵢ ~ N(0, αᵢ⁻¹ I_d),  αᵢ ~ Γ(a_α, b_α),  μ ~ N(0, β⁻¹ I_d),  τ ~ Γ(a_τ, b_τ).

An orthogonal transformation of the rows that turns the vector of ones and the data into a triangle
leaves the likelihood and the prior of the latent variables unchanged. It is a QR factorisation,
done once: at most d + 1 of n rows then hold data, and the others are zero, so that only the sum of
squares of their latent variables matters, which has a Wishart distribution. A sweep costs O(d²q),
however many samples there are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, log

import numpy as np
from scipy.linalg.lapack import dtrtrs
from scipy.special import gammaln

from bayespca.arrays.packing import wishart_root
from bayespca.arrays.types import FloatArray
from bayespca.inference.chains import slice_sampled
from bayespca.lowrank.variational import Hyper
from bayespca.spectrum.records import Spectrum, samples
from bayespca.spectrum.solving import solve
from bayespca.spectrum.tolerances import LOG_2PI, ROUNDING_OF_DEVIATIONS

# b_alpha over the noise variance. Lengths of columns that are not needed are log-uniform between it
# and the limit of detection: the fewer powers of ten lie between, the more columns fit noise.
SWITCHED_OFF = 1e-9
# Rounds of rotations in a sweep. Effective draws per second were seen to grow up to about four.
TURNS = 4
# Step sizes of the slice samplers, which are exact with any values.
LOG_SCALE_STEP, LOG_NOISE_STEP = 2.0, 0.4


@dataclass(frozen=True)
class GibbsData:
    """Sufficient statistics of n rows of d numbers: the triangle of [1, T], at most d + 1 rows.

    `ones` is the transformed vector of ones, `rows` the transformed data in units of `unit`.
    """

    ones: FloatArray
    rows: FloatArray
    n: int
    d: int
    unit: float

    @cached_property
    def mean(self) -> FloatArray:
        """Means of the columns, in units of `unit`."""
        return self.ones @ self.rows / self.n

    @cached_property
    def centred(self) -> FloatArray:
        """The transformed rows without their mean."""
        return self.rows - np.outer(self.ones, self.mean)


def suited(prior: Hyper, data: GibbsData) -> Hyper:
    """The prior, with open parameters made broad for these data."""
    noise, mean = noise_variance(data), data.mean * data.unit
    return prior.suiting(noise, data.unit, mean, of_columns=SWITCHED_OFF)


def noise_variance(data: GibbsData) -> float:
    """Noise variance of the closed form, in the units of the data."""
    gamma = np.linalg.svd(data.centred, compute_uv=False)
    shape = (data.d, samples(data.n, center=True))
    spectrum = Spectrum(gamma[: min(shape)], shape, scale=data.unit)
    return solve(spectrum, other_ranks=False).noise_variance


def compress(T: FloatArray) -> GibbsData:
    """The triangle of [1, T], with T divided by the root mean square of its deviations."""
    n, d = T.shape
    largest = float(np.abs(T).max(initial=0.0)) or 1.0
    triangle = np.asarray(np.linalg.qr(np.column_stack([np.ones(n), T / largest]), mode="r"))
    ones, rows = triangle[:, 0].copy(), triangle[:, 1:].copy()
    spread = float(np.sqrt(np.vdot(rows[1:], rows[1:]) / (n * d)))
    # Data that do not vary beyond rounding have no unit of their own.
    relative = spread if spread > ROUNDING_OF_DEVIATIONS else 1.0
    return GibbsData(ones, rows / relative, n, d, largest * relative)


@dataclass(frozen=True)
class GibbsState:
    """One point of the posterior; the latent variables are drawn anew in each sweep."""

    W: FloatArray
    alpha: FloatArray
    tau: float
    mu: FloatArray


# --- a sweep -----------------------------------------------------------------------------------


def sweep(state: GibbsState, data: GibbsData, prior: Hyper, rng: np.random.Generator) -> GibbsState:
    """Draw everything once; each line leaves the posterior invariant.

    The first lines draw the latent variables X and condition on them. Then X is dropped, and the
    other lines draw from the posterior with X integrated out.
    """
    X = latent(state, data, rng)
    W, mu = loadings(X, state, data, prior, rng)
    mu = moved_origin(X, W, mu, data, prior, rng)
    state = replace(state, W=W, mu=mu)
    state = replace(state, tau=noise_precision(state, data, prior, rng))
    state = rescaled(state, data, prior, rng)
    for _ in range(TURNS):
        state = replace(state, W=rotated(state.W, state.alpha, rng))
    return replace(state, alpha=column_precisions(state.W, prior, rng))


def latent(state: GibbsState, data: GibbsData, rng: np.random.Generator) -> FloatArray:
    """Transformed latent variables: one row for each row of data, then the root of a Wishart.

    xₙ ~ N(m, Σ) with Σ = (I + τWᵀW)⁻¹, m = τΣWᵀ(tₙ − μ) (as icann1999 Eq. 16 given W, μ, τ). An
    orthogonal transformation of rows leaves the distribution of the deviations xₙ − m unchanged.
    Only XᵀX is ever used of the rows without data.
    """
    mean, C = _latent_mean(state, data)
    m, q = mean.shape
    Z = np.vstack([rng.normal(size=(m, q)), wishart_root(data.n - m, q, rng)])
    X = _solve(C, Z.T, transposed=True).T
    X[:m] += mean
    return X


def _latent_mean(state: GibbsState, data: GibbsData) -> tuple[FloatArray, FloatArray]:
    """m of each transformed row, and the Cholesky factor of Σ⁻¹."""
    W, tau = state.W, state.tau
    C = _cholesky(np.eye(W.shape[1]) + tau * W.T @ W)
    projected = (data.rows - np.outer(data.ones, state.mu)) @ W
    half = _solve(C, tau * projected.T)
    return _solve(C, half, transposed=True).T, C


def _cholesky(A: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.cholesky(A), dtype=np.float64)


def _solve(C: FloatArray, B: FloatArray, *, transposed: bool = False) -> FloatArray:
    """C⁻¹B or C⁻ᵀB for a lower triangle, without checks that cost more than the solution."""
    if not B.size:
        return B.copy()
    found: FloatArray = dtrtrs(C, B, lower=1, trans=int(transposed))[0]
    return found


def loadings(
    X: FloatArray, state: GibbsState, data: GibbsData, prior: Hyper, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """W and μ together: the mean is one more column, whose latent variable is 1.

    Each row of [W, μ] is N(τ P⁻¹ X̃ᵀt, P⁻¹), P = τ X̃ᵀX̃ + diag(α, β), X̃ = [X, 1].
    """
    m, tau = data.rows.shape[0], state.tau
    ones = np.zeros((X.shape[0], 1))
    ones[:m, 0] = data.ones
    Xt = np.hstack([X, ones])
    P = tau * Xt.T @ Xt
    P.flat[:: P.shape[0] + 1] += np.append(state.alpha, prior.beta)
    C = _cholesky(P)
    half = _solve(C, tau * (Xt[:m].T @ data.rows))
    half += rng.normal(size=half.shape)
    both = _solve(C, half, transposed=True)
    return both[:-1].T, both[-1]


def column_precisions(W: FloatArray, prior: Hyper, rng: np.random.Generator) -> FloatArray:
    """αᵢ ~ Γ(a_α + d/2, b_α + ½‖wᵢ‖²) (icann1999 Eq. 19 given W)."""
    d, q = W.shape
    rate = prior.b_alpha + 0.5 * np.einsum("ij,ij->j", W, W)
    return rng.gamma(prior.a_alpha + 0.5 * d, size=q) / rate


# --- with the latent variables integrated out --------------------------------------------------


def noise_precision(
    state: GibbsState, data: GibbsData, prior: Hyper, rng: np.random.Generator
) -> float:
    """τ given W and μ, by a slice sampler in log τ.

    With eigenvalues λ and eigenvectors of WᵀW, f the sums of squares of the latent means along
    these, and R = Σ‖tₙ − μ − Wmₙ‖², both at τ₀, the distance in the density at τ is

        τ(R + Σᵢ fᵢ(λᵢ + (2τ₀ − τ)/τ₀²)/(1 + τλᵢ)),

    which does not subtract large numbers when the noise is small.
    """
    mean, _ = _latent_mean(state, data)
    off = data.rows - np.outer(data.ones, state.mu) - mean @ state.W.T
    lam, axes = np.linalg.eigh(state.W.T @ state.W)
    f = ((mean @ axes) ** 2).sum(axis=0)
    R, t0, n, shape = float(np.vdot(off, off)), state.tau, data.n, 0.5 * data.n * data.d

    def log_density(y: float) -> float:
        t = t0 * exp(y)
        w = 1 + t * lam
        distance = t * (R + float((f * (lam + (2 * t0 - t) / t0**2) / w).sum()))
        log_det = n * float(np.log(w).sum())
        return (prior.a_tau + shape) * y - 0.5 * (log_det + distance) - prior.b_tau * t

    return t0 * exp(slice_sampled(log_density, rng, step=LOG_NOISE_STEP))


def rescaled(
    state: GibbsState, data: GibbsData, prior: Hyper, rng: np.random.Generator
) -> GibbsState:
    """wᵢ → √v wᵢ, αᵢ → αᵢ/v, one column after another; α‖w‖² does not change.

    This lets columns that are switched off change their size. With H = (I + τWᵀW)⁻¹, F the sum of
    products of latent means and D(v) = Hᵢᵢ + v(1 − Hᵢᵢ), the density of log v has the logarithm

        −½(n log D + Fᵢᵢ(1 − v)/D) − a_α log v − b_α αᵢ/v:

    the likelihood after a change of rank one, the prior of αᵢ/v, and the Jacobian v^(d/2 − 1). H
    and F for the next column follow by the same change.
    """
    mean, C = _latent_mean(state, data)
    q = state.alpha.size
    half = _solve(C, np.eye(q))
    H, F, v = half.T @ half, mean.T @ mean, np.ones(q)
    for i in rng.permutation(q):
        v[i] = _scale(float(H[i, i]), float(F[i, i]), float(state.alpha[i]), data.n, prior, rng)
        H, F = after_rescaling(H, F, i, v[i])
    return replace(state, W=state.W * np.sqrt(v), alpha=state.alpha / v)


def after_rescaling(
    H: FloatArray, F: FloatArray, i: int, v: float
) -> tuple[FloatArray, FloatArray]:
    """H = (V⁻¹ + τWᵀW)⁻¹ and F = τ² H(Σ Wᵀyyᵀ W)H when entry i of the diagonal V goes from 1 to v.

    They are those of W√V up to factors of the columns that are already rescaled.
    """
    h, f = H[i], F[i]
    g = (1 - v) / (v + (1 - v) * h[i])
    cross = np.outer(h, g * f - 0.5 * g * g * f[i] * h)
    return H - np.outer(g * h, h), F - cross - cross.T


def _scale(
    h: float, f: float, alpha: float, n: int, prior: Hyper, rng: np.random.Generator
) -> float:
    a, rate = prior.a_alpha, prior.b_alpha * alpha

    def log_density(y: float) -> float:
        v = exp(y)
        D = h + v * (1 - h)
        return -0.5 * (n * log(D) + f * (1 - v) / D) - a * y - rate / v

    return exp(slice_sampled(log_density, rng, step=LOG_SCALE_STEP))


# --- moves along which the likelihood does not change ------------------------------------------
#
# Where the noise is small, X and W determine each other, and the conditionals alone mix slowly.
# These draw from the posterior along the orbits of a group that acts on all variables: with the
# Jacobian and the group's invariant measure, that leaves the posterior invariant (Liu and Sabatti,
# "Generalised Gibbs sampler and multigrid Monte Carlo", Biometrika 87, 2000, Theorem 1). `rescaled`
# is such a move, too, but the likelihood does change along it.


def moved_origin(
    X: FloatArray,
    W: FloatArray,
    mu: FloatArray,
    data: GibbsData,
    prior: Hyper,
    rng: np.random.Generator,
) -> FloatArray:
    """μ after xₙ → xₙ + s, μ → μ − Ws: s ~ N(Q⁻¹(βWᵀμ − Σxₙ), Q⁻¹), Q = nI + βWᵀW."""
    total = data.ones @ X[: data.ones.size]
    Q = data.n * np.eye(W.shape[1]) + prior.beta * W.T @ W
    C = _cholesky(Q)
    half = _solve(C, prior.beta * W.T @ mu - total)
    half += rng.normal(size=half.shape)
    s = _solve(C, half, transposed=True)
    return mu - W @ s


def rotated(W: FloatArray, alpha: FloatArray, rng: np.random.Generator) -> FloatArray:
    """W with its columns in random pairs, each turned by an angle θ in its plane, as X is.

    The prior of X does not change. −½Σαᵢ‖wᵢ‖² = κ cos(2θ − φ) + const with
    κ(cos φ, sin φ) = ¼(αⱼ − αᵢ)(gᵢᵢ − gⱼⱼ, 2gᵢⱼ), g = WᵀW: von Mises.
    """
    half = alpha.size // 2
    order = rng.permutation(alpha.size)
    i, j = order[:half], order[half : 2 * half]
    u, v = W[:, i], W[:, j]
    weight = 0.25 * (alpha[j] - alpha[i])
    along = weight * np.einsum("dk,dk->k", u - v, u + v)
    across = weight * 2 * np.einsum("dk,dk->k", u, v)
    angle = 0.5 * rng.vonmises(np.arctan2(across, along), np.hypot(along, across))
    c, s = np.cos(angle), np.sin(angle)
    W = W.copy()
    W[:, i], W[:, j] = c * u + s * v, c * v - s * u
    return W


# --- the density -------------------------------------------------------------------------------


def log_joint(state: GibbsState, data: GibbsData, prior: Hyper) -> float:
    """log p(T, W, α, μ, τ) with the latent variables integrated out, in the data's own units."""
    q, d, log_unit = state.alpha.size, data.d, np.log(data.unit)
    W, alpha, tau, mu = state.W, state.alpha, state.tau, state.mu
    prior_terms = (
        0.5 * d * np.sum(np.log(alpha) - LOG_2PI)
        - 0.5 * np.sum(alpha * np.einsum("ij,ij->j", W, W))
        + np.sum(_log_gamma(alpha, prior.a_alpha, prior.b_alpha))
        + 0.5 * d * (np.log(prior.beta) - LOG_2PI)
        - 0.5 * prior.beta * float(mu @ mu)
        + _log_gamma(np.asarray(tau), prior.a_tau, prior.b_tau)
    )
    units = (2 * (q + 1) - d * (q + 1) - data.n * d) * log_unit
    return float(log_likelihood(state, data) + prior_terms + units)


def log_likelihood(state: GibbsState, data: GibbsData) -> float:
    """log ∏ N(tₙ | μ, WWᵀ + τ⁻¹I) of the data in units of `data.unit`.

    (t − μ)ᵀ(WWᵀ + τ⁻¹I)⁻¹(t − μ) = τ‖t − μ − Wm‖² + ‖m‖², with m the mean of x given t.
    """
    mean, C = _latent_mean(state, data)
    off = data.rows - np.outer(data.ones, state.mu) - mean @ state.W.T
    distance = state.tau * float(np.vdot(off, off)) + float(np.vdot(mean, mean))
    log_det = 2 * float(np.log(np.diag(C)).sum()) - data.d * float(np.log(state.tau))
    return -0.5 * (distance + data.n * (log_det + data.d * LOG_2PI))


def _log_gamma(x: FloatArray, a: float, b: float) -> FloatArray:
    return a * np.log(b) - gammaln(a) + (a - 1) * np.log(x) - b * x


def start(data: GibbsData, q: int, prior: Hyper, rng: np.random.Generator) -> GibbsState:
    """A start from the mean and size of the data alone, spread wider than the posterior.

    The noise is between a hundredth and all of the variance; columns of W have random directions,
    and lengths over two orders of magnitude.
    """
    d = data.d
    s2, lengths = 10 ** rng.uniform(-2, 0), 10 ** rng.uniform(-1.5, 0.5, size=q)
    W = lengths * rng.normal(size=(d, q)) / np.sqrt(d)
    mu = data.mean + rng.normal(size=d)
    return GibbsState(W, column_precisions(W, prior, rng), 1 / s2, mu)
