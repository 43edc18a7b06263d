"""Cells as measurements of their natural parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from bayespca.arrays.types import FloatArray


class Measuring(Protocol):
    """Cells as measurements of z: precisions ω, and τ, which is ω times the measured value."""

    @property
    def omega(self) -> FloatArray: ...

    @property
    def tau(self) -> FloatArray: ...


class Measurement(NamedTuple):
    """Draws of ω and τ of some cells, from the augmentation that makes them normal; 0 in holes."""

    omega: FloatArray
    tau: FloatArray


@dataclass(frozen=True, eq=False)
class Sites:
    """ω, τ and ⟨log p(x | z)⟩ of some cells; all 0 in holes."""

    omega: FloatArray
    tau: FloatArray
    log_likelihood: FloatArray

    @classmethod
    def empty(cls, shape: tuple[int, int]) -> Sites:
        """Uninitialised sites of a matrix of this shape."""
        return cls(*(np.empty(shape) for _ in range(3)))

    @property
    def summed(self) -> Sites:
        """Sums over rows, as a single row: all that is kept of a sparse matrix."""
        return Sites(*(values.sum(axis=0, keepdims=True) for values in vars(self).values()))

    def plus(self, other: Sites) -> Sites:
        """The sum of both."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Sites(*(one + two for one, two in pairs))

    def at(self, which: Any) -> Sites:
        return Sites(*(values[which] for values in vars(self).values()))

    def copy(self) -> Sites:
        return Sites(*(values.copy() for values in vars(self).values()))

    @property
    def turned(self) -> Sites:
        """The transpose, in the same memory."""
        return Sites(*(values.T for values in vars(self).values()))

    def put(self, which: Any, others: Sites) -> None:
        """Overwrite some of the sites, in place."""
        for values, other in zip(vars(self).values(), vars(others).values(), strict=True):
            values[which] = other
