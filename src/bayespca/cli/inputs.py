"""The data of a command: in memory, as a stream, as a data frame, or on a Dask cluster."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from rich.console import Console

from bayespca import io
from bayespca.arrays.namespaces import is_sparse
from bayespca.arrays.types import Numbers
from bayespca.engines.decomposing import fits_in_memory
from bayespca.estimators._input import check_all_there
from bayespca.io.array_files import read_tensor
from bayespca.io.packages import need
from bayespca.io.records import File, How, Table
from bayespca.sources.blocks import from_file
from bayespca.sources.cluster import watched
from bayespca.sources.files import of_files
from bayespca.sources.records import Partitions

from .messages import SETTING
from .progress import progress, sweeps

T = TypeVar("T")

BLOCK_BYTES = 32 * 2**20
# Seconds to wait for an answer of the scheduler.
PATIENCE = 10


@dataclass(frozen=True)
class Input:
    """An open file, and its table unless it is streamed."""

    file: File
    table: Table | None

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
            "streamed": self.table is None,
        }

    @property
    def notes(self) -> list[str]:
        """Notes on how the file was read that its owner may not expect."""
        notes = [*self.file.layout.notes]
        if self.id_column is not None:
            name = f" {self.id_column!r}" if self.id_column else ""
            notes.append(f"The first column{name} was read as the names of the rows.")
        named = [(k, why) for k, why in self.aside.items() if why not in ("dropped", "row label")]
        if named:
            some = ", ".join(f"{name!r} ({why})" for name, why in named[:6])
            more = f" and {len(named) - 6} more" if len(named) > 6 else ""
            notes.append(f"Skipped columns: {some}{more}.")
        if self.table is None:
            notes.append(self.how_read)
        return notes

    def notes_on(self, model: Any) -> list[str]:
        """These notes, and those on how the model read the columns."""
        return self.notes

    def apply(self, what: str, work: Callable[[Any], T]) -> T:
        """The result of a function of the data, with a progress display.

        The function gets the table, or a stream that shows how far it has been read.
        """
        if self.table is None:
            source = from_file(self.file)

            def blocks() -> Iterator[np.ndarray]:
                with progress("reading", source.n_samples) as advance:
                    for block in source.blocks():
                        yield block
                        advance(len(block))

            return work(replace(source, blocks=blocks))
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
        stream = True
    elif stream and file.blocks is None:
        if how.transpose:
            raise ValueError("--transpose reads all of a file: leave out --stream.")
        raise ValueError(f"{path} cannot be streamed: CSV, TSV, Parquet and NPY files can.")
    if stream is None:
        stream = file.blocks is not None and not fits_in_memory(file.memory)
    if stream:
        SETTING.streamed = True
        return Input(file, None)
    with progress(f"reading {path.name}"):
        return Input(file, file.read())


def open_tensor(path: Path, how: How) -> Numbers:
    """Read a file with more than two axes."""
    with progress(f"reading {path.name}"):
        return read_tensor(path, how)


def labelled(given: Input, labels: Sequence[str]) -> tuple[Input, dict[str, Any]]:
    """The input without the columns of labels, and what colours samples in a report."""
    if not labels:
        return given, {}
    if given.table is None:
        raise ValueError(
            "--label needs the data in memory: use --in-memory, and neither --dask nor --workers."
        )
    values = [labels_of(given.table, name) for name in labels]
    table = given.table.without(labels, "label")
    return replace(given, table=table), {"labels": values[0], "labels_name": labels[0]}


def labels_of(table: Table, column: str) -> np.ndarray:
    """The column that colours samples: one that was set aside, a feature, or the ids."""
    if column in table.others:
        return table.others[column]
    if table.names is not None and column in table.names:
        return table.column(table.names.index(column))
    if table.ids is not None and column == table.id_name:
        return np.array(table.ids, dtype=object)
    known = [*table.others, *(table.names or [])]
    shown = ", ".join(map(repr, known[:8])) + (", …" if len(known) > 8 else "")
    raise ValueError(f"there is no column {column!r} to colour by; there are {shown}.")


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
    known = values[~holes]
    are_whole = bool(known.size and (np.abs(known) < 2**53).all() and (known % 1 == 0).all())
    is_whole = "int" in kind or (table.is_of_text and are_whole)
    return pl.Series(name, cells, dtype=pl.Float64).cast(pl.Int64 if is_whole else pl.Float64)


@dataclass(frozen=True)
class DaskCluster:
    """Place of computation: a scheduler's address, local processes, or this process if neither."""

    address: str | None = None
    workers: int | None = None

    @contextmanager
    def opened(self, path: Path, how: How, *, stream: bool | None) -> Iterator[Input]:
        """A context with the input of a command."""
        if not self.is_given:
            yield open_input(path, how, stream=stream)
            return
        self.check()
        if stream is not None:
            raise ValueError(
                "--stream and --in-memory say how this process reads files, but the workers of a "
                "Dask cluster read them: leave them out."
            )
        need("dask.array", "computing with Dask")
        file, partitions = of_files(path, how)
        with self.connected():
            yield ClusterInput(file, None, partitions)

    @property
    def is_given(self) -> bool:
        return self.address is not None or self.workers is not None

    def check(self) -> None:
        if self.address is not None and self.workers is not None:
            raise ValueError(
                "--dask is for a cluster that runs already, --workers starts one here: give only "
                "one of them."
            )

    @contextmanager
    def connected(self) -> Iterator[None]:
        """A context in which Dask computes on the cluster."""
        distributed = need("distributed", "computing with Dask")
        if self.workers is not None:
            with (
                distributed.LocalCluster(
                    n_workers=self.workers,
                    threads_per_worker=1,
                    dashboard_address="127.0.0.1:0",
                    silence_logs=logging.CRITICAL,
                ) as local,
                distributed.Client(local),
            ):
                yield
            return
        try:
            # An invalid address would leave behind a client that never connects but that Dask uses
            # as the default one.
            distributed.comm.resolve_address(str(self.address))
            client = distributed.Client(str(self.address), timeout=PATIENCE)
        except (OSError, ValueError) as error:
            raise ConnectionError(
                f"no Dask scheduler answers at {self.address} within {PATIENCE} seconds: see that "
                "`dask scheduler` runs there and that the address is the one it prints."
            ) from error
        with client:
            yield


@dataclass(frozen=True)
class ClusterInput(Input):
    """Files that the workers of a cluster read."""

    partitions: Partitions

    @property
    def how_read(self) -> str:
        n = len(self.partitions.chunks)
        return f"The data were read by Dask, in {n} block{'s' * (n != 1)}."

    def apply(self, what: str, work: Callable[[Any], T]) -> T:
        """The result of a function of the partitions; a terminal shows Dask's progress bar."""
        if not Console(file=sys.stderr).is_terminal:
            with progress(what):
                return work(self.partitions)
        # Dask prints the bar to standard output, which is for results.
        with redirect_stdout(sys.stderr), watched(_progress):
            return work(self.partitions)


def _progress(futures: Any) -> None:
    need("distributed", "computing with Dask").progress(futures, notebook=False)
    print()
