"""Files that the workers of a Dask cluster read: tables piece by piece, ratings file by file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np

from bayespca.io.files import files_of, open_files
from bayespca.io.packages import need
from bayespca.io.pieces import cut_up
from bayespca.io.ratings_files import RatingColumns, read_head, read_ratings
from bayespca.io.records import Entries, File, How

from .records import Partitions
from .tasks import layer

# Names of the columns in the partitions.
USER, ITEM, RATING = "user", "item", "rating"


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
        chunks=tuple(layer("read", [(methodcaller("read"), piece) for piece in pieces])),
        n_features=len(file.layout.features),
        dtype=file.dtype,
        stored=file.dtype,
        names=None if names is None else tuple(names),
        lengths=None if None in known else tuple(n for lengths in known for n in lengths or ()),
    )


@dataclass(frozen=True)
class RatingsFile:
    """One file, and whether its ids of users and of items are whole numbers."""

    path: Path
    how: How
    columns: tuple[str, ...] | None
    users_whole: bool
    items_whole: bool

    def read(self) -> Any:
        """Its ratings as a pandas DataFrame."""
        found = read_ratings(self.path, self.how, self.columns)
        users = self._checked(found.users, self.users_whole, "users")
        items = self._checked(found.items, self.items_whole, "items")
        frame = {USER: users, ITEM: items, RATING: found.ratings}
        return need("pandas", "computing with Dask").DataFrame(frame)

    def _checked(self, ids: Entries, whole: bool, what: str) -> Entries:
        """The ids, as text where any file has text: ids of all files are compared."""
        if not whole:
            return np.array([str(one) for one in ids], dtype=object)
        if ids.dtype.kind not in "iu":
            raise ValueError(
                f"{self.path}: ids of {what} look like whole numbers in the first lines of all "
                "files, but later ones do not: prefix all ids with a letter, or leave --dask and "
                "--workers out."
            )
        return ids


def of_rating_files(path: Path, how: How, columns: Sequence[str] | None) -> RatingColumns:
    """Columns of a Dask DataFrame that the workers read.

    `path` may have wildcards. The client reads no more than the heads of the files.
    """
    paths = files_of(path)
    heads = [read_head(one, how, columns) for one in paths]
    names = heads[0].names
    for one, head in zip(paths, heads, strict=True):
        if head.names != names:
            raise ValueError(
                f"{one} has {', '.join(head.names)} as user, item and rating, {paths[0]} "
                f"{', '.join(names)}: name them with --columns."
            )
    users, items = (all(head.whole[k] for head in heads) for k in range(2))
    named = None if columns is None else tuple(columns)
    files = [RatingsFile(one.absolute(), how, named, users, items) for one in paths]
    pandas = need("pandas", "computing with Dask")
    kinds = {USER: np.int64 if users else object, ITEM: np.int64 if items else object}
    kinds |= {RATING: np.float64}
    meta = pandas.DataFrame({name: np.empty(0, kind) for name, kind in kinds.items()})
    frame = need("dask.dataframe", "computing with Dask").from_map(
        RatingsFile.read, files, meta=meta
    )
    return RatingColumns(frame[USER], frame[ITEM], frame[RATING], names)
