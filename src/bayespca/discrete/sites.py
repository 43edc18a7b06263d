"""TableCells as measurements of their natural parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayespca.arrays.types import FloatArray


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

    def at(self, which: Any) -> Sites:
        return Sites(*(values[which] for values in vars(self).values()))

    @property
    def turned(self) -> Sites:
        """Columns as rows, in the same memory."""
        return Sites(*(values.T for values in vars(self).values()))

    def put(self, which: Any, others: Sites) -> None:
        """Put others in some places."""
        for values, other in zip(vars(self).values(), vars(others).values(), strict=True):
            values[which] = other
