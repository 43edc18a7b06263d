"""Ratings in files that the workers of a Dask cluster read: a partition for each file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bayespca.io.files import files_of
from bayespca.io.packages import need
from bayespca.io.ratings_files import RatingColumns, read_head, read_ratings
from bayespca.io.records import Entries, How

# Names of the columns in the partitions.
USER, ITEM, RATING = "user", "item", "rating"


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
    _check_same(paths, [head.names for head in heads])
    users, items = (all(head.whole[k] for head in heads) for k in range(2))
    named = None if columns is None else tuple(columns)
    files = [RatingsFile(one.absolute(), how, named, users, items) for one in paths]
    pandas = need("pandas", "computing with Dask")
    kinds = {USER: np.int64 if users else object, ITEM: np.int64 if items else object}
    kinds |= {RATING: np.float64}
    meta = pandas.DataFrame({name: np.empty(0, kind) for name, kind in kinds.items()})
    frame = need("dask.dataframe", "computing with Dask").from_map(_read, files, meta=meta)
    return RatingColumns(frame[USER], frame[ITEM], frame[RATING], heads[0].names)


def _check_same(paths: Sequence[Path], names: Sequence[tuple[str, ...]]) -> None:
    for path, here in zip(paths, names, strict=True):
        if here != names[0]:
            raise ValueError(
                f"{path} has {', '.join(here)} as user, item and rating, {paths[0]} "
                f"{', '.join(names[0])}: name them with --columns."
            )


def _read(file: RatingsFile) -> Any:
    return file.read()
