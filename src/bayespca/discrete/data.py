"""Binary tables as sweeps take them: what tells something, in blocks of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayespca.sources.binary import BinaryCells
from bayespca.sources.seen import Seen, seen_in

# Rows that are worked on at a time: there is work for several threads, and what belongs to them
# stays in the cache.
BLOCK, LEAST_BLOCK, BLOCKS = 1024, 64, 32


@dataclass(frozen=True, eq=False)
class BinaryTable:
    """The cells that take part, and how many values each row and column of the table has.

    Rows and columns without any value take no part: for both the prior answers.
    """

    cells: BinaryCells
    seen: Seen


def binary_table(cells: BinaryCells) -> BinaryTable:
    """A table of zeros and ones, without rows and columns that have no value."""
    known = seen_in(cells.seen, cells.shape)
    if known.rows.all() and known.columns.all():
        return BinaryTable(cells, known)
    return BinaryTable(cells.part(np.ix_(known.rows, known.columns)), known)


def row_blocks(cells: BinaryCells) -> list[slice]:
    """The rows in blocks."""
    n = cells.shape[0]
    step = min(BLOCK, max(n // BLOCKS, LEAST_BLOCK))
    return [slice(first, min(first + step, n)) for first in range(0, n, step)]
