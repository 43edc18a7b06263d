"""The posterior of PCA on complete data: scores, densities, covariances and draws.

A row of X is mean + scale·(Σₕ tₕ wₕ + ε), with orthonormal directions wₕ, scores tₕ and noise ε of
variance σ². In terms of the factors of aistats2014 Eq. 15, tₕ = aₕ·(bₕ along wₕ). Only products of
their moments are stored, which do not depend on how A and B share their scale.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from bayespca.arrays.checks import check_sizes
from bayespca.arrays.namespaces import on_host, to_namespace
from bayespca.arrays.types import Array, ArrayMatrix, ArrayVector, Counts, FloatArray
from bayespca.sources.redundant import Combinations
from bayespca.spectrum.records import Solution

from . import combined, filtering
from .axes import NewRows, more_variance
from .density import distances_of_complete
from .filtering import filtered, transposed, unfiltered
from .recognising import chance_to_be_new, digests
from .scales import NORMAL, Tails


@dataclass(frozen=True)
class Posterior:
    """Posterior of a PCA with k components in p features; arrays live where the data did.

    Attributes
    ----------
    mean, scale
        Column means that were subtracted, and scales that columns were divided by; (p,).
    components
        Directions wₕ: (k, p), orthonormal, for scaled data.
    shrinkage
        γ̂/γ of each component: the posterior mean of a score over its projection; (k,).
    score_variance
        b²σ_a²: posterior variance of a score given its direction; 0 where A is point-estimated.
    loading_variance
        σ_b²/b²: posterior variance of an entry of wₕ; 0 where B is point-estimated.
    latent_variance
        ⟨tₕ²⟩ over the samples: variance of a score before its row is seen.
    noise_variance
        σ², of scaled data.
    partials
        Partial autocorrelations of the noise of neighbours, () where it is white: the filter that
        they define (`filtering`) whitens scaled rows; components are those of the filtered rows.
    tails
        How much the noise, and with it the scores, differs between rows.
    learned_from
        Digests of the rows that the directions were learned from, where their noise differs.
    combined
        Columns that follow from others; their entries of the components are 0.
    """

    mean: ArrayVector
    scale: ArrayVector
    components: ArrayMatrix
    shrinkage: ArrayVector
    score_variance: ArrayVector
    loading_variance: ArrayVector
    latent_variance: ArrayVector
    noise_variance: float
    partials: tuple[float, ...] = ()
    tails: Tails = NORMAL
    learned_from: Counts = field(default_factory=lambda: np.empty(0, np.int64))
    combined: Combinations | None = None

    @property
    def directions(self) -> Array:
        """Changes of the features with each score, after undoing the filter: the low-rank part of
        rows with the scores T is mean + scale·T·directions.
        """
        own = unfiltered(combined.independent(self).components, self.partials)
        return combined.directions(self, own)

    @property
    def predictive_noise(self) -> float:
        """Noise variance of a new row: σ² plus the uncertainty of the directions."""
        xp = array_namespace(self.components)
        return self.noise_variance + float(xp.sum(self.latent_variance * self.loading_variance))

    def check(self) -> None:
        """Raise ValueError unless the parts belong together."""
        k, p = self.components.shape
        of_components = (self.shrinkage, self.score_variance, self.loading_variance)
        sizes = {a.shape for a in (*of_components, self.latent_variance)}
        agree = self.mean.shape == self.scale.shape == (p,) and sizes == {(k,)}
        check_sizes("a Posterior", agree)


def from_solution(
    solution: Solution, *, components: Array, gamma: np.ndarray, mean: Array, scale: Array, M: float
) -> Posterior:
    """The posterior record for a solution of the spectrum and the directions it keeps."""
    xp = array_namespace(components)
    k = solution.rank
    moments = solution.moments
    b2 = moments.mean_b[:k] ** 2
    alive = b2 > 0
    score_variance = b2 * moments.variance_a[:k]

    def here(values: np.ndarray) -> Array:
        return to_namespace(values, components)

    return Posterior(
        mean=xp.astype(mean, components.dtype),
        scale=scale,
        components=components,
        shrinkage=here(solution.shrunk_singular_values / gamma[:k]),
        score_variance=here(score_variance),
        loading_variance=here(np.where(alive, moments.variance_b[:k], 0) / np.where(alive, b2, 1)),
        latent_variance=here(solution.shrunk_singular_values**2 / M + score_variance),
        noise_variance=solution.noise_variance,
    )


# --- scores ------------------------------------------------------------------------------------


@combined.of_independent
def project(posterior: Posterior, X: Array) -> Array:
    """Coordinates of rows along the components, without shrinkage: ((X − mean)/scale)·Wᵀ."""
    return array_namespace(X).matmul(_whitened(posterior, X), posterior.components.T)


@combined.of_independent
def scores(posterior: Posterior, X: Array) -> Array:
    """Posterior mean of the scores: the projection, each coordinate shrunk by γ̂/γ."""
    return project(posterior, X) * posterior.shrinkage


@combined.of_independent
def scores_and_std(
    posterior: Posterior, X: Array, *, new_rows: NewRows | None = None
) -> tuple[Array, Array]:
    """Scores, and their standard deviations: distances of the noise-free row from them, along the
    fitted components.

    Scores have the variance d = ⟨t²⟩ along these components, so given a projection y = t + noise, t
    is N(r·y, σ²r) with r = d/(d + σ²). The posterior's σ²γ̂/γ is smaller, because it counts
    uncertainty of a direction as precision: for large matrices, r is γ̂/γ·(1 + p/(nℓ)), and σ²r is
    the variance of a fitted row about T = γ̂/γ·y (from the limits of both singular vectors:
    Benaych-Georges and Nadakuditi, "The singular values and vectors of low rank perturbations of
    large rectangular random matrices", Journal of Multivariate Analysis 111, 2012). Directions do
    not lean towards the noise of a new row: that row is about r·y, and T is off by r·y − T. With
    `new_rows`, r is averaged over the distribution of d. Rows that may be new or old count
    as half new.

    Where rows have variances of their own, the variances of scores are in units of the row's noise,
    and so larger for a row far from all others. If A is point-estimated, the only variance is that
    of a direction along itself.
    """
    xp, T = array_namespace(X), scores(posterior, X)
    if not bool(xp.any(posterior.score_variance > 0)):
        return T, xp.abs(T) * xp.sqrt(posterior.loading_variance)
    d, s = posterior.latent_variance, posterior.shrinkage
    r = d / (d + _off_zero(posterior, posterior.noise_variance))
    mean = T * (r / xp.where(s > 0, s, xp.ones_like(s)))
    own, off, noise = posterior.noise_variance * r, mean - T, 1.0
    if posterior.tails.are_heavy:
        noise = posterior.tails.spread_given(_squares_of_rows(posterior, X), X.shape[1])[:, None]
    more = off**2 if new_rows is None else more_variance(own, mean, off, new_rows, noise)
    new = chance_to_be_new(X, posterior.learned_from)
    new = new if isinstance(new, float) else to_namespace(new, T)
    return T, xp.sqrt(own * noise + new * more)


def _squares_of_rows(posterior: Posterior, X: Array) -> Array:
    """Squares that determine the noise of each row: for new rows the distance from the mean, for
    fitted rows Σ⟨(x − ab)²⟩/σ² + Σa²/cₐ² with the error of the mean; see `recognising`.
    """
    xp, (distance, _) = array_namespace(X), _distances(posterior, X)
    old = np.isin(digests(X), posterior.learned_from)
    if not old.any():
        return distance
    Z = _whitened(posterior, X)
    T = xp.matmul(Z, posterior.components.T)
    off = Z - xp.matmul(T, posterior.components)
    lost = xp.abs(1 - posterior.shrinkage)
    left = xp.sum(off * off, axis=1) + xp.sum(T * T * lost, axis=1)
    squares = left / _off_zero(posterior, posterior.noise_variance)
    squares = squares + X.shape[1] / posterior.learned_from.size
    return xp.where(to_namespace(old, X, xp.bool), squares, distance)


def latent_std(posterior: Posterior) -> Array:
    """Standard deviation of each score over the training data; 1 for a score that is always 0."""
    xp = array_namespace(posterior.components)
    d = posterior.latent_variance
    return xp.sqrt(xp.where(d > 0, d, xp.ones_like(d)))


def reconstruct(posterior: Posterior, T: Array) -> Array:
    """Rows that have the scores T: mean + scale·TW."""
    low_rank = array_namespace(T).matmul(T, posterior.directions)
    return low_rank * posterior.scale + posterior.mean


def left_of_some(posterior: Posterior, X: FloatArray, columns: NDArray[np.intp]) -> FloatArray:
    """Residuals of some columns, over their scale, without regard to neighbours. Scores are those
    of least squares on these columns alone, shrunk.
    """
    mean, scale = (on_host(part)[columns] for part in (posterior.mean, posterior.scale))
    Z, W = (X[:, columns] - mean) / scale, on_host(posterior.components)[:, columns]
    T = Z @ (W.T @ np.linalg.pinv(W @ W.T, hermitian=True))
    return np.asarray(Z - (T * on_host(posterior.shrinkage)) @ W)


def _whitened(posterior: Posterior, X: Array) -> Array:
    return filtered((X - posterior.mean) / posterior.scale, posterior.partials)


# --- the distribution of a new row -------------------------------------------------------------


@combined.completes(combined.squares)
def covariance(posterior: Posterior) -> Array:
    """Covariance of a new row: scale·(Wᵀ diag(⟨t²⟩) W + σ²I)·scale, σ² as predictive."""
    W = posterior.components
    xp = array_namespace(W)
    p = W.shape[1]
    inner = xp.matmul(W.T * posterior.latent_variance, W)
    inner = inner + posterior.predictive_noise * xp.eye(p, dtype=W.dtype, device=W.device)
    partials = posterior.partials
    inner = unfiltered(unfiltered(inner, partials).T, partials) * posterior.tails.spread
    return inner * posterior.scale[:, None] * posterior.scale[None, :]


@combined.completes(combined.bordered)
def precision(posterior: Posterior) -> Array:
    """Inverse of `covariance`, by the matrix inversion lemma: W is orthonormal.

    It is 0 for columns that follow from others, and then a generalized inverse.
    """
    W, s = posterior.components, _noise_floor(posterior)
    xp = array_namespace(W)
    p = W.shape[1]
    share = posterior.latent_variance / (posterior.latent_variance + s)
    inner = xp.eye(p, dtype=W.dtype, device=W.device) - xp.matmul(W.T * share, W)
    partials = posterior.partials
    inner = transposed(transposed(inner, partials).T, partials) / posterior.tails.spread
    return inner / s / posterior.scale[:, None] / posterior.scale[None, :]


@combined.of_independent
def log_density(posterior: Posterior, X: Array) -> Array:
    """Log density of each row under a Gaussian with the predictive mean and covariance, or under
    Student's t where rows have variances of their own.
    """
    distance, log_det = _distances(posterior, X)
    return posterior.tails.log_density(distance, log_det, X.shape[1])


def _distances(posterior: Posterior, X: Array) -> tuple[Array, float]:
    """xᵀC⁻¹x of each row less the mean, and log|C|, for rows with a variance u of 1."""
    distance, log_det = distances_of_complete(
        _whitened(posterior, X),
        posterior.components,
        spread=posterior.latent_variance,
        noise=_noise_floor(posterior),
        scale=posterior.scale,
    )
    return distance, log_det - 2 * filtering.log_det(posterior.partials, X.shape[1])


@combined.completes(combined.rows)
def sample(posterior: Posterior, n: int, rng: np.random.Generator) -> Array:
    """Draw n new rows from the Gaussian with the predictive mean and covariance, or from Student's
    t where rows have variances of their own.
    """
    W = posterior.components
    xp = array_namespace(W)
    k, p = W.shape
    draws = xp.asarray(rng.normal(size=(n, k + p)), dtype=W.dtype, device=W.device)
    T = draws[:, :k] * xp.sqrt(posterior.latent_variance)
    noise = draws[:, k:] * float(np.sqrt(posterior.predictive_noise))
    rows = unfiltered(xp.matmul(T, W) + noise, posterior.partials)
    if posterior.tails.are_heavy:
        rows = rows * to_namespace(posterior.tails.draws(n, rng), W)[:, None]
    return rows * posterior.scale + posterior.mean


def _noise_floor(posterior: Posterior) -> float:
    """The predictive noise, kept above zero: data without noise have no density."""
    return _off_zero(posterior, posterior.predictive_noise)


def _off_zero(posterior: Posterior, noise: float) -> float:
    dtype = np.dtype(str(posterior.components.dtype).rpartition(".")[2])
    return max(noise, float(np.finfo(dtype).tiny))
