"""Files whose rows are features and whose columns are samples, such as genes × samples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .records import File, Layout, Table


def transposed(file: File) -> File:
    """The file with rows as features and columns as samples; all rows are read immediately."""
    upright = file.read()
    values: Any = upright.values.T
    names = None if upright.ids is None else _different(upright.ids, file.path)
    table = Table(
        values.tocsr() if hasattr(values, "tocsr") else values,
        names,
        upright.names or [file.layout.name(j) for j in file.layout.features],
        id_name="sample",
        aside=upright.aside,
        upright=upright,
    )
    n, p = table.shape
    notes = (*file.layout.notes, *_notes(table))
    layout = Layout(p, None if names is None else tuple(names), tuple(range(p)), notes=notes)
    return File(file.path, layout, file.dtype, n, file.memory, lambda: table)


def _different(names: Sequence[str], path: Path) -> list[str]:
    """Names of rows; an error unless they are distinct, as names of features must be."""
    seen: dict[str, int] = {}
    for i, name in enumerate(names):
        if name in seen:
            raise ValueError(
                f"{path} has two rows called {name!r} (rows {seen[name] + 1} and {i + 1} below the "
                "header), and with --transpose rows are features: rename one of them, or read the "
                "names of rows from another column with --id-column."
            )
        seen[name] = i
    return list(names)


def _notes(table: Table) -> tuple[str, ...]:
    assert table.upright is not None
    if table.names is None:
        return ("The rows of the file were read as features.",)
    name = table.upright.id_name
    by = f"column {name!r}" if name else "first column"
    return (f"The rows of the file, named by its {by}, were read as features.",)
