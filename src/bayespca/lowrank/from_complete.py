"""The posterior of complete data in the form that rows with holes need."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import Array, FloatArray
from bayespca.spectrum.tolerances import LEAST_RIDGE

from . import combined
from .filtering import stationary, unfiltered
from .holes_posterior import HolesPosterior
from .posterior import Posterior
from .rows import Columns


def general(posterior: Posterior) -> HolesPosterior:
    """A posterior of complete data in the form that rows with holes need.

    With the score's prior variance c², 1/shrinkage = 1 + L·(loading variance) + σ²/c². This form
    treats correlated noise of neighbours as independent, with the same variance.
    """
    whole, posterior = posterior, combined.independent(posterior)
    before = stationary(posterior.partials)
    components = to_numpy(posterior.components).astype(np.float64)
    score_variance = to_numpy(posterior.score_variance)
    # Constant columns do not count as features: their loadings are known to be 0.
    live = np.any(components != 0, axis=0)
    variance = to_numpy(posterior.loading_variance).astype(np.float64)
    shrinkage = to_numpy(posterior.shrinkage).astype(np.float64)
    found = from_directions(
        mean=posterior.mean,
        scale=posterior.scale,
        components=unfiltered(posterior.components, posterior.partials),
        ridge=1 / shrinkage - 1 - live.sum() * variance,
        loading_variance=live[:, None] * variance * before,
        latent_variance=to_numpy(posterior.latent_variance).astype(np.float64),
        noise_variance=posterior.noise_variance * before,
        integrated=bool((score_variance > 0).any()) or not score_variance.size,
    )
    found = replace(found, tails=posterior.tails, learned_from=posterior.learned_from)
    return combined.expanded(found, whole.combined) if whole.combined else found


def from_directions(
    *,
    mean: Array,
    scale: Array,
    components: Array,
    ridge: FloatArray,
    loading_variance: FloatArray,
    latent_variance: FloatArray,
    noise_variance: float,
    integrated: bool = True,
) -> HolesPosterior:
    """The posterior record of a fit of complete data, for rows with holes.

    `ridge` is σ² over the prior variance of the scores (k,), `loading_variance` the posterior
    variance of the entries of the directions (p, k).
    """
    k, p = components.shape
    unit = float(np.sqrt(latent_variance.max())) if k else float(np.sqrt(noise_variance))
    unit = unit or 1.0
    b = np.zeros((p, k + 1))
    b[:, :k] = to_numpy(components).T
    b_cov = np.zeros((p, k + 1, k + 1))
    b_cov[:, range(k), range(k)] = loading_variance
    s2 = max(noise_variance / unit**2, np.finfo(np.float64).tiny)
    # A flat prior leaves scores of rows with few cells undetermined: this picks the smallest.
    prior_a = s2 / np.maximum(ridge, LEAST_RIDGE)
    columns = Columns(b, b_cov, prior_a, s2, integrated)
    basis = np.eye(k) * unit
    return HolesPosterior(columns, mean, scale, unit, components, basis, latent_variance / unit**2)
