"""Tables as data frames, whose columns of text, truth values and numbers keep their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import is_sparse
from bayespca.estimators._input import check_all_there
from bayespca.io.packages import need
from bayespca.io.records import Table


def frame_of(
    table: Table, names: Sequence[str], orders: Mapping[str, Sequence[str]] | None = None
) -> Any:
    """Columns of a table as a polars frame of truth values, whole numbers, numbers and texts."""
    pl = need("polars", "reading columns of text")
    places = {name: j for j, name in enumerate(table.features)}
    found = {}
    for name in names:
        if name in places:
            found[name] = _numbers(pl, table, name, table.values[:, places[name]])
            continue
        texts, order = texts_of(table, name), (orders or {}).get(name)
        found[name] = pl.Series(name, texts, dtype=pl.Enum(list(order)) if order else pl.String)
    return pl.DataFrame(found)


def frame_for(model: Any, table: Table) -> Any:
    """Frame of the columns of a fitted model, in its order; a sparse table is returned as is."""
    wanted = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if not wanted or is_sparse(table.values):
        return table
    known = {*names_of(table), *([table.id_name] if table.ids is not None else [])}
    check_all_there(wanted, known)
    return frame_of(table, wanted)


def texts_of(table: Table, name: str) -> list[str | None]:
    """The texts of a column, with None for missing values."""
    cells = table.ids if name == table.id_name and table.ids else table.others[name].tolist()
    if table.aside.get(name) == "empty":
        return [None] * table.shape[0]
    texts = [None if cell is None else str(cell).strip() for cell in cells or ()]
    return [None if text is None or text.lower() in table.no_value else text for text in texts]


def names_of(table: Table) -> list[str]:
    """Names of the features and other columns, in the order of the file."""
    features = table.features
    every = {*features, *table.others}
    return [name for name in table.order or [*features, *table.others] if name in every]


def _numbers(pl: Any, table: Table, name: str, values: np.ndarray) -> Any:
    kind, holes = str(table.types.get(name, "")), np.isnan(values)
    cells = [None if hole else value for value, hole in zip(values.tolist(), holes, strict=True)]
    if kind == "bool":
        flags = [None if cell is None else bool(cell) for cell in cells]
        return pl.Series(name, flags, dtype=pl.Boolean)
    # A text file has no types: a column is of whole numbers if all of its numbers are.
    is_whole = "int" in kind or (table.is_of_text and _are_whole(values[~holes]))
    return pl.Series(name, cells, dtype=pl.Float64).cast(pl.Int64 if is_whole else pl.Float64)


def _are_whole(values: np.ndarray) -> bool:
    return bool(values.size and (np.abs(values) < 2**53).all() and (values % 1 == 0).all())
