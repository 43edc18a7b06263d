"""Checks of records of moments before they are used: all raise ValueError in the same words."""

from __future__ import annotations

import numpy as np

from .types import Array


def are_finite(*arrays: Array) -> bool:
    return all(np.isfinite(a).all() for a in arrays)


def check_sizes(record: str, agree: bool) -> None:
    """Raise ValueError unless the arrays of a record `agree` in size."""
    if not agree:
        raise ValueError(f"the arrays of {record} are of different sizes")


def check_moments(record: str, *moments: Array, positive: bool) -> None:
    """Raise ValueError unless moments are finite and variances `positive`."""
    if not (are_finite(*moments) and positive):
        raise ValueError(f"the moments of {record} are not finite or its variances not positive")


def check_covariances(record: str, valid: bool) -> None:
    """Raise ValueError unless covariances are `valid` by `packing.are_covariances`."""
    if not valid:
        raise ValueError(f"the covariances of {record} are not positive semidefinite")
