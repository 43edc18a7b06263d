"""Parquet and Feather files, and conversion of Arrow tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import layout as layouts
from .dialect import SAMPLE_ROWS
from .packages import need
from .records import (
    Arrow,
    DType,
    File,
    Floats,
    How,
    Layout,
    RowBlock,
    Table,
    readable,
    rows_per_block,
)

# A row group may hold the whole file. Its columns are read page by page through buffers of this
# size, and never in advance.
STREAMED = {"pre_buffer": False, "buffer_size": 2**16}


def open_parquet(path: Path, how: How) -> File:
    pa, parquet = (need(name, f"reading {path}") for name in ("pyarrow", "pyarrow.parquet"))
    flaws = (pa.ArrowException, OSError)
    with readable(path, "Parquet", *flaws), parquet.ParquetFile(path, **STREAMED) as file:
        schema, n_rows, first = file.schema_arrow, file.metadata.num_rows, []
        if schema.names and n_rows:
            batches = file.iter_batches(batch_size=SAMPLE_ROWS, columns=schema.names[:1])
            first = next(batches).column(0).to_pylist()
    layout, dtype = _layout(schema, how, path, pa, first)

    def read() -> Table:
        with readable(path, "Parquet", *flaws):
            table = parquet.read_table(path)
        return table_of(_by_position(table), layout, dtype, str(path), texts=how.texts)

    def blocks(block_bytes: int) -> Iterator[RowBlock]:
        names_of = schema.names
        names = [names_of[j] for j in range(layout.n_columns) if j not in layout.aside]
        step = rows_per_block(len(layout.features), dtype, block_bytes)
        with readable(path, "Parquet", *flaws), parquet.ParquetFile(path, **STREAMED) as file:
            for batch in file.iter_batches(batch_size=step, columns=names):
                values = features_of(batch, [names_of[j] for j in layout.features], dtype, pa)
                ids = None
                if layout.id_column is not None:
                    ids = [text_of(x) for x in batch.column(names_of[layout.id_column]).to_pylist()]
                yield RowBlock(values, ids)

    memory = n_rows * len(layout.features) * dtype.itemsize
    return File(path, layout, dtype, n_rows, memory, read, blocks)


def open_feather(path: Path, how: How) -> File:
    pa, feather = (need(name, f"reading {path}") for name in ("pyarrow", "pyarrow.feather"))
    with readable(path, "Feather", pa.ArrowException, OSError):
        table = feather.read_table(path, memory_map=True)
    names = table.schema.names
    first = table.column(0).slice(0, SAMPLE_ROWS).to_pylist() if names else []
    layout, dtype = _layout(table.schema, how, path, pa, first)

    def read() -> Table:
        return table_of(_by_position(table), layout, dtype, str(path), texts=how.texts)

    memory = table.num_rows * len(layout.features) * dtype.itemsize
    return File(path, layout, dtype, table.num_rows, memory, read)


def _by_position(table: Arrow) -> Arrow:
    return table.rename_columns([str(j) for j in range(table.num_columns)])


def _layout(
    schema: Arrow, how: How, path: Path, pa: Arrow, first: list[Any]
) -> tuple[Layout, DType]:
    kinds = [column_kind(field.type, pa.types) for field in schema]
    # The columns in which pandas stores a table's row labels.
    stored = (schema.pandas_metadata or {}).get("index_columns", [])
    layout = layouts.of_types(
        schema.names,
        kinds,
        how,
        str(path),
        row_labels=[name for name in stored if isinstance(name, str)],
        first=[value for value in first if value is not None],
    )
    if not schema.names:
        raise ValueError(f"{path} has no columns.")
    layouts.check_features(layout, str(path), how)
    types = [schema.field(j).type for j in layout.features]
    is_short = all(pa.types.is_float32(kind) or pa.types.is_float16(kind) for kind in types)
    return layout, np.dtype(np.float32 if is_short else np.float64)


def column_kind(type_: Arrow, types: Arrow) -> str:
    """ "number", "whole" for integers, or the reason why a column is not numeric."""
    if types.is_integer(type_):
        return "whole"
    numbers = (types.is_floating, types.is_boolean, types.is_decimal)
    if any(test(type_) for test in numbers):
        return "number"
    texts = (types.is_string, types.is_large_string, types.is_dictionary, types.is_string_view)
    if any(test(type_) for test in texts):
        return "text"
    if types.is_temporal(type_):
        return "dates"
    return "empty" if types.is_null(type_) else f"type {type_}"


# --- conversion of tables ----------------------------------------------------------------------


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
    others = {}
    for j, reason in layout.aside.items():
        column = table.column(str(j))
        is_empty = reason == "empty"
        others[layout.name(j)] = (
            np.full(len(column), np.nan) if is_empty else np.array(column.to_pylist(), dtype=object)
        )
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
