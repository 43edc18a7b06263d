"""Thresholds on singular values under a given prior, as solved and as printed (σ = 1)."""

from __future__ import annotations

import numpy as np

from bayespca import spectrum

NAMES = {"vb": "simple-VB", "pb": "PB", "pb-a": "PB-A", "map": "MAP"}


def solved(method: str, L: int, M: int, c: float) -> float:
    """What the package finds for a matrix of this shape; c is infinite for a flat prior."""
    any_matrix = spectrum.Spectrum([1.0], (L, M))
    return spectrum.solve(
        any_matrix, method, noise_variance=1.0, prior_variance=c**2, other_ranks=False
    ).threshold


def printed(method: str, L: int, M: int, c: float) -> float:
    """Eq. 28, 26, 23 and 33."""
    kappa = (L + M + c**-2) / 2
    return {
        "vb": np.sqrt(kappa + np.sqrt(kappa**2 - L * M)),
        "pb": np.sqrt(max(L, M) + c**-2),
        "pb-a": np.sqrt(M + c**-2),
        "map": 1 / c,
    }[method]


def largest_error(cases: list[tuple[str, int, int, float]]) -> float:
    """The largest relative difference between the two."""
    return max(abs(solved(*case) / printed(*case) - 1) for case in cases)
