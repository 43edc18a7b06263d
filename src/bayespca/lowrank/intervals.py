"""What intervals of a finished PCA add to its posterior: see `axes` and `spectrum.left_out`."""

from __future__ import annotations

import numpy as np

from bayespca.arrays.namespaces import on_host, to_namespace
from bayespca.arrays.types import Array, FloatArray
from bayespca.spectrum.left_out import strengths

from .axes import Axes, standard_deviations
from .holes_posterior import HolesPosterior, along_components, latent_variance_of_scores
from .posterior import Posterior
from .records import PCAFit, VariationalFit

# What is left out is a product of scores and loadings, there or not: 95 % of it lie within 1.96
# standard deviations times √1.24 to √1.32. The rest is for strengths that are not known, chosen
# where intervals of simulated data hold; the page of claims has it on other shapes and seeds.
WIDER = 1.5


def component_std(fit: PCAFit | VariationalFit) -> Array:
    """Standard deviation of the entries of the components about the axes of the population."""
    posterior = fit.posterior
    found = _of_complete(fit) if isinstance(posterior, Posterior) else _of_holes(fit, posterior)
    live = np.any(found.components != 0, axis=0) | (found.counts < found.n)
    return to_namespace(standard_deviations(found) * live, posterior.components)


def _of_complete(fit: PCAFit | VariationalFit) -> Axes:
    W = on_host(fit.posterior.components)
    n = float(fit.spectrum.shape[1])
    found = strengths(fit.kept_singular_values, fit.posterior.noise_variance, fit.spectrum.shape)
    return Axes(W, found, fit.left_out, np.full(W.shape[1], n), n)


def _of_holes(fit: PCAFit | VariationalFit, posterior: HolesPosterior) -> Axes:
    """Strengths are second moments: what is not known of the directions is part of them."""
    n, variances = float(fit.spectrum.shape[1]), latent_variance_of_scores(posterior)
    found = variances / posterior.noise_variance * (1 + along_components(posterior).sum(axis=0))
    W = on_host(posterior.components)
    return Axes(W, found, fit.left_out, _counts(posterior, n), n)


def _counts(posterior: HolesPosterior, n: float) -> FloatArray:
    """Cells of each column: σ² times the precision of its mean, given its loadings.

    All n where there is no mean, or the column is constant.
    """
    columns = posterior.columns
    precision = np.linalg.pinv(columns.b_cov, hermitian=True)[:, -1, -1]
    found = np.minimum(columns.noise_variance * precision, n)
    return np.where(columns.b_cov[:, -1, -1] > 0, found, n)


def variance_left_out(fit: PCAFit | VariationalFit) -> float:
    """Variance of a cell without noise, of scaled data, that its posterior does not contain.

    What is left out is spread over all cells: Σ P(l)·ℓₗσ²/p. The mean of complete data has σ²/n.
    """
    sizes, probabilities = fit.left_out.T
    s2, (p, M) = fit.posterior.noise_variance, fit.spectrum.shape
    of_mean = 0.0
    if isinstance(fit.posterior, Posterior) and fit.n_samples > M:
        of_mean = s2 / fit.n_samples
    return float(WIDER * s2 * (sizes @ probabilities) / p) + of_mean
