"""The interface of a likelihood.

A likelihood has no state. Its parameters, for example a noise variance, are a row of unbounded real
numbers for each column of the matrix, (q, P): positive quantities are stored as logarithms.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray

BoolArray = NDArray[np.bool_]


class Measurement(NamedTuple):
    """Draws of ω and τ of some cells, from the augmentation that makes them normal; 0 in holes."""

    omega: FloatArray
    tau: FloatArray


class ExpectedLikelihood(NamedTuple):
    """E = ⟨log p(x | z)⟩ over z ~ N(m, v) of each cell, ∂E/∂m, and ω = −2 ∂E/∂v = −⟨(log p)''⟩."""

    log_likelihood: FloatArray
    slope: FloatArray
    omega: FloatArray


class Null(NamedTuple):
    """Columns by themselves, with one z for all cells: that z (q,), and parameters (q, P)."""

    mean: FloatArray
    parameters: FloatArray


@dataclass(frozen=True)
class Likelihood(ABC):
    """p(x | z) of cells; arrays of cells are (n, q), with q columns of the matrix."""

    name: str

    @abstractmethod
    def expected(
        self, x: FloatArray, m: FloatArray, v: FloatArray, parameters: FloatArray
    ) -> ExpectedLikelihood:
        """⟨log p(x | z)⟩ and its derivatives."""

    @abstractmethod
    def null(self, x: FloatArray, seen: FloatArray, offset: FloatArray) -> Null:
        """Estimates of columns by themselves, with z = mean + `offset`; `seen` is 0 in holes."""

    @abstractmethod
    def mean(self, m: FloatArray, v: FloatArray, parameters: FloatArray) -> FloatArray:
        """⟨E[x | z]⟩ over z ~ N(m, v)."""

    @abstractmethod
    def quantile(
        self, level: float, m: FloatArray, v: FloatArray, parameters: FloatArray
    ) -> FloatArray:
        """The least value x with ⟨p(≤ x | z)⟩ ≥ level, over z ~ N(m, v)."""

    @abstractmethod
    def drawn(self, z: FloatArray, parameters: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Values drawn from p(x | z)."""

    @abstractmethod
    def variance(self, z: FloatArray, parameters: FloatArray) -> FloatArray:
        """Var[x | z]; for ranks, the variance of their codes."""

    def updated(
        self, x: FloatArray, m: FloatArray, v: FloatArray, seen: FloatArray, parameters: FloatArray
    ) -> FloatArray:
        """Parameters with a larger or equal Σ⟨log p(x | z)⟩ over the observed cells."""
        return parameters

    def augmented(
        self, x: FloatArray, z: FloatArray, parameters: FloatArray, rng: np.random.Generator
    ) -> Measurement:
        """Draws of ω and τ given z such that p(x | z, ω) ∝ exp(τz − ½ωz²)."""
        raise NotImplementedError(
            f"{self.name} cells have no normal augmentation, so they cannot be sampled"
        )

    def reach(self, apart: FloatArray) -> FloatArray:
        """Distance from the mean of the z that a cell by itself prefers.

        `apart` is the slope of log p at the mean, divided by ω.
        """
        return apart

    @property
    def learns(self) -> bool:
        """Whether there are parameters to learn."""
        return type(self).updated is not Likelihood.updated


def no_parameters(q: int) -> FloatArray:
    """The parameters (q, 0) of a likelihood without any."""
    return np.zeros((q, 0))
