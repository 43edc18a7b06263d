"""The record of draws from the posterior of natural parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bayespca.arrays.types import FloatArray, Matrix, Stacks


@dataclass(frozen=True, eq=False)
class NaturalDraws:
    """Draws of loadings and means; the first two axes are chain and draw.

    Attributes
    ----------
    b
        Rows of (B, μ), for scores of unit prior variance: (chain, draw, p, H + 1). Columns of B
        may be rotated among each other: compare products, or natural parameters.
    log_likelihood
        log p(x | z) of all observed cells at each draw: (chain, draw).
    seed
        Seed of the draws of scores given these loadings.
    """

    b: Stacks
    log_likelihood: Matrix
    seed: int

    @property
    def size(self) -> int:
        """Number of draws of all chains."""
        return int(self.log_likelihood.size)

    @property
    def variance(self) -> FloatArray:
        """Variance of z over rows, averaged over columns, at each draw: (chain, draw)."""
        return np.asarray((self.b[..., :-1] ** 2).sum(axis=-1).mean(axis=-1))

    def quantities(self) -> dict[str, FloatArray]:
        """Identified quantities, which show whether the chains have mixed."""
        return {"log_likelihood": self.log_likelihood, "variance": self.variance}

    def __iter__(self) -> Iterator[FloatArray]:
        """(B, μ) of all draws, chain by chain."""
        return iter(self.b.reshape(self.size, *self.b.shape[2:]))

    def check(self) -> None:
        """Raise ValueError unless the parts fit together and are finite."""
        chains, n, p, width = self.b.shape
        if self.log_likelihood.shape != (chains, n) or not chains * n * p * width:
            raise ValueError("the arrays of NaturalDraws are empty or of different sizes")
        if not np.isfinite(self.b).all() or self.seed < 0:
            raise ValueError("the draws of NaturalDraws are not finite, or their seed is negative")
