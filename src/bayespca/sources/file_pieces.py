"""Files as partitions, which the workers read themselves, piece by piece."""

from __future__ import annotations

import os

from bayespca.io.files import files_of, open_files
from bayespca.io.pieces import Piece, cut_up
from bayespca.io.records import File, How

from .records import Block, Partitions
from .tasks import layer


def of_files(path: str | os.PathLike[str], how: How | None = None) -> tuple[File, Partitions]:
    """Parquet or CSV files as partitions that the workers read themselves, piece by piece.

    `path` may have wildcards. The client reads no more than the heads of the files.
    """
    file, how = open_files(path, how), how or How()
    parts = [cut_up(one, how, dtype=file.dtype) for one in files_of(path)]
    pieces = [piece for part in parts for piece in part.pieces]
    known = [part.lengths for part in parts]
    names = file.layout.feature_names
    return file, Partitions(
        chunks=tuple(layer("read", [(_read, piece) for piece in pieces])),
        n_features=len(file.layout.features),
        dtype=file.dtype,
        stored=file.dtype,
        names=None if names is None else tuple(names),
        lengths=None if None in known else tuple(n for lengths in known for n in lengths or ()),
    )


def _read(piece: Piece) -> Block:
    return piece.read()
