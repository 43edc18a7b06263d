"""NaN and infinity among numbers in memory: whether there are any, how many, and where.

Most data have none, which one sum shows at the speed of memory. Only where it is not finite must
the cells be searched, in vain if finite numbers overflowed. The same sum shows whether numbers may
be so large or small that their squares overflow or vanish.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from bayespca.arrays.namespaces import array_namespace, is_numpy_array, row_blocks, to_numpy
from bayespca.arrays.types import Array

# Number of cells searched at a time, while they are in cache.
PART = 1 << 16
# The largest of all numbers must be within these for variances to be floating-point numbers.
RANGE = (1e-152, 1e152)
# Sums outside of these are reasons to search; sums of centred data are that much smaller.
USUAL = (1e-130, 1e130)


@dataclass(frozen=True)
class NotFinite:
    """Numbers of cells that are NaN and that are infinite.

    `largest` is the largest magnitude of the others where it is outside of `RANGE`, else 0.
    """

    nan: int = 0
    infinite: int = 0
    largest: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.nan or self.infinite)

    def __add__(self, other: NotFinite) -> NotFinite:
        largest = max(self.largest, other.largest)
        return NotFinite(self.nan + other.nan, self.infinite + other.infinite, largest)


def not_finite(X: Array) -> NotFinite:
    """Count the NaN and the infinities of an array of any library."""
    if USUAL[0] < abs(_sum(X)) < USUAL[1]:
        return NotFinite()
    found = sum((_counted(part) for part in _parts(X)), NotFinite())
    is_usual = not found.largest or RANGE[0] < found.largest < RANGE[1]
    return replace(found, largest=0.0) if is_usual else found


def _sum(X: Array) -> float:
    # An inner product would be as fast on one thread, and slower where those of BLAS are late.
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        return float(array_namespace(X).sum(X))


def _parts(X: Array) -> Iterator[Array]:
    """All cells, in parts that stay in cache."""
    if is_numpy_array(X) and X.flags.forc:
        flat = X.reshape(-1, order="A")
        return (flat[i : i + PART] for i in range(0, flat.size, PART))
    return (X[rows, ...] for rows in row_blocks(X))


def first_not_finite(X: Array) -> tuple[int, ...]:
    """The place of the first cell that is not finite, in the order of rows; there must be one."""
    return _first(~array_namespace(X).isfinite(X))


def first_nan(X: Array) -> tuple[int, ...]:
    """The place of the first NaN; there must be one."""
    return _first(array_namespace(X).isnan(X))


def _first(wrong: Array) -> tuple[int, ...]:
    wrong = to_numpy(wrong)
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))


def _counted(X: Array) -> NotFinite:
    xp = array_namespace(X)
    nan, infinite = (int(xp.count_nonzero(what(X))) for what in (xp.isnan, xp.isinf))
    finite = xp.where(xp.isfinite(X), X, xp.zeros_like(X)) if nan or infinite else X
    return NotFinite(nan, infinite, float(xp.max(xp.abs(finite))) if math.prod(X.shape) else 0.0)
