"""Residuals of a fit for some of the rows, in units of the noise."""

from __future__ import annotations

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import Array, FloatArray
from bayespca.lowrank.filtering import filtered
from bayespca.lowrank.posterior import Posterior
from bayespca.lowrank.records import PCAFit

from .signs import Signs, signs

# So many cells are enough to see what the noise is like, and few beside those that a fit reads.
CELLS = 1_000_000


def some_rows(X: Array) -> FloatArray:
    """Rows at equal distances, in float64 on the host: all, where they are few."""
    n, p = X.shape
    step = max(1, n // max(CELLS // p, 200))
    return np.asarray(to_numpy(X[::step, :]), dtype=np.float64)


def of_complete(X: Array, fit: PCAFit) -> Signs:
    """What is left of complete rows after a fit of complete data."""
    posterior = fit.posterior
    assert isinstance(posterior, Posterior)
    W = _host(posterior.components)
    live = (W != 0).any(axis=0) if len(W) else np.ones(W.shape[1], dtype=np.bool_)
    rows = (some_rows(X) - _host(posterior.mean)) / _host(posterior.scale)
    Z = filtered(rows, posterior.correlation)
    live &= np.einsum("ij,ij->j", Z, Z) > 0
    T = Z @ W.T * _host(posterior.shrinkage)
    a, b = _host(posterior.score_variance), _host(posterior.loading_variance)
    spread = a @ W**2 + (T**2 @ b)[:, None] + float(a @ b)
    s2 = posterior.noise_variance
    E = Z - T @ W
    return signs(E[:, live] / np.sqrt(s2), spread[:, live] / s2)


def _host(values: Array) -> FloatArray:
    return np.asarray(to_numpy(values), dtype=np.float64)
