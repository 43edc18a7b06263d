"""Standard deviations of measurements and weights of samples, as users pass them to `fit`."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import FloatArray
from bayespca.noise.errors import KnownErrors, taken_apart
from bayespca.sources.data import Data, Where


def known_errors(error_std: Any, sample_weight: Any, data: Data) -> KnownErrors | None:
    """Known errors, checked against the data; None if nothing informative was given."""
    if error_std is None and sample_weight is None:
        return None
    if data.where is not Where.DENSE:
        raise ValueError(
            "error_std and sample_weight are for dense data in memory; these are "
            f"{WORDS[data.where]}."
        )
    n, p = (int(size) for size in data.values.shape)
    found = KnownErrors() if error_std is None else _errors(_numbers(error_std), n, p)
    if sample_weight is None:
        return found
    weights = _weights(_numbers(sample_weight), n)
    if (weights == weights[0]).all():
        # Equal weights carry no information.
        return found if error_std is not None else None
    spread = 1 / np.sqrt(weights)
    rows = spread if found.rows is None else found.rows * spread
    return KnownErrors(rows, found.columns, found.cells)


WORDS = {
    Where.SPARSE: "sparse",
    Where.BLOCKS: "read in blocks",
    Where.PARTITIONS: "on the workers of Dask",
}


def _numbers(values: Any) -> FloatArray:
    values = values.to_numpy() if hasattr(values, "to_numpy") else values
    values = to_numpy(values) if is_array_api_obj(values) else values
    return np.asarray(values, dtype=np.float64)


def _errors(std: FloatArray, n: int, p: int) -> KnownErrors:
    if std.ndim == 1 and n != p and std.size in (n, p):
        # One for each row is a column, one for each column a row.
        std = std[:, None] if std.size == n else std[None, :]
    if std.ndim != 2 or std.shape not in ((n, p), (n, 1), (1, p)):
        hint = ""
        if std.ndim == 1 and n == p == std.size:
            hint = ", and with as many rows as columns its shape must say which: (n, 1) or (1, p)"
        raise ValueError(
            f"error_std must have the shape ({n}, {p}), ({n}, 1) or (1, {p}) for these data; got "
            f"{std.shape}{hint}."
        )
    wrong = np.argwhere(~(std > 0))
    if wrong.size:
        i, j = (int(k) for k in wrong[0])
        place = {(n, p): f"row {i}, column {j}", (n, 1): f"row {i}", (1, p): f"column {j}"}
        where = place.get(std.shape, "")
        raise ValueError(
            f"error_std must be positive (infinite for a cell that says nothing); it is "
            f"{std[i, j]:g}{f' in {where}' if where else ''} (counting from 0)."
        )
    if std.shape == (1, p):
        _check_finite(std[0], "column")
        return KnownErrors(columns=std[0])
    if std.shape == (n, 1):
        _check_finite(std[:, 0], "row")
        return KnownErrors(rows=std[:, 0])
    _check_finite(std.min(axis=1), "row")
    _check_finite(std.min(axis=0), "column")
    return taken_apart(std)


def _check_finite(smallest: FloatArray, what: str) -> None:
    """Raise if the errors of a whole row or column are infinite."""
    empty = np.flatnonzero(~np.isfinite(smallest))
    if empty.size:
        raise ValueError(
            f"error_std is infinite for all of {what} {int(empty[0])} (counting from 0), so "
            "nothing is known about it: leave it out."
        )


def _weights(weights: FloatArray, n: int) -> FloatArray:
    """Weights, checked and scaled to a mean of 1."""
    if weights.shape != (n,):
        raise ValueError(f"sample_weight must have the shape ({n},), got {weights.shape}.")
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights > 0)))
    if wrong.size:
        i = int(wrong[0])
        value = "zero" if weights[i] == 0 else f"{weights[i]:g}"
        advice = ": leave out rows that do not count" if weights[i] == 0 else ""
        raise ValueError(
            f"sample_weight must be positive and finite; it is {value} for row {i} (counting from "
            f"0){advice}."
        )
    return np.asarray(weights / weights.mean())
