"""Arguments of a fitted factorization's methods: ids, pairs, counts, and unknown ids."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray, Identifiers, Input

from . import _identifiers

Places = NDArray[np.intp]
# Number of ids that a message lists.
SHOWN = 5


def places(ids: Input, known: Identifiers, name: str) -> Places:
    """Places of ids among the known ones, −1 if unknown; a single id gives an array of shape ()."""
    ids = _identifiers.here(ids)
    is_one = not hasattr(ids, "__len__") or isinstance(ids, str | bytes)
    if isinstance(ids, tuple):
        is_one = known.dtype == object and any(isinstance(value, tuple) for value in known)
    if is_one:
        return _identifiers.places(_identifiers.column([ids], name), known, name).reshape(())
    return _identifiers.places(_identifiers.column(ids, name), known, name)


def broadcast(rows: Places, columns: Places) -> tuple[Places, Places]:
    """Places of users and items, broadcast to one shape."""
    try:
        rows, columns = np.broadcast_arrays(rows, columns)
    except ValueError:
        raise ValueError(
            f"users and items must be of one shape, or broadcast to one: got {rows.shape} and "
            f"{columns.shape}."
        ) from None
    return rows, columns


def strangers_sentence(ids: Input, found: Places, what: str) -> str | None:
    """A sentence about users or items that the fit did not have; None if there are none."""
    unknown = np.flatnonzero(found.ravel() < 0)
    if not unknown.size:
        return None
    given = [ids] if not found.ndim else list(np.asarray(_identifiers.column(ids, what)).ravel())
    names = list(dict.fromkeys(str(given[i]) for i in unknown.tolist()))
    some = ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
    count = f"1 {what} was" if len(names) == 1 else f"{len(names)} {what}s were"
    return (
        f"{count} not in the fit ({some}): predictions for an unknown {what} come from the prior, "
        "with a wide standard deviation."
    )


def warn_of_strangers(*asked: tuple[Input, Places, str]) -> None:
    """Warn of unknown ids; each argument holds ids, their places, and "user" or "item"."""
    for ids, found, what in asked:
        sentence = strangers_sentence(ids, found, what)
        if sentence is not None:
            warnings.warn(f"{sentence} `known` says which.", UserWarning, stacklevel=3)


def one(value: Input) -> list[Input]:
    """A single id as a list; raise for a list or an array of ids."""
    if hasattr(value, "__len__") and not isinstance(value, str | bytes | tuple):
        raise ValueError(f"one id is expected here, got a {type(value).__name__}: call for each.")
    return [value]


def pairs(X: Input) -> tuple[Input, Input]:
    """Users and items of an array of pairs."""
    if hasattr(X, "iloc"):
        return X.iloc[:, 0], X.iloc[:, 1]
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] == 2:
        return X[:, 0], X[:, 1]
    if isinstance(X, list | tuple) and all(len(pair) == 2 for pair in X):
        return [pair[0] for pair in X], [pair[1] for pair in X]
    raise ValueError(
        "with y, X must be pairs (user, item): an array of shape (k, 2), got "
        f"{getattr(X, 'shape', type(X).__name__)}."
    )


def checked_count(n: object) -> int:
    if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 0:
        raise ValueError(f"n must be a whole number of at least 0, got {n!r}.")
    return int(n)


def largest(values: FloatArray, n: int) -> Places:
    """Places of the n largest values, largest first; among ties the first come first."""
    n = min(n, values.size)
    if n < values.size:
        edge = np.partition(values, values.size - n)[values.size - n] if n else np.inf
        some = np.flatnonzero(values >= edge)
    else:
        some = np.arange(values.size)
    return np.asarray(some[np.argsort(-values[some], kind="stable")][:n])
