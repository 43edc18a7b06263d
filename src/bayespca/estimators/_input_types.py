"""Types of input: which an X is of, and messages about those that no estimator reads.

The messages come before any conversion is tried:
NumPy would make an array of nearly anything, take minutes for it, or turn dates into nanoseconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import is_sparse
from bayespca.arrays.types import Input

READ = "give an array, a DataFrame, a sparse matrix or the path of a file"
# Number of values that are tried in a column of objects.
TRIED = 100


def refuse_others(X: Input) -> None:
    """Raise, with advice, if X is not a table of numbers."""
    if is_of(X, "anndata"):
        raise TypeError(
            "X is an AnnData: call bayespca.scverse.pca(adata), or give its matrix, adata.X or one "
            "of adata.layers."
        )
    if is_of(X, "mudata"):
        raise TypeError(
            "X is a MuData: call bayespca.scverse.multiview(mdata), or bayespca.scverse.pca of one "
            "of its modalities."
        )
    if is_list_of_arrays(X):
        raise TypeError(
            f"X is a {type(X).__name__} of {len(X)} tables: put them below each other with "
            "np.concatenate, or give BayesianPCA().fit(iter(X)) if they are blocks of rows. "
            "Slices of a tensor are put together by np.stack; several tables of the same samples "
            "are for MultiViewPCA."
        )
    if isinstance(X, list | tuple) and X and isinstance(X[0], Mapping):
        raise TypeError(f"X is a {type(X).__name__} of dicts: give pandas.DataFrame(X).")
    kind = getattr(getattr(X, "dtype", None), "kind", None)
    if kind in ("M", "m"):
        raise TypeError(
            "X is an array of dates or durations: turn them into numbers, as "
            "X.astype('int64') does, if their size means something."
        )
    if kind == "V":
        raise TypeError(
            "X is a structured array: give "
            "numpy.lib.recfunctions.structured_to_unstructured(X), or pandas.DataFrame(X)."
        )
    if isinstance(X, str | os.PathLike):
        raise TypeError(
            f"X is the path {str(X)!r}, but this estimator does not read files: load the table "
            "first, with pandas.read_csv or numpy.load."
        )
    if is_frame(X):
        _check_columns(X)
        return
    likes = ("__array__", "__array_interface__", "__array_namespace__", "__dataframe__")
    is_array = is_sparse(X) or any(hasattr(type(X), name) for name in likes)
    # scikit-learn has a message for numbers.
    is_like_an_array = is_array or np.isscalar(X) or isinstance(X, Sequence)
    if isinstance(X, bytes | Mapping | Iterator) or not is_like_an_array:
        article = "an" if type(X).__name__[0] in "AEIOUaeiou" else "a"
        what = "None" if X is None else f"{article} {type(X).__name__}"
        raise TypeError(f"X is {what}, not a table of numbers: {READ}.")


def as_numbers(convert: Callable[[], Any], X: Input, *, tensor: bool = False) -> Any:
    """Return `convert()`; if it fails, raise a message about X instead of NumPy's.

    A `tensor` may have more axes than a table.
    """
    try:
        return convert()
    except (TypeError, ValueError) as error:
        if sentence := _why_no_numbers(X, tensor=tensor):
            raise ValueError(sentence) from error
        raise


def is_list_of_arrays(X: Input) -> bool:
    """Whether X is a list of arrays or tables with two dimensions, as blocks of rows are."""
    return (
        isinstance(X, list | tuple)
        and bool(X)
        and all(getattr(item, "ndim", None) == 2 or is_frame(item) for item in X)
    )


def is_frame(X: Input) -> bool:
    """Whether X is a DataFrame of pandas or polars."""
    return type(X).__name__ == "DataFrame" and (is_of(X, "pandas") or is_of(X, "polars"))


def is_of(X: Input, package: str) -> bool:
    """Whether X is of a type that a package defines."""
    return any(base.__module__.partition(".")[0] == package for base in type(X).__mro__)


def _why_no_numbers(X: Input, *, tensor: bool) -> str | None:
    """Message about ragged rows, too many axes, or the first cell of text; None if all is well."""
    if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1:
        X = list(X)
    if isinstance(X, list | tuple):
        if ragged := _why_ragged(X):
            return ragged
        X = np.asarray(X, dtype=object)
    if not isinstance(X, np.ndarray) or X.ndim < 2 or (tensor and X.ndim > 2):
        return None
    if X.ndim > 2:
        return (
            f"X has {X.ndim} axes, of shape {X.shape}, and a table has two: give each sample a "
            "row, as X.reshape(len(X), -1) does, or use BayesianTucker."
        )
    for place, value in np.ndenumerate(X) if X.dtype.kind in "OUST" else ():
        if isinstance(value, str | bytes) and not _is_number(value):
            shown = repr(bytes(value) if isinstance(value, bytes) else str(value))
            return (
                f"X has {shown:.40} in row {place[0]}, column {place[1]} (counting from 0), which "
                "is not a number: leave such columns out, or turn them into numbers. "
                "GeneralizedPCA takes categories."
            )
    return None


def _why_ragged(X: Sequence[Any]) -> str | None:
    shapes = [_shape(row) for row in X]
    other = next((i for i, shape in enumerate(shapes) if shape != shapes[0]), None)
    if other is None:
        return None
    is_deep = max(map(len, shapes)) > 1
    one, another = (
        str(shape) if is_deep else str(shape[0]) if shape else "a bare number"
        for shape in (shapes[0], shapes[other])
    )
    return (
        f"X has {'parts of different shapes' if is_deep else 'rows of different lengths'}: {one} "
        f"in place 0, {another} in place {other} (counting from 0). Give each row the same "
        "columns, with NaN where there is no value."
    )


def _shape(row: Any) -> tuple[int, ...]:
    """The shape of a row, down to the depth at which all parts have the same shape."""
    if isinstance(row, str | bytes) or not hasattr(row, "__len__"):
        return ()
    if hasattr(row, "shape"):
        return tuple(row.shape)
    inner = {_shape(part) for part in row}
    return (len(row), *(inner.pop() if len(inner) == 1 else ()))


def series_of(X: Any, j: int) -> Any:
    """The j-th column of a frame of pandas or polars."""
    return X.iloc[:, j] if hasattr(X, "iloc") else X[:, j]


def _check_columns(X: Any) -> None:
    """Raise if columns of a frame do not hold numbers, with their names."""
    found = []
    for j, (name, dtype) in enumerate(zip(X.columns, X.dtypes, strict=True)):
        kind = str(dtype).lower()
        if kind.startswith(("date", "time", "duration", "period", "interval")):
            found.append(f"{str(name)!r} (dates)")
        elif kind.startswith(("object", "str", "category", "categorical", "enum", "utf8")):
            values = [value for value in series_of(X, j)[:TRIED].to_list() if value is not None]
            if not all(map(_is_number, values)):
                found.append(f"{str(name)!r} (text)")
    if not found:
        return
    shown = ", ".join(found[:6])
    more = f" and {len(found) - 6} more" if len(found) > 6 else ""
    how = (
        'X.select_dtypes("number")'
        if is_of(X, "pandas")
        else "X.select(polars.selectors.numeric())"
    )
    raise ValueError(
        f"X has columns that are not numbers: {shown}{more}. Leave them out, as {how} does, or "
        "turn them into numbers first."
    )


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
