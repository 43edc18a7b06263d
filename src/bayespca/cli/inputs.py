"""The data of a command: in memory, or as a stream that shows its progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bayespca import io
from bayespca.engines.decomposing import fits_in_memory
from bayespca.io.records import File, How, Table
from bayespca.sources.blocks import from_file
from bayespca.sources.records import Source

from .failures import SETTING
from .progress import progress, sweeps

T = TypeVar("T")

BLOCK_BYTES = 32 * 2**20


@dataclass(frozen=True)
class Input:
    """An open file, and its table unless it is streamed."""

    file: File
    table: Table | None

    @property
    def is_streamed(self) -> bool:
        return self.table is None

    @property
    def how_read(self) -> str:
        """A sentence about data that are not in memory."""
        return "The file was read in blocks, not kept in memory."

    @property
    def aside(self) -> dict[str, str]:
        """Columns that are not features, with the reasons."""
        if self.table is not None:
            return self.table.aside
        layout = self.file.layout
        return {layout.name(j): why for j, why in layout.aside.items()}

    @property
    def id_column(self) -> str | None:
        layout = self.file.layout
        return None if layout.id_column is None else layout.name(layout.id_column)

    @property
    def facts(self) -> dict[str, Any]:
        """Facts about the file, for JSON."""
        return {
            "id_column": self.id_column,
            "columns_set_aside": self.aside,
            "streamed": self.is_streamed,
        }

    @property
    def notes(self) -> list[str]:
        """Notes on how the file was read that its owner may not expect."""
        return list(self._notes())

    def _notes(self) -> Iterator[str]:
        yield from self.file.layout.notes
        if self.id_column is not None:
            name = f" {self.id_column!r}" if self.id_column else ""
            yield f"The first column{name} was read as the names of the rows."
        named = [(k, why) for k, why in self.aside.items() if why not in ("dropped", "row label")]
        if named:
            some = ", ".join(f"{name!r} ({why})" for name, why in named[:6])
            more = f" and {len(named) - 6} more" if len(named) > 6 else ""
            yield f"Skipped columns: {some}{more}."
        if self.is_streamed:
            yield self.how_read

    def apply(self, what: str, work: Callable[[Any], T]) -> T:
        """The result of a function of the data, with a progress display.

        The function gets the table, or a stream that shows how far it has been read.
        """
        if self.table is None:
            return work(_showing_progress(from_file(self.file)))
        with progress(what):
            return work(self.table)

    def fit(self, work: Callable[..., object], tol: float) -> None:
        """Call `work` with the data, and a callback if they are in memory, to fit them.

        Progress is shown; for data in memory by sweeps and their distance from `tol`.
        """
        if self.table is None:
            self.apply("fitting", work)
            return
        with sweeps("fitting", tol) as callback:
            work(self.table, callback=callback)

    def parts(self, what: str) -> Iterator[Table]:
        """The table in parts that fit into memory, with ids and a progress display."""
        if self.table is not None:
            with progress(what):
                yield self.table
            return
        assert self.file.blocks is not None
        names, layout = self.file.layout.feature_names, self.file.layout
        id_name = "id" if layout.id_column is None else layout.name(layout.id_column)
        with progress(what, self.file.n_samples) as advance:
            for rows in self.file.blocks(BLOCK_BYTES):
                yield Table(rows.values, names, rows.ids, id_name)
                advance(len(rows.values))


def open_input(path: Path, how: How, *, stream: bool | None = None) -> Input:
    """Open a file, and read it unless it is streamed; with None, its size decides."""
    file = io.open_files(path, how)
    if len(io.files_of(path)) > 1:
        if stream is False:
            raise ValueError(f"{path} means several files, which --in-memory cannot read.")
        return _in_blocks(file)
    if stream and file.blocks is None:
        if how.transpose:
            raise ValueError("--transpose reads all of a file: leave out --stream.")
        raise ValueError(f"{path} cannot be streamed: CSV, TSV, Parquet and NPY files can.")
    if stream is None:
        stream = file.blocks is not None and not fits_in_memory(file.memory)
    if stream:
        return _in_blocks(file)
    with progress(f"reading {path.name}"):
        return Input(file, file.read())


def _in_blocks(file: File) -> Input:
    SETTING.streamed = True
    return Input(file, None)


def _showing_progress(source: Source) -> Source:
    def blocks() -> Iterator[np.ndarray]:
        with progress("reading", source.n_samples) as advance:
            for block in source.blocks():
                yield block
                advance(len(block))

    return replace(source, blocks=blocks)


def labels_of(table: Table, column: str) -> np.ndarray:
    """The column that colours samples: one that was set aside, a feature, or the ids."""
    if column in table.others:
        return table.others[column]
    if table.names is not None and column in table.names:
        return np.asarray(table.values[:, table.names.index(column)])
    if table.ids is not None and column == table.id_name:
        return np.array(table.ids, dtype=object)
    known = [*table.others, *(table.names or [])]
    shown = ", ".join(map(repr, known[:8])) + (", …" if len(known) > 8 else "")
    raise ValueError(f"there is no column {column!r} to colour by; there are {shown}.")
