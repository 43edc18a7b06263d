"""Ids of users and items, of any type: numbering and look-up."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from numbers import Number
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj, is_dask_array
from numpy.typing import NDArray

from bayespca.arrays.namespaces import is_sparse, to_numpy
from bayespca.arrays.types import Identifiers

Ids = Identifiers
Places = NDArray[np.intp]

NUMBERS = "biuf"


def column(values: Any, name: str) -> Ids:
    """Values as an array: of numbers if all are numbers, else of the unchanged objects.

    Takes lists, NumPy arrays, pandas and polars Series and Arrow columns; arrays of other libraries
    are copied to the host.
    """
    values = here(values)
    is_unordered = isinstance(values, Mapping | set | frozenset)
    if isinstance(values, str | bytes) or is_unordered or not hasattr(values, "__len__"):
        raise ValueError(
            f"{name} must be a list, an array or a column, got {type(values).__name__}."
        )
    if isinstance(values, np.ma.MaskedArray):
        data, masks = np.ma.getdata(values).tolist(), np.ma.getmaskarray(values).tolist()
        values = [None if mask else value for value, mask in zip(data, masks, strict=True)]
    if not isinstance(values, np.ndarray | list | tuple):
        # A column of another library becomes an array, or a list of its items.
        try:
            found = np.asarray(values)
        except (TypeError, ValueError):
            found = np.empty((), dtype=object)
        values = found if found.ndim == 1 else list(values)
    if not isinstance(values, np.ndarray):
        return _homogeneous(_objects(values))
    if values.dtype.kind in NUMBERS:
        return values
    flat = values.ravel()
    # tolist() would turn NumPy's dates into bare numbers.
    items = flat.tolist() if values.dtype.kind in "OUST" else list(flat)
    return _homogeneous(_objects(items)).reshape(values.shape)


def here(values: Any) -> Any:
    """Arrays of torch, CuPy and others as NumPy arrays; anything else unchanged."""
    if isinstance(values, np.ndarray | np.generic) or is_dask_array(values) or is_sparse(values):
        return values
    return to_numpy(values) if is_array_api_obj(values) else values


def numbered(values: Ids, name: str) -> tuple[Ids, NDArray[np.int32]]:
    """Distinct ids, numbers sorted and others as they come, and the place of each value."""
    ids, places = _distinct(values, name)
    _check_ids(ids, places, name)
    return ids, places.astype(np.int32)


def places(values: Ids, ids: Ids, name: str) -> Places:
    """Places of values among the ids; −1 for unknown ones.

    Raise for values that cannot be ids, and for unknown ids of a type that no id of the fit has:
    their predictions would be mere means.
    """
    distinct, inverse = _distinct(values.ravel(), name)
    _check_ids(distinct, inverse, name)
    is_sorted = ids.dtype != object and bool(np.all(ids[:-1] < ids[1:]))
    if is_sorted and distinct.dtype.kind == ids.dtype.kind:
        found = _searched(distinct, ids)
    else:
        known = _known(ids)
        found = np.array([known.get(value, -1) for value in distinct.tolist()], dtype=np.intp)
    _check_types(distinct, inverse, ids, is_stranger=found < 0, name=name)
    return np.asarray(found[inverse].reshape(values.shape), dtype=np.intp)


# --- columns -----------------------------------------------------------------------------------


def _objects(values: Any) -> Ids:
    # np.array would make a matrix of tuples.
    return np.fromiter(values, dtype=object, count=len(values))


def _homogeneous(values: Ids) -> Ids:
    """Objects that are all integers, floats or booleans as an array of that type."""
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
        items = values.tolist()
        try:
            known = {value: i for i, value in enumerate(dict.fromkeys(items))}
        except TypeError:
            for i, value in enumerate(values):
                try:
                    hash(value)
                except TypeError:
                    raise ValueError(
                        f"{name} has {value!r} at position {i} (counting from 0), a "
                        f"{type(value).__name__}, which cannot be an id: use numbers, strings or "
                        "tuples."
                    ) from None
            raise
        found = np.fromiter(map(known.__getitem__, items), dtype=np.intp, count=len(items))
        return _objects(list(known)), found
    if values.dtype.kind in "iu" and values.size:
        low, high = int(values.min()), int(values.max())
        if high - low < 4 * values.size + 1000:
            # Whole numbers that lie close together need no sorting.
            is_there = np.zeros(high - low + 1, dtype=bool)
            # This type holds all differences, and all ids from 2⁶³ on.
            wide = values.astype(np.uint64 if values.dtype.kind == "u" else np.int64, copy=False)
            shifted = (wide - wide.dtype.type(low)).astype(np.intp)
            is_there[shifted] = True
            ids = np.flatnonzero(is_there).astype(wide.dtype) + wide.dtype.type(low)
            return ids.astype(values.dtype), (np.cumsum(is_there) - 1)[shifted]
    ids, places = np.unique(values, return_inverse=True)
    return ids, places


def _searched(distinct: Ids, ids: Ids) -> Places:
    if not ids.size:
        return np.full(distinct.size, -1)
    at = np.minimum(np.searchsorted(ids, distinct), ids.size - 1)
    return np.where(ids[at] == distinct, at, -1)


def _known(ids: Ids) -> dict[Any, int]:
    """The place of each id, computed once for each array and kept while the array lives."""
    key = id(ids)
    if key not in _KNOWN:
        known = {value: i for i, value in enumerate(ids.tolist())}
        _KNOWN[key] = (weakref.ref(ids, lambda _: _KNOWN.pop(key, None)), known)
    return _KNOWN[key][1]


_KNOWN: dict[int, tuple[weakref.ref[Ids], dict[Any, int]]] = {}


# --- invalid ids -------------------------------------------------------------------------------


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
            "leave it out, or give it an id."
        )


def _check_types(
    distinct: Ids, places: Ids, ids: Ids, *, is_stranger: NDArray[np.bool_], name: str
) -> None:
    """Raise for the first unknown id whose type no id of the fit has."""
    if {distinct.dtype.kind, ids.dtype.kind} <= set(NUMBERS) or not is_stranger.any():
        return
    # Each type among the ids, with the first id of that type.
    types: dict[str, Any] = {}
    for value in ids.tolist():
        types.setdefault(_type_of(value), value)
    wrong = [i for i in np.flatnonzero(is_stranger) if _type_of(distinct[i]) not in types]
    if wrong:
        first = int(np.flatnonzero(np.isin(places, wrong))[0])
        value = distinct.tolist()[places[first]]
        ours = " or ".join(f"{words}, as {one!r}" for words, one in types.items())
        raise ValueError(
            f"{name} has {value!r} at position {first} (counting from 0), of type "
            f"{type(value).__name__}, but the ids of the fit are {ours}: give ids in the type that "
            "they had in the fit."
        )


def _type_of(value: Any) -> str:
    """Name of a value's type; types share a name if their values may be equal."""
    for words, family in (("text", str), ("numbers", Number)):
        if isinstance(value, family):
            return words
    return f"of type {type(value).__name__}"


def _is_nothing(value: Any) -> bool:
    """Whether a value is None, NaN, or pandas' NA or NaT."""
    if value is None:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124 (only NaN differs from itself)
    except (TypeError, ValueError):
        return True
