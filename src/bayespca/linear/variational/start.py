"""The random start for sweeps of Bishop's model."""

from __future__ import annotations

import numpy as np

from bayespca.lowrank.variational import Hyper, shape_tau
from bayespca.spectrum.tolerances import START_NOISE

from .data import Scatter
from .step import VariationalState


def start(data: Scatter, hyper: Hyper, q: int, rng: np.random.Generator) -> VariationalState:
    """W from normal draws of the size of the data, τ from a tenth of their variance."""
    K = data.mean.size
    variance = float(data.scatter.sum()) / max(data.N * data.d, 1) or 1.0
    W = np.sqrt(variance / q) * rng.normal(size=(K, q)) if q else np.zeros((K, 0))
    return VariationalState(
        W=W,
        W_cov=np.zeros((q, q)),
        b_alpha=hyper.b_alpha + 0.5 * (W**2).sum(axis=0),
        b_tau=START_NOISE * variance * shape_tau(data.counts, hyper),
        mu=data.mean * hyper.has_mean,
    )
