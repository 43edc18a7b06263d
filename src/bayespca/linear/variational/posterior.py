"""The result of sweeps of Bishop's model, in the features and units of the data."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import FloatArray
from bayespca.lowrank.holes_posterior import HolesPosterior
from bayespca.lowrank.variational import Hyper, posterior_of_weights

from .data import VariationalData
from .step import VariationalState, is_on, mean_variance, precision


def posterior(
    state: VariationalState, data: VariationalData, hyper: Hyper, dtype: str
) -> HolesPosterior:
    """The posterior with the columns that are on, largest first."""
    kept, unit = strongest(state, data)[: int(np.count_nonzero(is_on(state, data)))], data.unit
    # The loadings of constant columns are known to be 0.
    cov = data.live[:, None, None] * state.W_cov[np.ix_(kept, kept)] * unit**2
    variance = mean_variance(state, data, hyper) * unit**2
    mean = _mean(state, data, hyper)
    return posterior_of_weights(
        weights(state, data, kept),
        cov,
        mean=mean,
        mean_variance=np.full(mean.size, variance),
        noise_variance=noise_variance(state, data, hyper),
        dtype=dtype,
    )


def strongest(state: VariationalState, data: VariationalData) -> NDArray[np.intp]:
    """The order of the columns: those that are on first, by size."""
    return np.lexsort((-np.linalg.norm(state.W, axis=0), ~is_on(state, data)))


def weights(state: VariationalState, data: VariationalData, order: NDArray[np.intp]) -> FloatArray:
    """⟨W⟩ of some columns, in the features of the data."""
    return np.asarray(data.basis.T @ state.W[:, order] * data.unit)


def noise_variance(state: VariationalState, data: VariationalData, hyper: Hyper) -> float:
    """1/⟨τ⟩"""
    return data.unit**2 / precision(state, data, hyper)


def _mean(state: VariationalState, data: VariationalData, hyper: Hyper) -> FloatArray:
    """⟨μ⟩ of columns that vary, and the value of constant ones, which the basis leaves out."""
    mean: FloatArray = to_numpy(data.found.mean).astype(np.float64)
    if hyper.has_mean:
        mean = mean + (state.mu - data.mean) @ data.basis * data.unit
    return mean
