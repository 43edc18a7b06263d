"""Starts of the sweeps of Bishop's model with holes."""

from __future__ import annotations

from functools import partial

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.lowrank.filling import all_kept, fill
from bayespca.lowrank.holes import Holes
from bayespca.lowrank.variational import Hyper, shape_tau
from bayespca.spectrum.solving import solve
from bayespca.spectrum.tolerances import LEAST_NOISE_AT_START, START_NOISE

from .data import counts_of
from .idle import update_idle_latent, update_idle_weights
from .state import IdleColumns, VariationalHolesState

# Sweeps over the idle columns alone, before the first full sweep.
SWEEPS_OVER_IDLE = 5


def start(data: Holes, hyper: Hyper, q: int) -> VariationalHolesState:
    """Start from the closed form of the matrix after it has filled the holes a few times.

    A few more columns are on than the closed form keeps; they become idle if they do not pay.
    """
    filled = fill(data, most=q)
    right, spread, noise = filled.right, filled.spread, filled.noise_variance
    if hyper.alpha is not None:
        # A fixed α keeps more columns than a learned one.
        plan = partial(solve, method="vb", prior_variance=1 / hyper.alpha)
        right, spread, noise = all_kept(filled, data, plan, most=q)
        noise = max(noise, LEAST_NOISE_AT_START)
    size = np.sqrt(np.maximum(spread, 1e-6))
    return _started((right * size[:, None]).T, noise, data, hyper, q)


def random_start(
    data: Holes, hyper: Hyper, q: int, rng: np.random.Generator
) -> VariationalHolesState:
    """Start with all columns of W drawn from a normal of the data's size, as for complete data."""
    variance = float(data.squares.sum() / data.column_counts.sum()) or 1.0
    d = data.shape[1]
    W = np.sqrt(variance / q) * rng.normal(size=(d, q)) if q else np.zeros((d, 0))
    return _started(W, START_NOISE * variance, data, hyper, q)


def _started(
    W: FloatArray, noise: float, data: Holes, hyper: Hyper, q: int
) -> VariationalHolesState:
    """Start from W without covariances, μ at the means of the data, and the other columns idle."""
    d, H = W.shape
    counts = counts_of(data)
    tau = 1 / noise
    variance = 1 / (hyper.beta + tau * data.column_counts) if hyper.has_mean else np.zeros(d)
    idle = IdleColumns(q - H, np.full(d, noise / data.shape[0]), hyper.b_alpha + 0.5 * noise)
    for _ in range(SWEEPS_OVER_IDLE if idle.count else 0):
        idle = update_idle_weights(idle, update_idle_latent(idle, tau, data), tau, counts, hyper)
    return VariationalHolesState(
        W=W,
        W_cov=np.zeros((d, H, H)),
        mu=np.zeros(d),
        mu_variance=variance,
        b_alpha=hyper.b_alpha + 0.5 * (W**2).sum(axis=0),
        b_tau=noise * shape_tau(counts, hyper),
        idle=idle,
    )
