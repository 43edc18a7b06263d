"""A matrix with holes, as the updates want it: at unit scale, zeros in the holes, by pattern."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

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

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """Rows sorted by pattern."""
        return np.argsort(self.pattern, kind="stable")

    @cached_property
    def starts(self) -> NDArray[np.intp]:
        """Where each pattern begins among the sorted rows, with n at the end."""
        counts = np.bincount(self.pattern, minlength=len(self.patterns))
        return np.concatenate([[0], np.cumsum(counts)])

    @property
    def freedom(self) -> int:
        """M: rows less the one that the mean takes."""
        return max(len(self.pattern) - 1, 1)

    @cached_property
    def column_counts(self) -> FloatArray:
        """Observed cells of each column."""
        rows = np.bincount(self.pattern, minlength=len(self.patterns))
        return np.asarray(rows @ self.patterns)

    @cached_property
    def pattern_weights(self) -> FloatArray:
        """Rows of each pattern, of M in all: what the covariance of a pattern counts."""
        rows = np.bincount(self.pattern, minlength=len(self.patterns))
        return np.asarray(rows * (self.freedom / len(self.pattern)), dtype=np.float64)


def observed(X: FloatArray, *, center: bool, scale: bool) -> Holes:
    """Sort out a matrix with NaN: where columns lie, how large they are, which rows are alike.

    All columns have one unit unless they are scaled, so that a single noise variance keeps its
    meaning; a column that does not vary keeps the common one.
    """
    holes = np.isnan(X)
    seen = ~holes
    counts = seen.sum(axis=0)
    location = np.zeros(X.shape[1])
    if center:
        location = np.nansum(X, axis=0) / np.maximum(counts, 1)
    values = X - location
    # Five times as fast as np.where, which stumbles over random masks.
    np.putmask(values, holes, 0.0)
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
    keys = _hashes(seen)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    if not np.array_equal(seen, seen[first][inverse]):  # two patterns with one hash
        packed = np.ascontiguousarray(np.packbits(seen, axis=1))
        rows = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
        _, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
    return seen[first].astype(np.float64), inverse.ravel()


def _hashes(seen: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """A number for each row that differs where rows do, but for an accident."""
    packed = np.packbits(seen, axis=1)
    padded = np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8)))
    words = np.ascontiguousarray(padded).view(np.uint64)
    odd = np.random.default_rng(0).integers(2**63, size=words.shape[1], dtype=np.uint64) * 2 + 1
    mixed = (words ^ (words >> np.uint64(29))) * odd.astype(np.uint64)
    return np.asarray((mixed ^ (mixed >> np.uint64(32))).sum(axis=1, dtype=np.uint64))
