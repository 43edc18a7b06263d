"""Features of users and items from frames, arrays and sparse matrices, in the cells' order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from bayespca.arrays.namespaces import is_sparse
from bayespca.arrays.types import FloatArray, Identifiers, Input, Sparse
from bayespca.engines.decomposing import available_memory
from bayespca.io.feature_files import BETWEEN, FeatureColumns, words_of
from bayespca.missing.sampled.features import Features, sparse_standardized

from . import _identifiers, _ratings
from ._input_types import is_frame

# Indicators stay sparse if a dense matrix would hold more numbers than this.
MOST_DENSE = 10_000_000


def joined(
    cells: _ratings.Cells, of_users: Input, of_items: Input, *, ordered: bool = False
) -> tuple[_ratings.Cells, Features | None, Features | None]:
    """Cells and features of all users and items; those with features but no ratings come last.

    Users and items with ratings but no features get the mean features of the others. If `ordered`,
    rows of an array follow the rows, or the columns, of a matrix of ratings; else row i is id i.
    """
    users, user_features = _joined(cells.users, of_users, "user_features", ordered)
    items, item_features = _joined(cells.items, of_items, "item_features", ordered)
    more = users.size - cells.users.size
    starts = np.concatenate([cells.starts, np.full(more, cells.starts[-1])])
    return replace(cells, users=users, items=items, starts=starts), user_features, item_features


def _joined(
    ids: Identifiers, given: Any, name: str, ordered: bool
) -> tuple[Identifiers, Features | None]:
    if given is None:
        return ids, None
    values: Any
    keys, values = _read(given, ids, name, ordered)
    places = _identifiers.places(keys, ids, name)
    new = np.flatnonzero(places < 0)
    both = np.concatenate([ids, keys[new]])
    places[new] = ids.size + np.arange(new.size)
    if is_sparse(values):
        # A draw needs three copies of the products of all pairs of features.
        p = values.shape[1]
        needed = 3 * 8.0 * p**2
        if needed > available_memory():
            raise ValueError(
                f"{name} has {p:,} columns, whose products would need {needed / 1e9:.1f} GB: leave "
                "out those that few have."
            )
        shape, ones = (both.size, places.size), np.ones(places.size)
        where = sp.csr_array((ones, (places, np.arange(places.size))), shape=shape)
        there = np.zeros(both.size)
        there[places] = 1.0
        return both, sparse_standardized((where @ values).tocsr(), there)
    found = np.tile(values.mean(axis=0), (both.size, 1))
    found[places] = values
    return both, found


def _read(
    given: Any, ids: Identifiers, name: str, ordered: bool
) -> tuple[Identifiers, FloatArray | Sparse]:
    """Ids, and the features of each as numbers."""
    if isinstance(given, FeatureColumns):
        return _identifiers.column(given.ids, name), _encoded(given.columns.items(), given.ids)
    if is_sparse(given):
        return _keys(given.shape[0], ids, name, ordered), _sparse(given, name)
    if isinstance(given, np.ndarray) and given.ndim == 2:
        keys = _keys(given.shape[0], ids, name, ordered)
        if given.dtype.kind not in "biuf":
            raise ValueError(f"{name} must hold numbers, got an array of {given.dtype}.")
        floats = np.asarray(given, dtype=np.float64)
        _check_finite(floats, name)
        return keys, floats
    if not is_frame(given):
        raise ValueError(
            f"{name} must be a DataFrame whose index, or first column in polars, has the ids, an "
            f"array or a sparse matrix, got {type(given).__name__}."
        )
    if not hasattr(given, "index"):
        # A polars frame: its first column has the ids.
        columns = [(called, given[called]) for called in given.columns]
        return _of_frame(columns[0][1] if columns else [], columns[1:], name)
    if len(given.columns) and all(hasattr(dtype, "fill_value") for dtype in given.dtypes):
        keys = _identifiers.column(given.index, name)
        _check_once(keys, name)
        return keys, _sparse(given.sparse.to_coo(), name)
    return _of_frame(given.index, list(given.items()), name)


def _of_frame(
    index: Any, columns: list[tuple[Any, Any]], name: str
) -> tuple[Identifiers, FloatArray | Sparse]:
    keys = _identifiers.column(index, name)
    if not keys.size or not columns:
        raise ValueError(f"{name} is empty: leave it out, or give a row for each id.")
    _check_once(keys, name)
    found = [(called, _column(column, keys, name, called)) for called, column in columns]
    return keys, _encoded(found, keys)


def _check_once(keys: Identifiers, name: str) -> None:
    seen: set[Any] = set()
    for key in keys.tolist():
        if key in seen:
            raise ValueError(f"{name} has more than one row for {key!r}: keep one of them.")
        seen.add(key)


def _keys(n: int, ids: Identifiers, name: str, ordered: bool) -> Identifiers:
    """Ids that the rows of an array belong to."""
    if ordered:
        if n != ids.size:
            what = "rows" if name == "user_features" else "columns"
            raise ValueError(
                f"{name} has {n} rows, but X has {ids.size} {what}: one for each is needed."
            )
        return ids
    if ids.dtype.kind not in "iu":
        raise ValueError(
            f"row i of {name} is that of the id i, but ids are no whole numbers here: give a "
            "DataFrame with ids as its index."
        )
    return np.arange(n)


def _sparse(given: Any, name: str) -> Sparse:
    values = sp.csr_array(given).astype(np.float64)
    _check_finite(np.asarray(values.data), name)
    return values


def _check_finite(values: FloatArray, name: str) -> None:
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite: fill in what is not known.")


# --- columns -----------------------------------------------------------------------------------


def _column(column: Any, keys: Identifiers, name: str, called: Any) -> FloatArray | list[Any]:
    """A column as numbers, or as the words of each row."""
    values = _numbers(column)
    if values is None:
        cells = column.to_list()
        is_list = any(isinstance(cell, str) and BETWEEN in cell for cell in cells)
        return [_words_of(cell, is_list=is_list) for cell in cells]
    wrong = np.flatnonzero(~np.isfinite(values))
    if wrong.size:
        raise ValueError(
            f"{name} has no number in the column {called!r} of {keys.tolist()[wrong[0]]!r}: fill "
            "it in, or leave the row out."
        )
    return values


def _numbers(column: Any) -> FloatArray | None:
    """A numeric column as floats, with NaN for missing values; None for any other column."""
    if hasattr(column.dtype, "is_numeric"):  # polars
        if not (column.dtype.is_numeric() or str(column.dtype) == "Boolean"):
            return None
        return np.array([np.nan if x is None else float(x) for x in column.to_list()])
    if getattr(column.dtype, "kind", "O") not in "biuf":
        return None
    return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))


def _words_of(cell: Any, *, is_list: bool) -> tuple[str, ...]:
    """Words of a cell: one, or several in a list or separated by |."""
    if isinstance(cell, list | tuple | set | frozenset | np.ndarray):
        return tuple(dict.fromkeys(str(word) for word in cell if word is not None))
    if cell is None or (isinstance(cell, float) and np.isnan(cell)) or str(cell) == "<NA>":
        return ()
    return words_of(cell, is_list=is_list and isinstance(cell, str))


def _encoded(columns: Any, keys: Identifiers) -> FloatArray | Sparse:
    """A matrix of the numbers as they are, and a column of zeros and ones for each word."""
    n = len(keys)
    blocks: list[Any] = []
    for _, values in columns:
        if isinstance(values, np.ndarray):
            blocks.append(values[:, None])
            continue
        different = {word: k for k, word in enumerate(sorted({w for row in values for w in row}))}
        rows = np.repeat(np.arange(n), [len(row) for row in values])
        places = np.array([different[word] for row in values for word in row], dtype=np.intp)
        ones = np.ones(rows.size)
        blocks.append(sp.csr_array((ones, (rows, places)), shape=(n, len(different))))
    width = sum(block.shape[1] for block in blocks)
    if width * n <= MOST_DENSE:
        return np.hstack([block.toarray() if is_sparse(block) else block for block in blocks])
    return sp.hstack([sp.csr_array(block) for block in blocks], format="csr")
