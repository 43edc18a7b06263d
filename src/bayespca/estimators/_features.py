"""Features of users and items: frames by their ids, as numbers in the order of the cells."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bayespca.arrays.types import FloatArray, Identifiers, Input
from bayespca.io.packages import need

from . import _identifiers, _ratings


def joined(
    cells: _ratings.Cells, of_users: Input, of_items: Input
) -> tuple[_ratings.Cells, FloatArray | None, FloatArray | None]:
    """Cells with those who have features and no ratings at the end, and features of all.

    Who has ratings and no features has the mean of those who do.
    """
    users, user_features = _joined(cells.users, of_users, "user_features")
    items, item_features = _joined(cells.items, of_items, "item_features")
    more = users.size - cells.users.size
    starts = np.concatenate([cells.starts, np.full(more, cells.starts[-1])])
    return replace(cells, users=users, items=items, starts=starts), user_features, item_features


def _joined(ids: Identifiers, frame: Any, name: str) -> tuple[Identifiers, FloatArray | None]:
    if frame is None:
        return ids, None
    keys, values = _read(frame, name)
    places = _identifiers.places(keys, ids, name)
    new = np.flatnonzero(places < 0)
    both = np.concatenate([ids, keys[new]])
    places[new] = ids.size + np.arange(new.size)
    found = np.tile(values.mean(axis=0), (both.size, 1))
    found[places] = values
    return both, found


def _read(frame: Any, name: str) -> tuple[Identifiers, FloatArray]:
    """Ids, and numbers for each; words become columns of zeros and ones."""
    if not (hasattr(frame, "index") and hasattr(frame, "columns")):
        raise ValueError(
            f"{name} must be a DataFrame whose index has the ids, got {type(frame).__name__}."
        )
    if not frame.index.is_unique:
        twice = frame.index[frame.index.duplicated()].tolist()[0]
        raise ValueError(f"{name} has more than one row for {twice!r}: keep one of them.")
    if not len(frame) or not len(frame.columns):
        raise ValueError(f"{name} is empty: leave it out, or give a row for each id.")
    pandas = need("pandas", f"reading {name}")
    values = pandas.get_dummies(frame).to_numpy(dtype=np.float64)
    if not np.isfinite(values).all():
        row, _ = np.argwhere(~np.isfinite(values))[0]
        raise ValueError(
            f"{name} has no number in a column of {frame.index.tolist()[row]!r}: fill it in, or "
            "leave the row out."
        )
    return _identifiers.column(frame.index, name), values
