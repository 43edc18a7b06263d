"""Some rows of a Dask collection, fetched in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .cluster import computed
from .records import Partitions
from .tasks import mapped


class SomeRows(NamedTuple):
    """Rows, their places among all rows, and whether they are all of them."""

    rows: NDArray[Any]
    places: NDArray[np.intp]
    are_all: bool


def every_nth(X: Partitions, step: int) -> SomeRows:
    """Every `step`-th row; counted within each block where heights are not known."""
    starts = [0] * len(X.chunks) if X.offsets is None else first_of_blocks(X.offsets, step)
    found = computed(*mapped(X, _every_nth, step, each=[starts]))
    begins = accumulate((length for length, _ in found), initial=0)
    places = [
        begin + np.arange(start, length, step)
        for begin, start, (length, _) in zip(begins, starts, found, strict=False)
    ]
    rows = np.concatenate([rows for _, rows in found])
    return SomeRows(rows, np.concatenate(places), step == 1)


def first_of_blocks(offsets: Sequence[int], step: int) -> list[int]:
    """Place in each block of the first row whose number is a multiple of the step."""
    return [-offset % step for offset in offsets]


def _every_nth(block: NDArray[Any], start: int, step: int) -> tuple[int, NDArray[Any]]:
    return len(block), block[start::step].copy()
