"""Pieces of a file that workers can read independently.

A Parquet file is cut between row groups, a text file between lines. The client inspects the file
once; a worker needs nothing but its piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import numpy as np

from .arrow_files import features_of, open_parquet
from .dialect import TextSample
from .packages import need
from .records import COMPRESSED, PARQUET, TEXT, DType, Floats, How, Layout, known_ending, readable
from .text_files import (
    READ_AHEAD,
    block_size_of,
    complaint,
    reading_options,
    recognised,
    with_numbers,
)

# About the size of a piece; a row group is never split.
PIECE_BYTES = 32 * 2**20


@dataclass(frozen=True)
class ParquetPiece:
    """Row groups of a Parquet file from `first` to before `last`."""

    path: str
    first: int
    last: int
    names: tuple[str, ...]
    dtype: DType

    def read(self) -> Floats:
        """The features of these rows; on one thread, because pieces are read in parallel."""
        pa, parquet = (need(name, f"reading {self.path}") for name in PYARROW)
        flaws = (pa.ArrowException, OSError)
        with readable(self.path, "Parquet", *flaws), parquet.ParquetFile(self.path) as file:
            table = file.read_row_groups(
                range(self.first, self.last), columns=list(self.names), use_threads=False
            )
        return features_of(table, self.names, self.dtype, pa)


@dataclass(frozen=True)
class TextPiece:
    """The lines of a text table between two byte positions; the whole file if `stop` is −1."""

    path: str
    start: int
    stop: int
    sample: TextSample
    layout: Layout

    def read(self) -> Floats:
        pa, pa_csv = (need(name, f"reading {self.path}") for name in ("pyarrow", "pyarrow.csv"))
        options = reading_options(
            *(pa, pa_csv, self.sample, self.layout, self.layout.features),
            block_size=block_size_of(self.sample, READ_AHEAD),
        )
        if self.start:
            options["read_options"].skip_rows = 0
        options["read_options"].use_threads = False
        with open(self.path, "rb") as file:
            file.seek(self.start)
            lines: str | BytesIO = (
                self.path if self.stop < 0 else BytesIO(file.read(self.stop - self.start))
            )
        keys = [str(j) for j in self.layout.features]
        try:
            table = pa_csv.read_csv(lines, **options)
        except (pa.ArrowException, OSError, UnicodeError) as error:
            if "Empty CSV" in str(error):
                return np.empty((0, len(keys)))
            message = complaint(error, Path(self.path), self.sample, self.layout)
            raise ValueError(message) from error
        table = with_numbers(table, Path(self.path), self.sample, self.layout)
        return features_of(table, keys, np.dtype(np.float64), pa)


Piece = ParquetPiece | TextPiece
PYARROW = ("pyarrow", "pyarrow.parquet")


@dataclass(frozen=True)
class Pieces:
    """The pieces of a file; `lengths` are their numbers of rows, or None if unknown."""

    pieces: tuple[Piece, ...]
    lengths: tuple[int, ...] | None


def cut_up(
    path: Path, how: How, *, dtype: DType | None = None, piece_bytes: int = PIECE_BYTES
) -> Pieces:
    """Cut a Parquet or text file into pieces of about `piece_bytes` each.

    Numbers have type `dtype`, by default that of the file; those of text files are always float64.
    """
    if how.transpose:
        raise ValueError(
            f"{path}: Dask reads rows of samples; leave out --transpose, or --dask and --workers."
        )
    ending = known_ending(path)
    if ending in PARQUET:
        file = open_parquet(path, how)
        dtype = dtype or file.dtype
        parquet = need("pyarrow.parquet", f"reading {path}")
        metadata = parquet.read_metadata(path)
        names = tuple(file.layout.feature_names or ())
        counts = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        row_bytes = len(names) * dtype.itemsize
        pieces, lengths = [], []
        for first, last in _groups([n * row_bytes for n in counts], piece_bytes):
            pieces.append(ParquetPiece(str(path.absolute()), first, last, names, dtype))
            lengths.append(sum(counts[first:last]))
        return Pieces(tuple(pieces), tuple(lengths))
    if ending in TEXT:
        return _text(path, how, piece_bytes)
    raise ValueError(
        f"{path}: Dask reads Parquet and CSV files here; leave out --dask and --workers, or "
        "convert the file."
    )


def _groups(sizes: list[int], most: int) -> Iterator[tuple[int, int]]:
    """Ranges of neighbours whose total size is at most `most`, or of single items."""
    first, total = 0, 0
    for i, size in enumerate(sizes):
        if i > first and total + size > most:
            yield first, i
            first, total = i, 0
        total += size
    if first < len(sizes):
        yield first, len(sizes)


def _text(path: Path, how: How, piece_bytes: int) -> Pieces:
    sample, layout = recognised(path, how)
    whole = str(path.absolute())
    dialect, size = sample.dialect, path.stat().st_size
    # Quoted fields may contain line ends, and in other encodings bytes do not show line ends.
    is_plain = dialect.encoding.startswith("utf-8") and not dialect.has_quotes
    if path.suffix.lower() in COMPRESSED or not is_plain:
        return Pieces((TextPiece(whole, 0, -1, sample, layout),), None)
    edges = [0]
    with path.open("rb") as file:
        for place in range(piece_bytes, size, piece_bytes):
            file.seek(place)
            # A piece begins with the first line that begins after this place.
            file.readline()
            edges.append(file.tell())
    edges.append(size)
    pieces = [
        TextPiece(whole, start, stop, sample, layout)
        for start, stop in pairwise(edges)
        if stop > start
    ]
    return Pieces(tuple(pieces), None)
