"""Data that cannot be used: NaN and infinity, and blocks that are not what was announced.

Most data in memory are finite, which one sum shows at the speed of memory. Only where it is not
must the cells be searched, in vain if finite numbers overflowed. The same sum shows whether numbers
may be so large or small that their squares overflow or vanish.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import array_namespace, is_numpy_array, row_blocks, to_numpy
from bayespca.arrays.types import AnyDType, Array, DType

from .records import Block

# Number of cells searched at a time, while they are in cache.
PART = 1 << 16
# The largest of all numbers must be within these for variances to be floating-point numbers.
RANGE = (1e-152, 1e152)
# Sums outside of these are reasons to search; sums of centred data are that much smaller.
USUAL = (1e-130, 1e130)


class UnusableData(ValueError):  # noqa: N818 - it is what was found
    """Data that cannot be used as they are; the message gives place, finding and remedy.

    `block`, `row` (of that block) and `column` count from 0, None where they are not known. All of
    them come back with an error from a worker.
    """

    def __init__(
        self,
        message: str,
        block: int | None = None,
        row: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(message, block, row, column)
        self.block, self.row, self.column = block, row, column

    def __str__(self) -> str:
        return str(self.args[0])


class IncompleteData(UnusableData):
    """Data with NaN, which are holes: a reason to take another way, where there is one."""


# --- numbers in memory -------------------------------------------------------------------------


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
    # An inner product would be as fast on one thread, and slower where those of BLAS are late.
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        total = float(array_namespace(X).sum(X))
    if USUAL[0] < abs(total) < USUAL[1]:
        return NotFinite()
    if is_numpy_array(X) and X.flags.forc:
        flat = X.reshape(-1, order="A")
        parts = (flat[i : i + PART] for i in range(0, flat.size, PART))
    else:
        parts = (X[rows, ...] for rows in row_blocks(X))
    found = sum(map(_counted, parts), NotFinite())
    is_usual = not found.largest or RANGE[0] < found.largest < RANGE[1]
    return replace(found, largest=0.0) if is_usual else found


def _counted(X: Array) -> NotFinite:
    xp = array_namespace(X)
    nan, infinite = (int(xp.count_nonzero(what(X))) for what in (xp.isnan, xp.isinf))
    finite = xp.where(xp.isfinite(X), X, xp.zeros_like(X)) if nan or infinite else X
    return NotFinite(nan, infinite, float(xp.max(xp.abs(finite))) if math.prod(X.shape) else 0.0)


def first_not_finite(X: Array) -> tuple[int, ...]:
    """The place of the first cell that is not finite, in the order of rows; there must be one."""
    return _first(~array_namespace(X).isfinite(X))


def first_nan(X: Array) -> tuple[int, ...]:
    """The place of the first NaN; there must be one."""
    return _first(array_namespace(X).isnan(X))


def _first(wrong: Array) -> tuple[int, ...]:
    wrong = to_numpy(wrong)
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))


# --- blocks of a Dask collection ---------------------------------------------------------------


@dataclass(frozen=True)
class Expected:
    """Properties that the collection announced for all blocks."""

    n_features: int
    dtype: DType
    stored: DType | None
    names: tuple[str, ...] | None


def block_of(chunk: Any, expected: Expected, i: int, length: int | None) -> Block:
    """A chunk as a rows × columns array; raise with its number if it is not what was announced."""
    p = expected.n_features
    if expected.stored is None:
        return _block_of_table(chunk, expected, i)
    values = np.asarray(chunk)
    if values.ndim != 2 or values.shape[1] != p:
        raise UnusableData(
            f"block {i} of the Dask array (counting from 0) has shape {values.shape}, but {p} "
            "columns were declared: check the code that creates this chunk.",
            block=i,
        )
    if values.dtype != expected.stored:
        raise UnusableData(
            f"block {i} of the Dask array (counting from 0) is of type {values.dtype}, but "
            f"{expected.stored} was declared: convert the array with astype, or pass the right "
            "dtype or meta where it is made.",
            block=i,
        )
    if length is not None and len(values) != length:
        raise UnusableData(
            f"block {i} of the Dask array (counting from 0) has {len(values)} rows, but "
            f"{length} were declared: check the code that creates this chunk.",
            block=i,
        )
    return values.astype(expected.dtype, copy=False)


def _block_of_table(chunk: Any, expected: Expected, i: int) -> Block:
    names = [str(name) for name in chunk.columns]
    if names != list(expected.names or ()):
        odd = sorted(set(names) ^ set(expected.names or ()))
        which = f"the columns {odd[:3]} differ" if odd else "their order differs"
        raise UnusableData(
            f"partition {i} of the Dask DataFrame (counting from 0) has {len(names)} columns that "
            f"are not those of the collection ({which}): look at what makes this partition.",
            block=i,
        )
    for name, dtype in zip(names, chunk.dtypes, strict=True):
        if not is_number(dtype):
            raise UnusableData(
                f"partition {i} of the Dask DataFrame (counting from 0) has values of type {dtype} "
                f"in column {name!r}, which are not numbers: look at what makes this partition.",
                block=i,
            )
    values = chunk.to_numpy(dtype=expected.dtype, na_value=np.nan)
    return np.asarray(values)


def is_number(dtype: AnyDType) -> bool:
    """Whether a column of this type, NumPy's or pandas', holds numbers."""
    return getattr(dtype, "kind", "O") in "fbiu"


def check_complete(block: Block, i: int, names: Sequence[str] | None, first: int | None) -> None:
    """Raise with the place of the first NaN or infinity; NaN are holes.

    With `first`, rows of the block are columns of the data, and `first` is the number of the first.
    """
    found = not_finite(block)
    if not found:
        return
    at = first_nan(block) if found.nan else first_not_finite(block)
    row, column = at if first is None else at[::-1]
    column += first or 0
    where = f"row {row} of block {i}, column {repr(names[column]) if names else column}"
    if found.nan:
        raise IncompleteData(
            f"the Dask collection has NaN in {where} (counting from 0): fill or drop such rows "
            "first.",
            i,
            row,
            column,
        )
    raise UnusableData(
        f"the Dask collection has infinity in {where} (counting from 0): remove or replace values "
        "that are not finite.",
        i,
        row,
        column,
    )
