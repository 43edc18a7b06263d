"""Parquet and Feather, and Arrow's tables as ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import layout as layouts
from .layout import How, Layout
from .packages import need
from .records import File, FloatArray, Rows, Table, first_line, rows_per_block


def open_parquet(path: Path, how: How) -> File:
    pa, parquet = (need(name, f"reading {path}") for name in ("pyarrow", "pyarrow.parquet"))
    try:
        with parquet.ParquetFile(path) as file:
            schema, n_rows = file.schema_arrow, file.metadata.num_rows
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} cannot be read as Parquet: {first_line(error)}") from error
    layout, dtype = _layout(schema, how, path, pa)

    def read() -> Table:
        try:
            table = parquet.read_table(path)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{path} cannot be read as Parquet: {first_line(error)}") from error
        return table_of(_by_position(table), layout, dtype, str(path))

    def blocks(block_bytes: int) -> Iterator[Rows]:
        columns = [j for j in range(layout.n_columns) if j not in layout.aside]
        names = [schema.names[j] for j in columns]
        step = rows_per_block(len(layout.features), dtype, block_bytes)
        try:
            with parquet.ParquetFile(path) as file:
                for batch in file.iter_batches(batch_size=step, columns=names):
                    yield _rows(batch, schema.names, layout, dtype, pa)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{path} cannot be read as Parquet: {first_line(error)}") from error

    memory = n_rows * len(layout.features) * dtype.itemsize
    return File(path, layout, dtype, n_rows, memory, read, blocks)


def open_feather(path: Path, how: How) -> File:
    pa, feather = (need(name, f"reading {path}") for name in ("pyarrow", "pyarrow.feather"))
    try:
        table = feather.read_table(path, memory_map=True)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} cannot be read as Feather: {first_line(error)}") from error
    layout, dtype = _layout(table.schema, how, path, pa)

    def read() -> Table:
        return table_of(_by_position(table), layout, dtype, str(path))

    memory = table.num_rows * len(layout.features) * dtype.itemsize
    return File(path, layout, dtype, table.num_rows, memory, read)


def table_of(table: Any, layout: Layout, dtype: np.dtype[Any], where: str) -> Table:
    """An Arrow table, its columns called by their positions, as one of ours."""
    pa = need("pyarrow", f"reading {where}")
    if not table.num_rows:
        raise ValueError(f"{where} holds no rows.")
    empty = [j for j in layout.features if table.column(str(j)).null_count == table.num_rows]
    if empty and len(empty) < len(layout.features):
        layout = layouts.without_empty(layout, empty)
    elif empty:
        raise ValueError(f"{where} has no value in any of its {len(empty)} columns of numbers.")
    values = features_of(table, [str(j) for j in layout.features], dtype, pa)
    ids = None
    if layout.id_column is not None:
        ids = [_text(item) for item in table.column(str(layout.id_column)).to_pylist()]
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
    )


def features_of(table: Any, keys: Sequence[str], dtype: np.dtype[Any], pa: Any) -> FloatArray:
    """Columns of a table or batch as one array, NaN where there is no value."""
    block = np.empty((table.num_rows, len(keys)), dtype, order="F")
    for j, key in enumerate(keys):
        column = table.column(key)
        if not pa.types.is_floating(column.type):
            column = column.cast(pa.float64(), safe=False)
        options = {} if isinstance(column, pa.ChunkedArray) else {"zero_copy_only": False}
        block[:, j] = column.to_numpy(**options)
    return block


def _rows(batch: Any, names: list[str], layout: Layout, dtype: np.dtype[Any], pa: Any) -> Rows:
    values = features_of(batch, [names[j] for j in layout.features], dtype, pa)
    if layout.id_column is None:
        return Rows(values)
    return Rows(values, [_text(item) for item in batch.column(names[layout.id_column]).to_pylist()])


def _by_position(table: Any) -> Any:
    return table.rename_columns([str(j) for j in range(table.num_columns)])


def _layout(schema: Any, how: How, path: Path, pa: Any) -> tuple[Layout, np.dtype[Any]]:
    kinds = [_kind(field.type, pa.types) for field in schema]
    layout = layouts.of_types(
        schema.names, kinds, how, str(path), row_labels=_index_columns(schema)
    )
    if not schema.names:
        raise ValueError(f"{path} has no columns.")
    layouts.check_features(layout, str(path))
    types = [schema.field(j).type for j in layout.features]
    is_short = all(pa.types.is_float32(kind) or pa.types.is_float16(kind) for kind in types)
    return layout, np.dtype(np.float32 if is_short else np.float64)


def _kind(type_: Any, types: Any) -> str:
    """ "number", or the reason why a column is none."""
    numbers = (types.is_floating, types.is_integer, types.is_boolean, types.is_decimal)
    if any(test(type_) for test in numbers):
        return "number"
    texts = (types.is_string, types.is_large_string, types.is_dictionary, types.is_string_view)
    if any(test(type_) for test in texts):
        return "text"
    if types.is_temporal(type_):
        return "dates"
    return "empty" if types.is_null(type_) else f"type {type_}"


def _index_columns(schema: Any) -> list[str]:
    """The columns in which pandas stores a table's row labels."""
    stored = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in stored if isinstance(name, str)]


def _text(item: Any) -> str:
    return "" if item is None else str(item)


def _as_they_are(column: Any, reason: str) -> np.ndarray:
    if reason == "empty":
        return np.full(len(column), np.nan)
    return np.array(column.to_pylist(), dtype=object)
