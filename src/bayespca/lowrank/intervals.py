"""Uncertainty that intervals add to the posterior of a PCA: see `axes` and `spectrum.left_out`."""

from __future__ import annotations

import numpy as np

from bayespca.arrays.namespaces import on_host, to_namespace
from bayespca.arrays.types import Array, FloatArray
from bayespca.spectrum.left_out import strengths

from .axes import (
    WEAKEST,
    Axes,
    NewRows,
    errors_of_strengths,
    leaning_out,
    standard_deviations,
    variances_along,
)
from .combined import independent, spread
from .filtering import stationary
from .holes_posterior import (
    HolesPosterior,
    along_components,
    latent_variance_of_scores,
)
from .imputing import Unknown
from .posterior import Posterior
from .records import PCAFit, VariationalFit

# The contribution of components that were left out is a product of scores and loadings, present or
# not: 95 % of it lies within 1.96 standard deviations times √1.24 to √1.32. The rest allows for
# their strengths, which few rows leave uncertain, and which are underestimated where components are
# left out. Chosen so that intervals hold on simulated data; the page of claims tests them on other
# shapes and seeds.
WIDER, ROWS = 1.4, 12.0
# The largest share of the noise that components left out may have, and the fewest degrees of
# freedom of the noise: with fewer, Student's t has no variance.
MOST_LEFT_OUT, LEAST_DEGREES = 0.9, 3.0


def component_std(fit: PCAFit | VariationalFit) -> Array:
    """Standard deviation of the entries of the directions about the axes of the population."""
    posterior = independent(fit.posterior)
    found = axes_of(fit)
    live = np.any(found.components != 0, axis=0) | (found.counts < found.n)
    noise = stationary(posterior.partials) if isinstance(posterior, Posterior) else 1.0
    std = live * standard_deviations(found, on_host(posterior.directions), noise)
    std = spread(fit.posterior.combined, std * on_host(posterior.scale))
    return to_namespace(std / on_host(fit.posterior.scale), posterior.components)


def axes_of(fit: PCAFit | VariationalFit) -> Axes:
    """The `Axes` of a fit, which determine the spread of its components."""
    posterior, n = independent(fit.posterior), float(fit.spectrum.shape[1])
    W = on_host(posterior.components)
    if isinstance(posterior, HolesPosterior):
        # Strengths are second moments, uncertain directions included.
        found = latent_variance_of_scores(posterior) / posterior.noise_variance
        found = found * (1 + along_components(posterior).sum(axis=0))
        return Axes(W, found, fit.left_out, _counts(posterior, n), n)
    found = strengths(fit.kept_singular_values, fit.posterior.noise_variance, fit.spectrum.shape)
    return Axes(W, found, fit.left_out, np.full(W.shape[1], n), n)


def _counts(posterior: HolesPosterior, n: float) -> FloatArray:
    """Observed cells of each column: σ² times the precision of its mean, given its loadings.

    It is n where there is no mean, or the column is constant.
    """
    columns = posterior.columns
    precision = np.linalg.pinv(columns.b_cov, hermitian=True)[:, -1, -1]
    found = np.minimum(columns.noise_variance * precision, n)
    return np.where(columns.b_cov[:, -1, -1] > 0, found, n)


def of_new_rows(fit: PCAFit | VariationalFit) -> NewRows:
    """Distribution of the covariance of the scores of new rows; see `axes.variances_along`.

    It is relative to the variances of the posterior. The covariance of two scores, estimated from
    the same rows, has half the variance that their variances have: ½√(VₕVₗ).
    """
    posterior, found = fit.posterior, axes_of(fit)
    if isinstance(posterior, HolesPosterior):
        d = latent_variance_of_scores(posterior)
    else:
        d = np.asarray(on_host(posterior.latent_variance), dtype=np.float64)
    ratio = variances_along(found) / np.maximum(found.strengths, WEAKEST)[:, None]
    size = np.sqrt(np.minimum(errors_of_strengths(found), 1.0))
    between = 0.5 * np.outer(size, size)
    np.fill_diagonal(between, 0.0)
    return NewRows(d, ratio, between)


def unknown(fit: PCAFit | VariationalFit, posterior: HolesPosterior, degrees: float) -> Unknown:
    """Uncertainty that intervals of cells add to the posterior, with ν `degrees` for the noise."""
    return Unknown(covariances_of_columns(fit, posterior), variance_left_out(fit), degrees)


def degrees_of_noise(fit: PCAFit | VariationalFit) -> float:
    """ν of a noise variance that is estimated from the cells: the estimate has variance 2σ⁴/ν.

    If no components were left out, ν counts the cells that are not spent on the mean and on k
    components, f(n − k)(p − k) with the share f of observed cells. Components that were left out
    are noise that the cells of a row have in common: with eigenvalues λ of the covariance of this
    noise, whose mean is σ², ν is divided by 1 + f(Σλ²/(pσ⁴) − 1).
    """
    (p, n), k = fit.spectrum.shape, fit.n_components
    f = _rows(fit) / max(n, 1.0)
    return float(max(f * (n - k) * (p - k) / (1 + f * common_noise(fit)), LEAST_DEGREES))


def common_noise(fit: PCAFit | VariationalFit) -> float:
    """Σλ²/(pσ⁴) − 1 of the eigenvalues of the noise, components that were left out included."""
    p, (sizes, probabilities) = fit.spectrum.shape[0], fit.left_out.T
    total, squares = sizes @ probabilities, sizes**2 @ probabilities
    rest = 1 - min(total / p, MOST_LEFT_OUT)
    return float(max(rest**2 + (2 * rest * total + squares) / p - 1, 0.0))


def covariances_of_columns(fit: PCAFit | VariationalFit, posterior: HolesPosterior) -> FloatArray:
    """Covariances of (B, μ) for intervals, of independent columns: (p, k + 1, k + 1).

    A factorised posterior has the uncertainty of loadings for given scores. Here directions are
    never more certain than `axes.leaning_out` says, which allows for uncertain scores and for
    components that were left out. The mean of complete data has the variance σ²/n.
    """
    posterior = independent(posterior)
    k, covariances = posterior.columns.rank, posterior.columns.b_cov.copy()
    if k:
        # Factors for the deviations of b: for each column a diagonal matrix in the coordinates of
        # the components, w = M⁻ᵀb. Entries of a wholly unknown direction have the variance 1/p.
        own, least = along_components(posterior), leaning_out(axes_of(fit)).T
        least = np.minimum(least, 1 / len(own))
        ratio = np.divide(least, own, where=own > 0, out=np.ones_like(own))
        basis = posterior.basis / posterior.unit
        factors = np.sqrt(np.maximum(ratio, 1.0))
        turned = (basis.T * factors[:, None, :]) @ np.linalg.pinv(basis).T
        covariances[:, :k] = turned @ covariances[:, :k]
        covariances[:, :, :k] = covariances[:, :, :k] @ turned.transpose(0, 2, 1)
    if isinstance(fit.posterior, Posterior) and fit.n_counted > fit.spectrum.shape[1]:
        covariances[:, k, k] = posterior.columns.noise_variance / fit.n_counted
    return covariances


def variance_left_out(fit: PCAFit | VariationalFit) -> float:
    """Variance of a noise-free scaled cell that its posterior does not contain.

    Components that were left out are spread over all cells: Σ P(l)·ℓₗσ²/p, with a margin.
    """
    sizes, probabilities = fit.left_out.T
    s2, p = fit.posterior.noise_variance, fit.spectrum.shape[0]
    wider = WIDER * (1 + ROWS / max(_rows(fit), 1.0))
    return float(wider * s2 * (sizes @ probabilities) / p)


def _rows(fit: PCAFit | VariationalFit) -> float:
    """Number of complete rows that would have as many cells as were observed."""
    n = float(fit.spectrum.shape[1])
    posterior = independent(fit.posterior)
    return float(_counts(posterior, n).mean()) if isinstance(posterior, HolesPosterior) else n
