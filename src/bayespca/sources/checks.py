"""Checks in tasks: errors name chunks that are not what the collection announced, and NaN."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayespca.arrays.types import AnyDType, DType

from .errors import IncompleteData, UnusableData
from .finite import first_nan, first_not_finite, not_finite
from .records import Block


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
