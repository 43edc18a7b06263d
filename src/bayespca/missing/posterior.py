"""What is read from the posterior of a PCA when rows have holes: scores, densities, filled cells.

Every function takes rows with NaN for holes; complete rows are a special case. Names and meanings
are those of `linear.posterior`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .data import Holes, patterns_of
from .vb import State, update_rows

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Posterior:
    """Posterior of a PCA with k components in p features.

    Attributes
    ----------
    state
        Posterior of B and μ, prior of A, noise, for data less `mean` and over `unit`.
    mean, scale
        Posterior means of the columns, and what columns are divided by (ones unless scaled); (p,).
    unit
        What scaled data are divided by so that their size is about 1.
    components
        Orthonormal directions for scaled data: (k, p).
    basis
        Scores along them are `basis`·a: (k, k).
    latent_variance
        Variance of a before its row is seen: (k,).
    """

    state: State
    mean: FloatArray
    scale: FloatArray
    unit: float
    components: FloatArray
    basis: FloatArray
    latent_variance: FloatArray

    @property
    def noise_variance(self) -> float:
        """σ², of scaled data."""
        return self.state.noise_variance * self.unit**2


def from_state(
    state: State, *, location: FloatArray, scale: FloatArray, unit: float, dtype: Any = np.float64
) -> Posterior:
    """The posterior record of a fit: B = WᵀSQᵀ, so that scores t = SQᵀa have directions W."""
    H = state.rank
    U, S, Qt = np.linalg.svd(state.b[:, :H], full_matrices=False)
    signs = np.sign(U[np.abs(U).argmax(axis=0), np.arange(H)]) if H else np.ones(0)
    signs = np.where(signs == 0, 1.0, signs)
    mean = location + state.b[:, H] * unit * scale
    centred = state.b.copy()
    centred[:, H] = 0.0
    return Posterior(
        State(centred, state.b_cov, state.prior_a, state.prior_b, state.noise_variance),
        mean.astype(dtype),
        scale.astype(dtype),
        unit,
        (U * signs).T.astype(dtype),
        (S * signs)[:, None] * Qt * unit,
        state.prior_a,
    )


def from_directions(
    *,
    mean: FloatArray,
    scale: FloatArray,
    components: FloatArray,
    ridge: FloatArray,
    loading_variance: FloatArray,
    latent_variance: FloatArray,
    noise_variance: float,
) -> Posterior:
    """The record for a posterior that was found on complete data.

    `ridge` is σ² over the prior variance of the scores (k,), `loading_variance` the posterior
    variance of the entries of the directions (p, k).
    """
    k, p = components.shape
    unit = float(np.sqrt(latent_variance.max())) if k else float(np.sqrt(noise_variance))
    unit = unit or 1.0
    b = np.concatenate([components.T, np.zeros((p, 1))], axis=1)
    b_cov = np.zeros((p, k + 1, k + 1))
    b_cov[:, range(k), range(k)] = loading_variance
    s2 = max(noise_variance / unit**2, np.finfo(np.float64).tiny)
    with np.errstate(divide="ignore"):
        prior_a = s2 / np.maximum(ridge, 0.0)
    state = State(b, b_cov, prior_a, np.ones(k), s2)
    basis = np.eye(k) * unit
    return Posterior(state, mean, scale, unit, components, basis, latent_variance / unit**2)


# --- scores ------------------------------------------------------------------------------------


def scores(posterior: Posterior, X: FloatArray) -> FloatArray:
    """Posterior mean of the scores, from the cells that are there."""
    return _typed(posterior, _latent(posterior, X)[0] @ posterior.basis.T)


def scores_and_std(posterior: Posterior, X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Scores, and their posterior standard deviations.

    Var(t) = v + ω(t² + v), v the variance for given directions and ω that of a direction along
    itself.
    """
    a, cov, pattern = _latent(posterior, X)
    M = posterior.basis
    T = a @ M.T
    v = np.einsum("hi,mij,hj->mh", M, cov, M)[pattern]
    along = _loading_variance(posterior)
    own = np.einsum("hj,jh->h", posterior.components**2, along)
    std = np.sqrt(v + own * (T * T + v))
    return _typed(posterior, T), _typed(posterior, std)


def latent_std(posterior: Posterior) -> FloatArray:
    """Standard deviation of each score over the training data; 1 for one that is always 0."""
    d = latent_variance_of_scores(posterior)
    return _typed(posterior, np.sqrt(np.where(d > 0, d, 1.0)))


def latent_variance_of_scores(posterior: Posterior) -> FloatArray:
    """Variance of each score before its row is seen."""
    return np.asarray((posterior.basis**2) @ posterior.latent_variance)


def loading_std(posterior: Posterior) -> FloatArray:
    """Posterior standard deviation of the entries of `components`."""
    return _typed(posterior, np.sqrt(_loading_variance(posterior)).T)


def project(posterior: Posterior, X: FloatArray) -> FloatArray:
    """Least-squares coordinates along the components, from the cells that are there."""
    data = _rows(posterior, X)
    W = posterior.components
    out = np.empty((len(X), len(W)))
    for m, mask in enumerate(data.patterns):
        rows, seen = data.pattern == m, mask > 0
        values = data.values[rows][:, seen] * posterior.unit
        out[rows] = np.linalg.lstsq(W[:, seen].T, values.T, rcond=None)[0].T
    return _typed(posterior, out)


def reconstruct(posterior: Posterior, T: FloatArray) -> FloatArray:
    """Rows that have the scores T: mean + scale·TW."""
    return _typed(posterior, T @ posterior.components * posterior.scale + posterior.mean)


def _typed(posterior: Posterior, values: FloatArray) -> FloatArray:
    """Results have the type that the training data had."""
    return np.asarray(values, dtype=posterior.components.dtype)


def _latent(posterior: Posterior, X: FloatArray) -> tuple[FloatArray, FloatArray, NDArray[np.intp]]:
    """Posterior mean of a for each row, its covariance for each pattern, and the patterns."""
    data = _rows(posterior, X)
    rows = update_rows(posterior.state, data)
    return rows.a, rows.cov, data.pattern


def _rows(posterior: Posterior, X: FloatArray) -> Holes:
    """New rows in the units of the posterior."""
    seen = ~np.isnan(X)
    unit = posterior.unit * posterior.scale
    values = np.where(seen, (X - posterior.mean) / unit, 0.0).astype(np.float64)
    patterns, pattern = patterns_of(seen)
    return Holes(values, patterns, pattern, posterior.mean, unit)


def _loading_variance(posterior: Posterior) -> FloatArray:
    """Posterior variance of the entries of the directions: (p, k)."""
    k = len(posterior.components)
    # A component that maximum likelihood was told of may be zero.
    back = np.linalg.pinv(posterior.basis / posterior.unit) if k else posterior.basis
    cov = posterior.state.b_cov[:, :k, :k]
    # w = M⁻ᵀ b, because wᵀMa = bᵀa.
    return np.einsum("ih,jik,kh->jh", back, cov, back)


# --- the distribution of a new row -------------------------------------------------------------


def predictive_noise(posterior: Posterior) -> FloatArray:
    """σ² and what the uncertainty of B and μ adds to it, of each scaled feature."""
    cov = posterior.state.b_cov
    k = len(posterior.components)
    spread = np.einsum("jhh,h->j", cov[:, :k, :k], posterior.latent_variance) + cov[:, k, k]
    return np.asarray((posterior.state.noise_variance + spread) * posterior.unit**2)


def covariance(posterior: Posterior) -> FloatArray:
    """Covariance of a new row: scale·(B diag(⟨a²⟩) Bᵀ + diag(ψ))·scale."""
    B = _weights(posterior)
    inner = B @ B.T + np.diag(predictive_noise(posterior))
    return np.asarray(inner * posterior.scale[:, None] * posterior.scale)


def precision(posterior: Posterior) -> FloatArray:
    """Inverse of `covariance`, by the matrix inversion lemma."""
    B, psi = _weights(posterior), predictive_noise(posterior)
    small = np.eye(B.shape[1]) + (B.T / psi) @ B
    inner = np.diag(1 / psi) - (B / psi[:, None]) @ np.linalg.solve(small, B.T / psi)
    return np.asarray(inner / posterior.scale[:, None] / posterior.scale)


def log_density(posterior: Posterior, X: FloatArray) -> FloatArray:
    """Log density of the cells that are there in each row."""
    data = _rows(posterior, X)
    B, psi = _weights(posterior), predictive_noise(posterior)
    Z = data.values * posterior.unit
    out = np.empty(len(X))
    for m, mask in enumerate(data.patterns):
        rows, seen = data.pattern == m, mask > 0
        b, s, z = B[seen], psi[seen], Z[rows][:, seen]
        small = np.linalg.cholesky(np.eye(b.shape[1]) + (b.T / s) @ b)
        inner = np.linalg.solve(small, (z / s @ b).T)
        distance = (z * z / s).sum(axis=1) - (inner * inner).sum(axis=0)
        log_det = np.log(s).sum() + 2 * np.log(np.diag(small)).sum()
        log_det += 2 * np.log(posterior.scale[seen]).sum()
        out[rows] = -0.5 * (distance + log_det + seen.sum() * np.log(2 * np.pi))
    return out


def sample(posterior: Posterior, n: int, rng: np.random.Generator) -> FloatArray:
    """n new rows, drawn from the Gaussian with the predictive mean and covariance."""
    B, psi = _weights(posterior), predictive_noise(posterior)
    draws = rng.normal(size=(n, B.shape[1] + B.shape[0]))
    k = B.shape[1]
    inner = draws[:, :k] @ B.T + draws[:, k:] * np.sqrt(psi)
    return _typed(posterior, inner * posterior.scale + posterior.mean)


def _weights(posterior: Posterior) -> FloatArray:
    """B·diag(⟨a²⟩)^½, for scaled data."""
    k = len(posterior.components)
    root = np.sqrt(posterior.latent_variance) * posterior.unit
    return posterior.state.b[:, :k] * root


# --- filling holes -----------------------------------------------------------------------------


def impute(
    posterior: Posterior, X: FloatArray, *, noise: bool = True
) -> tuple[FloatArray, FloatArray]:
    """X with its holes filled by their posterior mean, and the standard deviation of each cell.

    Var(ãᵀb̃) = ãᵀCⱼã + bⱼᵀΣᵢbⱼ + tr ΣᵢCⱼ; with `noise` that of a measurement, σ² more. Cells that
    are there have standard deviation 0.
    """
    a, cov, pattern = _latent(posterior, X)
    state, k = posterior.state, len(posterior.components)
    unit = posterior.unit * posterior.scale
    ones = np.concatenate([a, np.ones((len(a), 1))], axis=1)
    mean = ones @ state.b.T * unit + posterior.mean
    i, j = np.triu_indices(k + 1)
    twice = np.where(i == j, 1.0, 2.0)
    second = (state.b[:, i] * state.b[:, j] + state.b_cov[:, i, j]) * twice
    inner = j < k
    variance = cov[:, i[inner], j[inner]] @ second[:, inner].T
    variance = variance[pattern] + (ones[:, i] * ones[:, j]) @ (state.b_cov[:, i, j] * twice).T
    if noise:
        variance = variance + state.noise_variance
    seen = ~np.isnan(X)
    std = np.where(seen, 0.0, np.sqrt(np.maximum(variance, 0)) * unit)
    return np.where(seen, X, mean).astype(X.dtype), std.astype(X.dtype)


def sample_imputation(posterior: Posterior, X: FloatArray, rng: np.random.Generator) -> FloatArray:
    """X with its holes filled by one draw of scores, loadings, means and noise."""
    a, cov, pattern = _latent(posterior, X)
    state = posterior.state
    unit = posterior.unit * posterior.scale
    drawn_a = a + _draws(cov, rng, len(a), pattern)
    drawn_b = state.b + _draws(state.b_cov, rng, len(state.b))
    ones = np.concatenate([drawn_a, np.ones((len(a), 1))], axis=1)
    noise = rng.normal(size=X.shape) * np.sqrt(state.noise_variance)
    drawn = (ones @ drawn_b.T + noise) * unit + posterior.mean
    return np.where(np.isnan(X), drawn, X).astype(X.dtype)


def _draws(
    cov: FloatArray,
    rng: np.random.Generator,
    n: int,
    which: NDArray[np.intp] | None = None,
) -> FloatArray:
    """Draws from N(0, cov), one for each of n rows; covariances may be singular."""
    values, vectors = np.linalg.eigh(cov)
    root = vectors * np.sqrt(np.maximum(values, 0))[:, None, :]
    root = root if which is None else root[which]
    return np.einsum("ihk,ik->ih", root, rng.normal(size=(n, cov.shape[-1])))
