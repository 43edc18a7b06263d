"""Patterns of holes: rows that share one, and an order that puts such rows together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import Index


def arranged(
    seen: NDArray[np.bool_],
) -> tuple[Index, Index, Index]:
    """An order of the rows that puts those with the same pattern together, where each pattern
    begins in it, and one row of each pattern. If all rows differ, they stay in their order.
    """
    first, which = patterns_of(seen)
    if first.size == len(seen):
        everything = np.arange(len(seen) + 1)
        return everything[:-1], everything, everything[:-1]
    starts = np.concatenate([[0], np.cumsum(np.bincount(which, minlength=first.size))])
    return np.argsort(which, kind="stable"), starts, first


def patterns_of(seen: NDArray[np.bool_]) -> tuple[Index, Index]:
    """One row of each pattern in a mask, and the index of each row's pattern."""
    bits = np.packbits(seen, axis=1)
    _, first, which = np.unique(_hashes(bits), return_index=True, return_inverse=True)
    if first.size < len(bits) and not np.array_equal(bits, bits[first[which]]):
        # Two patterns share a hash.
        rows = np.ascontiguousarray(bits).view(np.dtype((np.void, bits.shape[1]))).ravel()
        _, first, which = np.unique(rows, return_index=True, return_inverse=True)
    return first, which.ravel()


def _hashes(bits: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """A number for each row of bytes that almost surely differs where rows differ."""
    padded = np.pad(bits, ((0, 0), (0, -bits.shape[1] % 8)))
    words = np.ascontiguousarray(padded).view(np.uint64)
    odd = np.random.default_rng(0).integers(2**63, size=words.shape[1], dtype=np.uint64) * 2 + 1
    mixed = (words ^ (words >> np.uint64(29))) * odd.astype(np.uint64)
    return np.asarray((mixed ^ (mixed >> np.uint64(32))).sum(axis=1, dtype=np.uint64))


def pattern_of_rows(starts: Index) -> Index:
    """Index of each row's pattern."""
    return np.repeat(np.arange(starts.size - 1), np.diff(starts))
