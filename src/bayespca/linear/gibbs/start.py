"""Random starts of chains."""

from __future__ import annotations

import numpy as np

from bayespca.lowrank.variational import Hyper

from .data import GibbsData
from .step import GibbsState, column_precisions


def start(data: GibbsData, q: int, prior: Hyper, rng: np.random.Generator) -> GibbsState:
    """A start from the mean and size of the data alone, spread wider than the posterior.

    The noise is between a hundredth and all of the variance; columns of W have random directions,
    and lengths over two orders of magnitude.
    """
    d = data.d
    s2, lengths = 10 ** rng.uniform(-2, 0), 10 ** rng.uniform(-1.5, 0.5, size=q)
    W = lengths * rng.normal(size=(d, q)) / np.sqrt(d)
    mu = data.mean + rng.normal(size=d)
    return GibbsState(W, column_precisions(W, prior, rng), 1 / s2, mu)
