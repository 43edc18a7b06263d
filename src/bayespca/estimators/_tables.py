"""Tables with columns of any kind as users pass them: read by column, and returned filled.

A column of any frame or array is read as numbers, flags or labels, with holes. `_columns` decides
what it is for a model.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.utils.validation import _check_feature_names, _check_n_features

from bayespca.arrays.namespaces import is_sparse
from bayespca.arrays.types import DOUBLE, DType, FloatArray, Index, Input
from bayespca.discrete.columns import TableColumn
from bayespca.io.records import Table
from bayespca.sources.data import Features

from . import _input
from ._base import AnyEstimator
from ._input_types import is_frame, series_of

Level = str | float | bool
DATES = ("date", "time", "duration", "period", "interval")


@dataclass(frozen=True, eq=False)
class RawColumn:
    """A column of a table.

    Attributes
    ----------
    name
        Its name in the frame, or "x3" for the fourth column of an array.
    numbers
        Numbers with NaN in holes, flags as 0 and 1; None for labels.
    labels
        Levels, and None in holes; None for numbers.
    is_flags, is_whole
        Whether its type is that of flags, or of whole numbers.
    order
        Levels in the order that the table gives them; empty if it gives none.
    is_ordered
        Whether that order is meaningful.
    objects
        The table's own object for each level.
    """

    name: str
    numbers: FloatArray | None = None
    labels: list[Level | None] | None = None
    is_flags: bool = False
    is_whole: bool = False
    order: tuple[Level, ...] = ()
    is_ordered: bool = True
    objects: Mapping[Level, Any] = field(default_factory=dict)

    @cached_property
    def holes(self) -> NDArray[np.bool_]:
        if self.numbers is not None:
            return np.isnan(self.numbers)
        return np.array([label is None for label in self.labels or ()], dtype=np.bool_)

    def own(self, level: Level) -> Any:
        """A level as the table has it."""
        return self.objects.get(level, level)


@dataclass(frozen=True, eq=False)
class RawTable:
    """The columns of a table, the table itself, and the dtype of results computed from it.

    For a sparse matrix, whose cells are all known, `columns` is empty.
    """

    columns: list[RawColumn]
    table: Any
    features: Features
    dtype: DType = DOUBLE

    @property
    def is_sparse(self) -> bool:
        return is_sparse(self.table)

    @property
    def names(self) -> list[str]:
        if not self.is_sparse:
            return [column.name for column in self.columns]
        return _names_of(self.features)


def read(estimator: AnyEstimator, X: Input, *, reset: bool) -> RawTable:
    """Read a table with columns of any kind; they must be those of the fit, unless `reset`."""
    if is_sparse(X.values if isinstance(X, Table) else X):
        # All cells of a sparse matrix are known: counts, or zeros and ones.
        values, features = _input.checked(
            estimator, X, reset=reset, accept_sparse="csr", dtype=np.float64
        )
        return RawTable([], csr_array(values), features)
    X = _input.unmasked(_input.as_numpy(X))
    if _has_text(X):
        X = np.asarray(X, dtype=object)
        values, features = _input.checked(
            estimator, X, reset=reset, dtype=None, ensure_all_finite=False
        )
        columns = [
            _of_objects(name, values[:, j].tolist()) for j, name in enumerate(_names_of(features))
        ]
        return RawTable(columns, values, features)
    if not is_frame(X):
        values, features = _input.checked(
            estimator, X, reset=reset, dtype="numeric", ensure_all_finite="allow-nan"
        )
        kind, numbers = values.dtype.kind, values.astype(np.float64)
        columns = [
            RawColumn(name, numbers=numbers[:, j], is_flags=kind == "b", is_whole=kind in "iu")
            for j, name in enumerate(_names_of(features))
        ]
        dtype = np.dtype(np.float32 if values.dtype == np.float32 else np.float64)
        return RawTable(columns, values, features, dtype)
    _input.check_not_empty(X)
    if not reset:
        _check_feature_names(estimator, X, reset=False)
        _check_n_features(estimator, X, reset=False)
    names = [str(name) for name in X.columns]
    columns = [_of_series(name, series_of(X, j)) for j, name in enumerate(names)]
    return RawTable(columns, X, Features(len(names), np.array(names, dtype=object)))


# --- frames ------------------------------------------------------------------------------------


def _of_series(name: str, series: Any) -> RawColumn:
    kind = str(series.dtype).lower()
    if kind.startswith(DATES):
        raise ValueError(_about_dates(name))
    if kind.startswith(("category", "categorical", "enum")):
        # Of pandas, whose categories may be ordered, or of polars.
        labels = [None if _is_hole(value) else level_of(value) for value in series.to_list()]
        if not _is_pandas(series):
            # An Enum lists its categories in an order that may be arbitrary.
            is_enum = type(series.dtype).__name__ == "Enum"
            listed = tuple(map(str, series.dtype.categories)) if is_enum else ()
            return RawColumn(name, labels=labels, order=listed, is_ordered=False)
        categories = series.cat.categories.tolist()
        order = tuple(map(level_of, categories)) if series.cat.ordered else ()
        return RawColumn(
            name, labels=labels, order=order, objects={level_of(o): o for o in categories}
        )
    if kind.startswith(("int", "uint", "float", "decimal")):
        values = series.to_numpy(dtype=np.float64, na_value=np.nan) if _is_pandas(series) else None
        values = np.asarray(series.to_numpy() if values is None else values, dtype=np.float64)
        return _of_numbers(name, values, is_whole="int" in kind)
    return _of_objects(name, series.to_list())


def _is_pandas(series: Any) -> bool:
    return hasattr(series, "iloc")


def _of_numbers(name: str, values: FloatArray, *, is_whole: bool = False) -> RawColumn:
    if np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0])
        raise ValueError(
            f"Input X contains infinity, first in column {name!r}, row {row} (counting from 0): "
            "remove or fill values that are not finite."
        )
    return RawColumn(name, numbers=values, is_whole=is_whole)


def _of_objects(name: str, values: Sequence[Any]) -> RawColumn:
    """A column of Python objects as flags, numbers or text."""
    there = [value for value in values if not _is_hole(value)]
    if any(isinstance(value, datetime.date | datetime.time | np.datetime64) for value in there):
        raise ValueError(_about_dates(name))
    flags = all(isinstance(value, bool | np.bool_) for value in there)
    if flags or all(isinstance(value, int | float | np.number) for value in there):
        numbers = [np.nan if _is_hole(value) else float(value) for value in values]
        found = _of_numbers(name, np.array(numbers))
        return RawColumn(name, numbers=found.numbers, is_flags=flags and bool(there))
    strange = [value for value in there if not isinstance(value, str | bool | int | float)]
    if strange:
        raise TypeError(
            f"column {name!r} holds a {type(strange[0]).__name__}, and each cell's argument must "
            "be a string or a number: leave the column out or turn it into text."
        )
    labels = [None if _is_hole(value) else str(value) for value in values]
    return RawColumn(name, labels=list(labels), objects={str(value): value for value in there})


def level_of(value: Any) -> Level:
    """A level as a model file can hold it: text, a number or a flag."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    return float(value) if isinstance(value, int | float | np.number) else str(value)


def _is_hole(value: Any) -> bool:
    """Whether a value is None, NaN, or pandas' NA or NaT."""
    return (
        value is None
        or type(value).__name__ in ("NAType", "NaTType")
        or (isinstance(value, float | np.floating) and np.isnan(value))
    )


def _about_dates(name: str) -> str:
    return (
        f"column {name!r} holds dates or times, for which there is no likelihood: leave it out, or "
        "turn it into numbers (days since a date) or categories (the month)."
    )


# --- arrays ------------------------------------------------------------------------------------


def _names_of(features: Features) -> list[str]:
    if features.names is not None:  # a table from a file
        return [str(name) for name in features.names]
    return [f"x{j}" for j in range(features.count)]


def _has_text(X: Any) -> bool:
    """Whether an array or a list of rows holds text."""
    if isinstance(X, np.ndarray):
        if X.dtype.kind in "US":
            return True
        return X.dtype == object and any(isinstance(value, str) for value in X.ravel())
    if isinstance(X, list | tuple) and X and isinstance(X[0], list | tuple):
        return any(isinstance(value, str) for row in X for value in row)
    return False


# --- giving back -------------------------------------------------------------------------------


def filled(raw: RawTable, columns: Sequence[TableColumn], codes: FloatArray) -> Any:
    """The table with its holes filled from codes, numbers and counts, in its own types."""
    if raw.is_sparse:
        return raw.table.copy()
    if not is_frame(raw.table):
        has_holes = any(column.holes.any() for column in raw.columns)
        kind = raw.dtype if raw.table.dtype.kind in "iub" and has_holes else raw.table.dtype
        out = raw.table.astype(kind, copy=True)
        for j, (before, column) in enumerate(zip(raw.columns, columns, strict=True)):
            rows = np.flatnonzero(before.holes)
            out[rows, j] = own_values(before, column, codes[rows, j])
        return out
    is_pandas = hasattr(raw.table, "iloc")
    out = raw.table.copy() if is_pandas else raw.table.clone()
    for j, (before, column) in enumerate(zip(raw.columns, columns, strict=True)):
        rows = np.flatnonzero(before.holes)
        if rows.size:
            values = own_values(before, column, codes[rows, j])
            series = _filled_series(series_of(raw.table, j), rows, values)
            if is_pandas:
                out.isetitem(j, series)
            else:
                out = out.with_columns(series)
    return out


def own_values(before: RawColumn, column: TableColumn, codes: FloatArray) -> list[Any]:
    """Codes, numbers and counts as values of the table's own types."""
    if column.levels:
        levels = [before.own(column.levels[int(code)]) for code in codes]
        if before.is_flags:
            return [bool(level) for level in levels]
        return [int(level) for level in levels] if before.is_whole else levels
    return [round(float(code)) for code in codes] if before.is_whole else codes.tolist()


def _filled_series(series: Any, rows: Index, values: list[Any]) -> Any:
    if not _is_pandas(series):
        listed = series.to_list()
        for row, value in zip(rows, values, strict=True):
            listed[row] = value
        return type(series)(series.name, listed, dtype=series.dtype)
    new = series.copy()
    if hasattr(new, "cat"):
        unknown = list(dict.fromkeys(v for v in values if v not in new.cat.categories))
        new = new.cat.add_categories(unknown) if unknown else new
    new.iloc[rows] = values
    return new
