"""Parquet and Feather files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from . import layout as layouts
from .arrow_tables import features_of, table_of, text_of
from .dialect import SAMPLE_ROWS
from .packages import need
from .records import Arrow, DType, File, How, Layout, RowBlock, Table, first_line, rows_per_block

# A row group may hold the whole file. Its columns are read page by page through buffers of this
# size, and never in advance.
STREAMED = {"pre_buffer": False, "buffer_size": 2**16}


def open_parquet(path: Path, how: How) -> File:
    pa, parquet = (need(name, f"reading {path}") for name in ("pyarrow", "pyarrow.parquet"))
    try:
        with parquet.ParquetFile(path, **STREAMED) as file:
            schema, n_rows = file.schema_arrow, file.metadata.num_rows
            first = _first_of(file, schema)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} cannot be read as Parquet: {first_line(error)}") from error
    layout, dtype = _layout(schema, how, path, pa, first)

    def read() -> Table:
        try:
            table = parquet.read_table(path)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{path} cannot be read as Parquet: {first_line(error)}") from error
        return table_of(_by_position(table), layout, dtype, str(path), texts=how.texts)

    def blocks(block_bytes: int) -> Iterator[RowBlock]:
        columns = [j for j in range(layout.n_columns) if j not in layout.aside]
        names = [schema.names[j] for j in columns]
        step = rows_per_block(len(layout.features), dtype, block_bytes)
        try:
            with parquet.ParquetFile(path, **STREAMED) as file:
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
    names = table.schema.names
    first = table.column(0).slice(0, SAMPLE_ROWS).to_pylist() if names else []
    layout, dtype = _layout(table.schema, how, path, pa, first)

    def read() -> Table:
        return table_of(_by_position(table), layout, dtype, str(path), texts=how.texts)

    memory = table.num_rows * len(layout.features) * dtype.itemsize
    return File(path, layout, dtype, table.num_rows, memory, read)


def _rows(batch: Arrow, names: list[str], layout: Layout, dtype: DType, pa: Arrow) -> RowBlock:
    values = features_of(batch, [names[j] for j in layout.features], dtype, pa)
    if layout.id_column is None:
        return RowBlock(values)
    return RowBlock(
        values, [text_of(item) for item in batch.column(names[layout.id_column]).to_pylist()]
    )


def _by_position(table: Arrow) -> Arrow:
    return table.rename_columns([str(j) for j in range(table.num_columns)])


def _first_of(file: Arrow, schema: Arrow) -> list[Any]:
    """Values of the first column in the sampled rows."""
    if not schema.names or not file.metadata.num_rows:
        return []
    batches = file.iter_batches(batch_size=SAMPLE_ROWS, columns=schema.names[:1])
    return list(next(batches).column(0).to_pylist())


def _layout(
    schema: Arrow, how: How, path: Path, pa: Arrow, first: list[Any]
) -> tuple[Layout, DType]:
    kinds = [column_kind(field.type, pa.types) for field in schema]
    layout = layouts.of_types(
        schema.names,
        kinds,
        how,
        str(path),
        row_labels=_index_columns(schema),
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


def _index_columns(schema: Arrow) -> list[str]:
    """The columns in which pandas stores a table's row labels."""
    stored = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in stored if isinstance(name, str)]
