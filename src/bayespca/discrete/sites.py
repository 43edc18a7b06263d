"""Cells as measurements of their natural parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from bayespca.arrays.types import FloatArray


class Measuring(Protocol):
    """What cells say of their z: precisions ω, and ω times the value that was measured."""

    @property
    def omega(self) -> FloatArray: ...

    @property
    def tau(self) -> FloatArray: ...


class Measurement(NamedTuple):
    """ω and τ of some cells, drawn with the variables that make them normal; 0 in holes."""

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
        """Room for those of so many cells."""
        return cls(*(np.empty(shape) for _ in range(3)))

    @property
    def summed(self) -> Sites:
        """Sums over rows, as a single row: what is kept of cells that are too many to keep."""
        return Sites(*(values.sum(axis=0, keepdims=True) for values in vars(self).values()))

    def plus(self, other: Sites) -> Sites:
        """Sums of both."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Sites(*(one + two for one, two in pairs))

    def at(self, which: Any) -> Sites:
        return Sites(*(values[which] for values in vars(self).values()))

    def copy(self) -> Sites:
        return Sites(*(values.copy() for values in vars(self).values()))

    @property
    def turned(self) -> Sites:
        """Columns as rows, in the same memory."""
        return Sites(*(values.T for values in vars(self).values()))

    def put(self, which: Any, others: Sites) -> None:
        """Put others in some places."""
        for values, other in zip(vars(self).values(), vars(others).values(), strict=True):
            values[which] = other
