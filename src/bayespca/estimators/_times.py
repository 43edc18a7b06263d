"""Times of ratings as numbers; users pass numbers of any unit, or dates."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayespca.arrays.types import FloatArray, Input

from . import _ratings


def joined(users: Input, items: Input, ratings: Input, times: Input, bounds: Any) -> _ratings.Cells:
    """Ratings from three columns of one length, and a fourth with their times if known."""
    if times is None:
        return _ratings.from_columns(users, items, ratings, bounds)
    found, count = numbers(times), len(ratings)
    if found.shape != (count,):
        raise ValueError(
            f"times must be one column, as long as ratings: got shape {found.shape} for {count} "
            "ratings."
        )
    if count and found.min() == found.max():
        raise ValueError("times are all the same: leave them out.")
    return _ratings.from_columns(users, items, ratings, bounds, found)


def check_known(fit: Any) -> None:
    """Raise if the fit had no times."""
    if fit.draws is None or fit.draws.drift is None:
        raise ValueError("the model was fitted without times: leave them out, or fit with them.")


def broadcast(times: Input, shape: tuple[int, ...]) -> FloatArray:
    """Times as numbers, broadcast to the shape of the pairs."""
    found = numbers(times)
    try:
        return np.broadcast_to(found, shape)
    except ValueError:
        raise ValueError(
            f"times must be one for all pairs or one for each: got shape {found.shape} for pairs "
            f"of shape {shape}."
        ) from None


def numbers(times: Input) -> FloatArray:
    """Times as numbers; dates become seconds."""
    given = np.asarray(times)
    if given.dtype.kind == "M":
        lost = np.flatnonzero(np.isnat(given.ravel()))
        if lost.size:
            raise ValueError(
                f"times has no value at position {lost[0]} (counting from 0): every rating needs "
                "a time."
            )
        return np.asarray(given.astype("datetime64[us]").astype(np.int64) / 1e6)
    where = "position {} (counting from 0)".format
    return _ratings.numbers(given.ravel(), "times", where).reshape(given.shape)
