"""Where chains start: at the variational answer, with some components more."""

from __future__ import annotations

import numpy as np

from bayespca.arrays.types import FloatArray

from .step import NaturalDraw, with_hyperparameters

# Components beyond those that the variational posterior keeps, which drops what it is not sure of.
SPARE = 10
# The size of their loadings at the start.
SMALL = 0.1


def columns(rank: int, most: int | None, shape: tuple[int, int]) -> int:
    """The number of components of draws: as many as are allowed where that was said."""
    return min(rank + SPARE if most is None else most, *shape)


def start(
    b: FloatArray, prior: FloatArray, n: int, H: int, rng: np.random.Generator
) -> NaturalDraw:
    """Loadings (B, μ) with prior variances of scores, in coordinates where these have variance 1;
    scores of 0, as they are drawn first.
    """
    strongest = np.argsort(-prior)[:H]
    more = SMALL * rng.normal(size=(len(b), H - strongest.size))
    B = b[:, strongest] * np.sqrt(prior[strongest])
    found = NaturalDraw(np.zeros((n, H)), np.column_stack([B, more, b[:, -1]]), np.ones(H), 1.0)
    return with_hyperparameters(found, rng)
