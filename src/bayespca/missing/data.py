"""A matrix with holes, as the updates want it: at unit scale, zeros in the holes, by pattern."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Holes:
    """Data with holes: rows are samples.

    Attributes
    ----------
    values
        (X − location)/unit where observed, 0 elsewhere: n×p.
    patterns
        The different rows of the mask, 1.0 where observed: m×p, m ≤ n.
    pattern
        Which of them each row has: (n,).
    location, unit
        What was subtracted from the columns, and divided by.
    """

    values: FloatArray
    patterns: FloatArray
    pattern: NDArray[np.intp]
    location: FloatArray
    unit: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        n, p = self.values.shape
        return int(n), int(p)

    @property
    def mask(self) -> FloatArray:
        """1.0 where observed: n×p."""
        return self.patterns[self.pattern]

    @property
    def freedom(self) -> int:
        """M: rows less the one that the mean takes."""
        return max(len(self.pattern) - 1, 1)

    @property
    def column_counts(self) -> FloatArray:
        """Observed cells of each column."""
        rows = np.bincount(self.pattern, minlength=len(self.patterns))
        return np.asarray(rows @ self.patterns)

    @property
    def pattern_weights(self) -> FloatArray:
        """Rows of each pattern, of M in all: what the covariance of a pattern counts."""
        rows = np.bincount(self.pattern, minlength=len(self.patterns))
        return np.asarray(rows * (self.freedom / len(self.pattern)), dtype=np.float64)


def observed(X: FloatArray, *, center: bool, scale: bool) -> Holes:
    """Sort out a matrix with NaN: where columns lie, how large they are, which rows are alike.

    All columns have one unit unless they are scaled, so that a single noise variance keeps its
    meaning; a column that does not vary keeps the common one.
    """
    seen = ~np.isnan(X)
    counts = seen.sum(axis=0)
    filled = np.where(seen, X, 0.0)
    location = filled.sum(axis=0) / np.maximum(counts, 1) if center else np.zeros(X.shape[1])
    values = np.where(seen, filled - location, 0.0)
    squares = np.einsum("ij,ij->j", values, values)
    overall = np.sqrt(squares.sum() / max(seen.sum(), 1)) or 1.0
    unit = np.full(X.shape[1], overall)
    if scale:
        std = np.sqrt(squares / np.maximum(counts - center, 1))
        unit = np.where(std > 0, std, unit)
    patterns, pattern = patterns_of(seen)
    return Holes(values / unit, patterns, pattern, location, unit)


def patterns_of(seen: NDArray[np.bool_]) -> tuple[FloatArray, NDArray[np.intp]]:
    """The different rows of a mask as 0 and 1, and which one each row is."""
    packed = np.ascontiguousarray(np.packbits(seen, axis=1))
    keys = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return seen[first].astype(np.float64), inverse.ravel()
