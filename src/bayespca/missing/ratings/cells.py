"""Sums over cells of products of what belongs to their row and their column."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray

from .data import Side

# Cells that are worked on at a time.
CHUNK = 1 << 16


def weighted_sum(side: Side, a: FloatArray, b: FloatArray) -> float:
    """Σ xᵢⱼaᵢbⱼ over the cells, for numbers a of rows and b of columns."""
    total = 0.0
    for cells, rows in chunks(side):
        # Not a product of BLAS, whose threads would take the cores from those of the loops.
        total += float(np.einsum("c,c,c->", side.values[cells], a[rows], b[side.other[cells]]))
    return total


def sum_of_products(side: Side, a: FloatArray, b: FloatArray) -> float:
    """Σ aᵢᵀbⱼ over the cells, for vectors a of rows and b of columns."""
    total = 0.0
    for cells, rows in chunks(side):
        total += float(np.einsum("ck,ck->", a[rows], b[side.other[cells]]))
    return total


def chunks(side: Side) -> Iterator[tuple[slice, NDArray[np.int64]]]:
    """Some of the cells, and their rows."""
    for first in range(0, side.other.size, CHUNK):
        last = min(first + CHUNK, side.other.size)
        low = int(np.searchsorted(side.starts, first, side="right")) - 1
        high = int(np.searchsorted(side.starts, last, side="left"))
        edges = np.clip(side.starts[low : high + 1], first, last)
        counts = edges[1:] - edges[:-1]
        yield slice(first, last), np.repeat(np.arange(low, high), counts)
