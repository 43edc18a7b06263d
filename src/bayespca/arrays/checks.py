"""What records of moments check before they are used: each raises ValueError in the same words."""

from __future__ import annotations

import numpy as np

from .types import Array


def are_finite(*arrays: Array) -> bool:
    return all(np.isfinite(a).all() for a in arrays)


def check_sizes(record: str, agree: bool) -> None:
    """`agree` says whether the arrays of a record have the sizes that they should."""
    if not agree:
        raise ValueError(f"the arrays of {record} are of different sizes")


def check_moments(record: str, *moments: Array, positive: bool) -> None:
    """Moments must be finite; `positive` says whether all variances are."""
    if not (are_finite(*moments) and positive):
        raise ValueError(f"the moments of {record} are not finite or its variances not positive")


def check_covariances(record: str, valid: bool) -> None:
    """`valid` says whether no variance is negative: see `packing.are_covariances`."""
    if not valid:
        raise ValueError(f"the covariances of {record} are none")
