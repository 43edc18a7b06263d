"""Where chains start."""

from __future__ import annotations

import numpy as np

from bayespca.lowrank.variational import Hyper

from .data import GibbsData
from .step import GibbsState, column_precisions


def start(data: GibbsData, q: int, prior: Hyper, rng: np.random.Generator) -> GibbsState:
    """A start that knows nothing of the data but their mean and size, spread wider than the answer.

    Noise between a hundredth and all of the variance, columns of W of random directions and of
    lengths over two orders of magnitude.
    """
    d = data.d
    s2, lengths = 10 ** rng.uniform(-2, 0), 10 ** rng.uniform(-1.5, 0.5, size=q)
    W = lengths * rng.normal(size=(d, q)) / np.sqrt(d)
    mu = data.mean + rng.normal(size=d)
    return GibbsState(W, column_precisions(W, prior, rng), 1 / s2, mu)
