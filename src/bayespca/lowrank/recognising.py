"""Rows that a fit has learned from, recognised by a digest of their cells.

The distance of a new row from the mean includes the uncertainty of B. A row that B was learned from
lies nearer. If it is treated as a new row, its noise variance comes out too small: half as large as
it should be with 18 components in 53 rows. Shrinkage of scores differs between the two kinds of
rows as well; see `posterior.scores_and_std`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.namespaces import is_sparse, on_host, row_blocks
from bayespca.arrays.types import Array, Counts, FloatArray

# The probability that a row is new, where rows that were learned from cannot be recognised.
UNKNOWN = 0.5
# Rows of larger tables are not recognised: there it matters little, or would take too long.
FEW_CELLS = 100_000
# The constants of SplitMix64 (Steele, Lea, Flood 2014).
STEP = np.uint64(0x9E3779B97F4A7C15)
MIXING = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
LAST = np.uint64(31)


def digests(X: Array) -> Counts:
    """A number for each row that other rows almost surely do not share: (n,).

    Holes count by their places. The sign of zero does not matter, and single precision is converted
    to double first.
    """
    found = (digests_of_cells(on_host(X[rows, :])) for rows in row_blocks(X))
    sums = (terms.sum(axis=1, dtype=np.uint64).view(np.int64) for terms in found)
    return np.concatenate([np.empty(0, np.int64), *sums])


def digests_of_cells(X: FloatArray, first: int = 0) -> NDArray[np.uint64]:
    """The terms of the digests of rows, for columns from number `first` on: mixed bits of cells and
    their places, which are added modulo 2⁶⁴.
    """
    plain = np.where(np.isnan(X), np.nan, X) + 0.0
    places = np.arange(first + 1, first + 1 + X.shape[1], dtype=np.uint64) * STEP
    return _mixed(plain.view(np.uint64) ^ _mixed(places))


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    for shift, factor in MIXING:
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return bits ^ (bits >> LAST)


def digests_of_few(X: Array) -> Counts:
    """Digests of the rows of a small table, which may be sparse; empty for a large one."""
    if X.shape[0] * X.shape[1] > FEW_CELLS:
        return np.empty(0, np.int64)
    return digests(X.toarray() if is_sparse(X) else X)


def chance_to_be_new(X: Array, learned_from: Counts) -> FloatArray | float:
    """Probability that each row was not learned from: (n, 1), or one number for all rows."""
    if not learned_from.size:
        return UNKNOWN
    return np.where(np.isin(digests(X), learned_from), 0.0, 1.0)[:, None]
