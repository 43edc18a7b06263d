"""Names of users and items, whatever they are: numbered, and found again."""

from __future__ import annotations

import weakref
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import Identifiers

Ids = Identifiers
Places = NDArray[np.intp]

NUMBERS = "biuf"


def column(values: Any, name: str) -> Ids:
    """Values as an array: of numbers where all are, else of objects as they are.

    Lists, NumPy arrays, pandas and polars Series, Arrow columns.
    """
    if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
        raise ValueError(
            f"{name} must be a list, an array or a column, got {type(values).__name__}."
        )
    if isinstance(values, np.ma.MaskedArray):
        values = [None if is_masked else value for value, is_masked in _with_masks(values)]
    if not isinstance(values, np.ndarray | list | tuple):
        values = _as_numpy(values)
    if not isinstance(values, np.ndarray):
        return _homogeneous(_objects(values))
    if values.dtype.kind in NUMBERS:
        return values
    flat = values.ravel()
    # Dates of NumPy would become bare numbers in a list.
    items = flat.tolist() if values.dtype.kind in "OUST" else list(flat)
    return _homogeneous(_objects(items)).reshape(values.shape)


def numbered(values: Ids, name: str) -> tuple[Ids, NDArray[np.int32]]:
    """The different ids, numbers sorted and others as they come, and the place of each value."""
    ids, places = _distinct(values, name)
    _check_ids(ids, places, name)
    return ids, places.astype(np.int32)


def places(values: Ids, ids: Ids, name: str) -> Places:
    """Where values are among the ids; −1 for those that are not."""
    distinct, inverse = _distinct(values.ravel(), name)
    is_sorted = ids.dtype != object and bool(np.all(ids[:-1] < ids[1:]))
    if is_sorted and distinct.dtype.kind == ids.dtype.kind:
        found = _searched(distinct, ids)
    else:
        known = _known(ids)
        found = np.array([known.get(value, -1) for value in distinct.tolist()], dtype=np.intp)
    if found.size and (found < 0).all():
        _check_alike(distinct, ids, name)
    return np.asarray(found[inverse].reshape(values.shape), dtype=np.intp)


# --- columns -----------------------------------------------------------------------------------


def _with_masks(values: Any) -> Any:
    return zip(np.ma.getdata(values).tolist(), np.ma.getmaskarray(values).tolist(), strict=True)


def _as_numpy(values: Any) -> Any:
    """A column of another library in NumPy, or its items as a list."""
    try:
        found = np.asarray(values)
    except (TypeError, ValueError):
        found = np.empty((), dtype=object)
    return found if found.ndim == 1 else list(values)


def _objects(values: Any) -> Ids:
    # Not np.array, which would make a matrix of tuples.
    return np.fromiter(values, dtype=object, count=len(values))


def _homogeneous(values: Ids) -> Ids:
    """Objects that are all whole numbers, or all floats, as an array of these."""
    kinds = set(map(type, values))
    for family, dtype in ((int, np.int64), (float, np.float64), (bool, np.bool_)):
        if kinds == {family}:
            try:
                return values.astype(dtype)
            except OverflowError:
                return values
    if kinds and all(issubclass(kind, np.number | np.bool_) for kind in kinds):
        return np.array(values.tolist())
    return values


# --- numbering ---------------------------------------------------------------------------------


def _distinct(values: Ids, name: str) -> tuple[Ids, Ids]:
    if values.dtype == object:
        return _distinct_objects(values, name)
    if values.dtype.kind in "iu" and values.size:
        low, high = int(values.min()), int(values.max())
        if high - low < 4 * values.size + 1000:
            return _distinct_by_table(values, low, high)
    ids, places = np.unique(values, return_inverse=True)
    return ids, places


def _distinct_by_table(values: Ids, low: int, high: int) -> tuple[Ids, Ids]:
    """Whole numbers that lie close together, without sorting them."""
    is_there = np.zeros(high - low + 1, dtype=bool)
    # In a type that holds all differences, and all ids from 2⁶³ on.
    wide = values.astype(np.uint64 if values.dtype.kind == "u" else np.int64, copy=False)
    shifted = (wide - wide.dtype.type(low)).astype(np.intp)
    is_there[shifted] = True
    ids = (np.flatnonzero(is_there).astype(wide.dtype) + wide.dtype.type(low)).astype(values.dtype)
    return ids, (np.cumsum(is_there) - 1)[shifted]


def _distinct_objects(values: Ids, name: str) -> tuple[Ids, Ids]:
    items = values.tolist()
    try:
        known = {value: i for i, value in enumerate(dict.fromkeys(items))}
    except TypeError:
        _refuse_unhashable(values, name)
        raise
    found = np.fromiter(map(known.__getitem__, items), dtype=np.intp, count=len(items))
    return _objects(list(known)), found


def _searched(distinct: Ids, ids: Ids) -> Places:
    if not ids.size:
        return np.full(distinct.size, -1)
    at = np.minimum(np.searchsorted(ids, distinct), ids.size - 1)
    return np.where(ids[at] == distinct, at, -1)


def _known(ids: Ids) -> dict[Any, int]:
    """The place of each id, made once for an array as long as it lives."""
    key = id(ids)
    if key not in _KNOWN:
        known = {value: i for i, value in enumerate(ids.tolist())}
        _KNOWN[key] = (weakref.ref(ids, lambda _: _KNOWN.pop(key, None)), known)
    return _KNOWN[key][1]


_KNOWN: dict[int, tuple[weakref.ref[Ids], dict[Any, int]]] = {}


# --- what is no id -----------------------------------------------------------------------------


def _check_ids(ids: Ids, places: Ids, name: str) -> None:
    if ids.dtype.kind == "f":
        wrong = np.flatnonzero(np.isnan(ids))
    elif ids.dtype == object:
        wrong = np.array([i for i, value in enumerate(ids) if _is_nothing(value)], dtype=np.intp)
    else:
        return
    if wrong.size:
        first = int(np.flatnonzero(np.isin(places, wrong))[0])
        raise ValueError(
            f"{name} has no id at position {first} (counting from 0), but {ids[places[first]]}: "
            "leave such ratings out, or give them an id."
        )


def _check_alike(strangers: Ids, ids: Ids, name: str) -> None:
    """Raise where none of some ids is known, though some would be as text, or as numbers."""
    theirs, ours = (_family(values) for values in (strangers, ids))
    if theirs == ours or not (theirs and ours) or not _as_text(strangers) & _as_text(ids):
        return
    one, other = (values[:1].tolist()[0] for values in (strangers, ids))
    raise ValueError(
        f"{name} are {theirs}, as {one!r}, and those of the fit are {ours}, as {other!r}: none of "
        "them is known. Give them in the type that they had in the fit."
    )


def _as_text(ids: Ids) -> set[str]:
    return {v.decode(errors="replace") if isinstance(v, bytes) else str(v) for v in ids.tolist()}


def _family(ids: Ids) -> str | None:
    """Whether ids are text or numbers; None where they are both, or neither."""
    if ids.dtype.kind in NUMBERS:
        return "numbers"
    kinds = set(map(type, ids.tolist()))
    for words, family in (("text", str), ("bytes", bytes), ("numbers", Real)):
        if kinds and all(issubclass(kind, family) for kind in kinds):
            return words
    return None


def _is_nothing(value: Any) -> bool:
    """None, NaN, pandas' NA and NaT."""
    if value is None:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124 (what NaN is known by)
    except (TypeError, ValueError):
        return True


def _refuse_unhashable(values: Ids, name: str) -> None:
    for i, value in enumerate(values):
        try:
            hash(value)
        except TypeError:
            raise ValueError(
                f"{name} has {value!r} at position {i} (counting from 0), a "
                f"{type(value).__name__}, which cannot be an id: use numbers, strings or tuples."
            ) from None
