"""Whitening, which makes noise equal everywhere: scales of rows and columns, and a filter."""

from __future__ import annotations

from dataclasses import dataclass

from bayespca.lowrank.scales import Scales


@dataclass(frozen=True, eq=False)
class Whitening:
    """v_ij = (x_ij − μⱼ)/√(uᵢvⱼ), filtered along the features with φ (`lowrank.filtering`).

    `rows` is None where all are equal.
    """

    columns: Scales
    rows: Scales | None = None
    phi: float = 0.0
