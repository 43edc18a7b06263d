"""What X is, where it is nothing that an estimator reads: one sentence, before anything is tried.

NumPy would make an array of nearly anything, take minutes for it, or turn dates into nanoseconds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import is_sparse
from bayespca.arrays.types import Input

READ = "give an array, a DataFrame, a sparse matrix or the path of a file"
# Values of a column of objects that are tried.
TRIED = 100


def refuse_others(X: Input) -> None:
    """Raise with a sentence for what is no table of numbers."""
    if _is_of(X, "anndata"):
        raise TypeError("X is an AnnData: give its matrix, adata.X or one of adata.layers.")
    if is_list_of_arrays(X):
        raise TypeError(
            f"X is a list of {len(X)} arrays: put them below each other with np.concatenate first."
        )
    if isinstance(X, str | os.PathLike):
        raise TypeError(
            f"X is the path {str(X)!r}, and this estimator reads no files: give the table in it, "
            "as pandas.read_csv or numpy.load do."
        )
    if is_frame(X):
        _check_columns(X)
    elif not _is_like_an_array(X):
        article = "an" if type(X).__name__[0] in "AEIOUaeiou" else "a"
        what = "None" if X is None else f"{article} {type(X).__name__}"
        raise TypeError(f"X is {what}, which is no table of numbers: {READ}.")


def is_list_of_arrays(X: Input) -> bool:
    """Whether X is a list of arrays or tables with two dimensions, as blocks of rows are."""
    return (
        isinstance(X, list | tuple)
        and bool(X)
        and all(getattr(item, "ndim", None) == 2 or is_frame(item) for item in X)
    )


def is_frame(X: Input) -> bool:
    """Whether X is a DataFrame of pandas or polars."""
    return type(X).__name__ == "DataFrame" and (_is_of(X, "pandas") or _is_of(X, "polars"))


def _is_of(X: Input, package: str) -> bool:
    return any(base.__module__.partition(".")[0] == package for base in type(X).__mro__)


def _is_like_an_array(X: Input) -> bool:
    if isinstance(X, bytes | Mapping | Iterator):
        return False
    likes = ("__array__", "__array_interface__", "__array_namespace__", "__dataframe__")
    is_number = np.isscalar(X)  # about which scikit-learn has a sentence
    is_array = is_sparse(X) or any(hasattr(type(X), name) for name in likes)
    return bool(is_array or is_number or isinstance(X, Sequence))


def _check_columns(X: Any) -> None:
    """Raise with the names of columns that are not numbers."""
    found = [(str(name), why) for name, why in _odd_columns(X) if why is not None]
    if not found:
        return
    shown = ", ".join(f"{name!r} ({why})" for name, why in found[:6])
    more = f" and {len(found) - 6} more" if len(found) > 6 else ""
    how = (
        'X.select_dtypes("number")'
        if _is_of(X, "pandas")
        else "X.select(polars.selectors.numeric())"
    )
    raise ValueError(
        f"X has columns that are not numbers: {shown}{more}. Leave them out, as {how} does, or "
        "turn them into numbers first."
    )


def _odd_columns(X: Any) -> Iterator[tuple[object, str | None]]:
    for j, (name, dtype) in enumerate(zip(X.columns, X.dtypes, strict=True)):
        column = X.iloc[:, j] if hasattr(X, "iloc") else X[:, j]
        yield name, _oddity(column, str(dtype).lower())


def _oddity(column: Any, dtype: str) -> str | None:
    """Why a column is no numbers; None where it is."""
    if dtype.startswith(("date", "time", "duration", "period", "interval")):
        return "dates"
    if not dtype.startswith(("object", "str", "category", "categorical", "enum", "utf8")):
        return None
    values = [value for value in column[:TRIED].to_list() if value is not None]
    return None if all(map(_is_number, values)) else "text"


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
