"""Conversion of Arrow tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .packages import need
from .records import Arrow, DType, Floats, Layout, Table


def table_of(
    table: Arrow, layout: Layout, dtype: DType, where: str, *, texts: bool = False
) -> Table:
    """Convert an Arrow table whose columns are named by their positions.

    With `texts`, it needs no numbers if it has columns of text.
    """
    texts &= "text" in layout.aside.values()
    pa = need("pyarrow", f"reading {where}")
    if not table.num_rows:
        raise ValueError(f"{where} holds no rows.")
    empty = [j for j in layout.features if table.column(str(j)).null_count == table.num_rows]
    if empty and (len(empty) < len(layout.features) or texts):
        layout = layout.without(empty)
    elif empty:
        raise ValueError(f"{where} has no value in any of its {len(empty)} columns of numbers.")
    values = features_of(table, [str(j) for j in layout.features], dtype, pa)
    ids = None
    if layout.id_column is not None:
        ids = [text_of(item) for item in table.column(str(layout.id_column)).to_pylist()]
    others = {
        layout.name(j): _as_they_are(table.column(str(j)), layout.aside[j]) for j in layout.aside
    }
    return Table(
        values,
        layout.feature_names,
        ids,
        id_name="id" if layout.id_column is None else layout.name(layout.id_column),
        others=others,
        aside={layout.name(j): why for j, why in layout.aside.items()},
        order=[layout.name(j) for j in range(layout.n_columns)],
        kept=_kept(table, layout, pa),
        types={layout.name(j): table.column(str(j)).type for j in range(layout.n_columns)},
        levels=_levels(table, layout, pa),
    )


def _levels(table: Arrow, layout: Layout, pa: Arrow) -> dict[str, list[str]]:
    """Levels of the columns whose type is ordered."""
    columns = {layout.name(j): table.column(str(j)) for j in layout.aside}
    return {
        name: [str(level) for level in column.unify_dictionaries().chunk(0).dictionary.to_pylist()]
        for name, column in columns.items()
        if pa.types.is_dictionary(column.type) and column.type.ordered and column.num_chunks
    }


def _kept(table: Arrow, layout: Layout, pa: Arrow) -> dict[str, Arrow]:
    """Columns to write back unchanged, because floats would not hold all of their digits."""
    columns = {layout.name(j): table.column(str(j)) for j in layout.features}
    whole = {
        name: column
        for name, column in columns.items()
        if not column.null_count and not pa.types.is_floating(column.type)
    }
    aside = {
        layout.name(j): table.column(str(j)) for j, why in layout.aside.items() if why != "empty"
    }
    return whole | aside


def features_of(table: Arrow, keys: Sequence[str], dtype: DType, pa: Arrow) -> Floats:
    """Columns of a table or batch as one array, with NaN for missing values."""
    block = np.empty((table.num_rows, len(keys)), dtype, order="F")
    for j, key in enumerate(keys):
        column = table.column(key)
        if not pa.types.is_floating(column.type):
            column = column.cast(pa.float64(), safe=False)
        options = {} if isinstance(column, pa.ChunkedArray) else {"zero_copy_only": False}
        block[:, j] = column.to_numpy(**options)
    return block


def text_of(item: Any) -> str:
    return "" if item is None else str(item)


def _as_they_are(column: Arrow, reason: str) -> np.ndarray:
    if reason == "empty":
        return np.full(len(column), np.nan)
    return np.array(column.to_pylist(), dtype=object)
