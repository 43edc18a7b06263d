"""What sweeps and readers ask of a likelihood.

A likelihood is a value without state. Its own parameters, a noise variance for example, are a row
of real numbers for each column of the matrix, (q, P), without bounds: logarithms of what is
positive.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray

from ..sites import Measurement

BoolArray = NDArray[np.bool_]


class ExpectedLikelihood(NamedTuple):
    """E = ⟨log p(x | z)⟩ over z ~ N(m, v) of each cell, ∂E/∂m, and ω = −2 ∂E/∂v = −⟨(log p)''⟩."""

    log_likelihood: FloatArray
    slope: FloatArray
    omega: FloatArray


class Null(NamedTuple):
    """A column by itself, as if all its cells had one z: that z (q,), and parameters (q, P)."""

    mean: FloatArray
    parameters: FloatArray


@dataclass(frozen=True)
class Likelihood(ABC):
    """p(x | z) of cells; arrays of cells have columns of the matrix as columns: (n, q)."""

    name: str

    @abstractmethod
    def expected(
        self, x: FloatArray, m: FloatArray, v: FloatArray, parameters: FloatArray
    ) -> ExpectedLikelihood:
        """⟨log p(x | z)⟩ and its derivatives."""

    @abstractmethod
    def null(self, x: FloatArray, seen: FloatArray, offset: FloatArray) -> Null:
        """Columns by themselves: `seen` is 1 where there is a cell, z is the mean plus `offset`."""

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
        """Var[x | z]; of ranks, that of their codes."""

    def updated(
        self, x: FloatArray, m: FloatArray, v: FloatArray, seen: FloatArray, parameters: FloatArray
    ) -> FloatArray:
        """Parameters with a larger Σ⟨log p(x | z)⟩ over the cells that are there, or the same."""
        return parameters

    def augmented(
        self, x: FloatArray, z: FloatArray, parameters: FloatArray, rng: np.random.Generator
    ) -> Measurement:
        """Draws, given z, of variables with which p(x | z) ∝ exp(τz − ½ωz²)."""
        raise NotImplementedError(f"there are no such variables for {self.name} cells")

    @property
    def augments(self) -> bool:
        """Whether there are such variables."""
        return type(self).augmented is not Likelihood.augmented

    def reach(self, apart: FloatArray) -> FloatArray:
        """How far from its mean a cell would have z: `apart` is the slope of log p there over ω."""
        return apart

    @property
    def learns(self) -> bool:
        """Whether there are parameters to learn."""
        return type(self).updated is not Likelihood.updated


def no_parameters(q: int) -> FloatArray:
    """Those of a likelihood without any."""
    return np.zeros((q, 0))
