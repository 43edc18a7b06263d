"""Ritz triplets: the approximations in a Krylov space to the singular triplets of A."""

from __future__ import annotations

from dataclasses import dataclass

from bayespca.arrays.types import Array, FloatArray


@dataclass(frozen=True)
class Ritz:
    """Singular values of B in decreasing order, and right vectors as rows on the device of B.

    `leak` is the norm of their part in the frontier. `counts` estimates how many singular values
    of A each stands for, from its weight in the random start.
    """

    values: FloatArray
    right: Array
    leak: FloatArray
    counts: FloatArray
