"""Uncertainty of the scores of new rows that is due to unknown variances along the components.

The prior of the scores has the variance of the fitted rows along the components. New rows have
another variance along them, and it was estimated from few rows: see `axes.variances_along`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayespca.arrays.namespaces import array_namespace
from bayespca.arrays.places import at
from bayespca.arrays.types import Array, FloatArray

from .axes import WEIGHTS
from .drawing import times

# A variance that is as good as 0.
SMALLEST = 1e-100


@dataclass(frozen=True, eq=False)
class NewRows:
    """Distribution of the covariance Δ of the scores of new rows.

    Attributes
    ----------
    expected
        d: the variances that the posterior assumes; (k,).
    variances
        Δₕₕ/dₕ at the quadrature points: (k, 9), to be weighted by `axes.WEIGHTS`.
    between
        Variance of Δₕₗ/√(dₕdₗ), whose mean is 0; (k, k), 0 on the diagonal.
    """

    expected: FloatArray
    variances: FloatArray
    between: FloatArray


def more_variance(
    cov: Array, mean: Array, off: Array, known: NewRows, noise: Array | float = 1.0
) -> Array:
    """⟨(m′ − T)²⟩ + diag⟨C′ − C⟩ of each score of new rows: (n, k), averaged over Δ.

    m and C are mean and covariance at the expected variances, and T = m − `off`. `cov` is C of each
    row (n, k, k), or the diagonal of a diagonal C that all rows share. A change δ of 1/Δₕₕ is of
    rank one: m′ − m = −Ceₕ·fmₕ and C′ − C = −f·CeₕeₕᵀC, f = δ/(1 + δCₕₕ). Changes of Δₕₗ count to
    first order: m′ − m = C(eₕmₗ + eₗmₕ)·Δₕₗ/(dₕdₗ). Where rows have noise of their own, variances
    are in units of that noise, which `noise` gives: (n, 1).
    """
    xp, weights = array_namespace(mean), at(mean, WEIGHTS)
    # Everything is in units of the expected variances, whose squares may overflow.
    d = at(mean, np.where(known.expected > 0, known.expected, 1.0))
    root = xp.sqrt(d)
    mean, off = mean / root, off / root
    cov = cov / d if cov.ndim == 1 else cov / root / root[:, None]
    delta = at(mean, 1 / np.maximum(known.variances, SMALLEST) - 1)
    own = cov if cov.ndim == 1 else xp.linalg.diagonal(cov)
    f = delta / (1 + delta * own[..., None])
    usual = xp.matmul(f, weights)
    spread = xp.matmul((f - usual[..., None]) ** 2, weights)
    across = xp.matmul(mean**2, at(mean, known.between))
    moved = off - _along(cov, usual * mean)
    narrower = noise * _along(cov**2, usual)
    return d * (moved**2 + _along(cov**2, spread * mean**2 + across) - narrower)


def _along(cov: Array, rows: Array) -> Array:
    return cov * rows if cov.ndim == 1 else times(cov, rows)
