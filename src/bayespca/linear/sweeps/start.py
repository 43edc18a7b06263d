"""Starts of sweeps: normal draws, or the solution of the closed form."""

from __future__ import annotations

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.linear.data import Decomposed
from bayespca.lowrank.factors import Factors
from bayespca.spectrum.families import VB
from bayespca.spectrum.records import Moments

from .step import SweepState


def random_start(
    data: Decomposed,
    factors: Factors,
    H: int,
    noise_variance: float,
    rng: np.random.Generator,
    scale: float = 1.0,
) -> SweepState:
    """Means from N(0, scale²), covariances and priors scale²·I (aistats2014 Section 5)."""
    K = data.gamma.size
    unit = scale * scale * np.eye(H)
    prior_a, prior_b = _priors(factors, H, scale * scale)
    return SweepState(
        scale * rng.normal(size=(K, H)),
        scale * rng.normal(size=(K, H)),
        unit * factors.family.integrates_a,
        unit * factors.family.integrates_b,
        prior_a,
        prior_b,
        noise_variance,
    )


def start_at(
    data: Decomposed, factors: Factors, moments: Moments, noise_variance: float
) -> SweepState:
    """A start at the minimum of a closed form: each component along one singular vector."""
    learned = factors.prior.is_learned
    moments = moments.with_equal_priors() if learned else moments.with_unit_latent_prior()
    # Components that a learned prior has switched off are dropped, as are point estimates of 0.
    there = moments.prior_variance_a > 0
    if factors.family != VB:
        there &= moments.mean_a * moments.mean_b > 0
    kept = np.flatnonzero(there)
    shape = (data.gamma.size, kept.size)
    a, b = np.zeros(shape), np.zeros(shape)
    a[kept, range(kept.size)] = moments.mean_a[kept]
    b[kept, range(kept.size)] = moments.mean_b[kept]
    prior_a, prior_b = _priors(factors, kept.size, 1.0)
    if learned:
        prior_a = prior_b = moments.prior_variance_a[kept]
    return SweepState(
        a,
        b,
        np.diag(moments.variance_a[kept]),
        np.diag(moments.variance_b[kept]),
        prior_a,
        prior_b,
        noise_variance,
        n_gone=there.size - kept.size,
    )


def _priors(factors: Factors, H: int, learned: float) -> tuple[FloatArray, FloatArray]:
    if factors.prior.is_learned:
        return np.full(H, learned), np.full(H, learned)
    return np.ones(H), np.full(H, factors.prior.variance)
