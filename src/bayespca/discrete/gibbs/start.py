"""Starting points of chains: the variational posterior with some more components."""

from __future__ import annotations

import numpy as np

from bayespca.arrays.types import FloatArray

from .step import NaturalDraw, with_hyperparameters

# Additional components: the variational posterior drops those that it is not sure of.
SPARE = 10
# The size of their loadings at the start.
SMALL = 0.1


def columns(rank: int, most: int | None, shape: tuple[int, int]) -> int:
    """Number of components of draws: `most` if given, else the rank and some spare ones."""
    return min(rank + SPARE if most is None else most, *shape)


def start(
    b: FloatArray, prior: FloatArray, n: int, H: int, rng: np.random.Generator
) -> NaturalDraw:
    """The first state: loadings (B, μ) rescaled to scores of unit prior variance.

    Scores are 0, since a sweep draws them first.
    """
    strongest = np.argsort(-prior)[:H]
    more = SMALL * rng.normal(size=(len(b), H - strongest.size))
    B = b[:, strongest] * np.sqrt(prior[strongest])
    found = NaturalDraw(np.zeros((n, H)), np.column_stack([B, more, b[:, -1]]), np.ones(H), 1.0)
    return with_hyperparameters(found, rng)
