"""The kinds of values that a file may hold for a field, from the field's annotation.

They are numbers, strings, None, unions, tuples, lists, dictionaries by name, types of numbers,
dataclasses, and arrays: `Annotated[NDArray[np.float64], 2]` is a matrix of numbers, and so is
`Annotated[Any, 2]`, which may be of any library before it is saved.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from .archive import LARGEST_INT
from .tree import Kind, Record

UNIONS = (Union, types.UnionType)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str | np.generic)


def _is_plain_or_list(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 1 and value.dtype.kind in "biuf"
    return _is_plain(value) or (isinstance(value, list | tuple) and all(map(_is_plain, value)))


ANYTHING = Kind("anything", lambda value: True)
PLAIN = Kind("None, a number or a string", _is_plain)
LISTED = Kind("None, a number, a string or a list of these", _is_plain_or_list)


def option_kind(annotation: Any) -> Kind:
    """The kind of a user's option: plain, or a list if the annotation has one.

    The code that uses an option checks its meaning. Options of type Any may be anything that a file
    can hold, such as random generators.
    """
    if annotation is Any:
        return ANYTHING
    parts = get_args(annotation) if get_origin(annotation) in UNIONS else (annotation,)
    return LISTED if any(get_origin(part) in CONTAINERS for part in parts) else PLAIN


def kind_of(annotation: Any) -> Kind:
    """The kind of values that an annotation stands for; TypeError if files cannot hold them."""
    annotation = _written_out(annotation)
    if annotation in PLAIN_KINDS:
        return PLAIN_KINDS[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        base, axes = arguments
        return _array("f", "numbers", axes) if base is Any else _array(*_entries(base), axes)
    if origin in UNIONS:
        kinds = [kind_of(one) for one in arguments]
        words = " or ".join(kind.words for kind in kinds)
        return Kind(words, lambda value: any(kind.fits(value) for kind in kinds))
    if origin is np.ndarray:
        return _array(*_entries(annotation), None)
    if origin in CONTAINERS:
        return CONTAINERS[origin](arguments)
    if isinstance(annotation, type) and is_dataclass(annotation):
        return Kind(f"a {annotation.__name__}", lambda value: isinstance(value, annotation))
    raise TypeError(f"{annotation!r} has no place in a file")


def _written_out(annotation: Any) -> Any:
    """What an alias of Python 3.12's `type` statement stands for; others as they are.

    NDArray has been one since NumPy 2.5.
    """
    alias = get_origin(annotation)
    if not hasattr(alias, "__value__"):
        return annotation
    return _written_out(alias.__value__[get_args(annotation)])


# --- records -----------------------------------------------------------------------------------


def annotations_of(record: type) -> dict[str, Any]:
    """The annotations of the fields of a dataclass, with type variables replaced."""
    hints, bound = get_type_hints(record, include_extras=True), bound_in(record)
    return {field.name: bound.get(hints[field.name], hints[field.name]) for field in fields(record)}


def bound_in(cls: type) -> dict[Any, Any]:
    """Type variables of the generic bases of a class, with the types that the class binds."""
    bases = [base for one in reversed(cls.__mro__) for base in vars(one).get("__orig_bases__", ())]
    bound: dict[Any, Any] = {}
    for base in bases:
        variables = getattr(get_origin(base), "__parameters__", ())
        given = dict(zip(variables, get_args(base), strict=False))
        # A variable may be bound to another one, until a subclass binds that.
        bound = {variable: given.get(value, value) for variable, value in bound.items()} | given
    return {variable: value for variable, value in bound.items() if not isinstance(value, TypeVar)}


def records_in(*annotations: Any) -> list[type]:
    """The dataclasses that values of annotated types can contain, at any depth."""
    found: list[type] = []
    waiting = list(annotations)
    while waiting:
        one = waiting.pop()
        waiting += get_args(one)
        if isinstance(one, type) and is_dataclass(one) and one not in found:
            found.append(one)
            waiting += annotations_of(one).values()
    return found


@lru_cache(maxsize=256)
def record_of(cls: type) -> Record:
    """The record of a dataclass; TypeError names a field that cannot be saved."""
    kinds = {}
    for name, annotation in annotations_of(cls).items():
        try:
            kinds[name] = kind_of(annotation)
        except TypeError as error:
            raise TypeError(f"{cls.__name__}.{name} cannot be saved: {error}.") from None
    return Record(cls, kinds, getattr(cls, "check", lambda record: None))


def records_of(*annotations: Any) -> dict[str, Record]:
    """The records that values of annotated types can contain, by their names in files."""
    classes = records_in(*annotations)
    found = {cls.__name__: record_of(cls) for cls in classes}
    if len(found) != len(classes):
        names = sorted(f"{cls.__name__} ({cls.__module__})" for cls in classes)
        raise TypeError(f"two records have one name in files: {', '.join(names)}.")
    return found


# --- kinds -------------------------------------------------------------------------------------


def _is_whole(value: Any) -> bool:
    whole = isinstance(value, int | np.integer) and type(value) is not bool
    return whole and 0 <= int(value) <= LARGEST_INT


PLAIN_KINDS: dict[Any, Kind] = {
    None: Kind("None", lambda value: value is None),
    type(None): Kind("None", lambda value: value is None),
    str: Kind("a string", lambda value: isinstance(value, str)),
    bool: Kind("true or false", lambda value: isinstance(value, bool | np.bool_)),
    int: Kind("a whole number", _is_whole),
    float: Kind("a number", lambda value: isinstance(value, float | np.floating)),
    np.dtype: Kind(
        "float32 or float64",
        lambda value: isinstance(value, np.dtype) and value in (np.dtype("f4"), np.dtype("f8")),
    ),
}

# For each number type of an annotation: NumPy's letters of the kinds that fit, and their name.
NUMBERS = ((np.floating, "f", "numbers"), (np.integer, "iu", "whole numbers"))
WORDS = {
    None: "an array of {}",
    1: "a vector of {}",
    2: "a matrix of {}",
    3: "a stack of matrices of {}",
    4: "stacks of matrices of {}",
}


def _array(letters: str, what: str, axes: int | None) -> Kind:
    return Kind(
        WORDS[axes].format(what),
        lambda value: (
            isinstance(value, np.ndarray)
            and value.ndim == (value.ndim if axes is None else axes)
            and value.dtype.kind in letters
            # Linear algebra supports neither float16 nor types wider than float64.
            and (value.dtype.kind != "f" or value.dtype.itemsize in (4, 8))
        ),
    )


def _entries(annotation: Any) -> tuple[str, str]:
    """Letters and name for an annotation `ndarray[shape, dtype[scalar]]`."""
    (scalar,) = get_args(get_args(_written_out(annotation))[1]) or (Any,)
    scalar = get_origin(scalar) or scalar
    if scalar is Any:
        return "biufO", "numbers or strings"
    if scalar is np.object_:
        return "O", "strings"
    return next((letters, what) for base, letters, what in NUMBERS if issubclass(scalar, base))


def _tuple(arguments: Sequence[Any]) -> Kind:
    if arguments[-1] is Ellipsis:
        return _items(tuple, "a tuple", kind_of(arguments[0]))
    kinds = [kind_of(one) for one in arguments]
    return Kind(
        f"a tuple of {' and '.join(kind.words for kind in kinds)}",
        lambda value: (
            isinstance(value, tuple)
            and len(value) == len(kinds)
            and all(kind.fits(item) for kind, item in zip(kinds, value, strict=True))
        ),
    )


def _items(container: Any, words: str, kind: Kind) -> Kind:
    return Kind(
        f"{words}, each {kind.words}",
        lambda value: isinstance(value, container) and all(map(kind.fits, value)),
    )


def _by_name(arguments: Sequence[Any]) -> Kind:
    kind = kind_of(arguments[1])
    return Kind(
        f"{kind.words} by name",
        lambda value: (
            isinstance(value, dict)
            and all(isinstance(key, str) and kind.fits(item) for key, item in value.items())
        ),
    )


CONTAINERS: dict[Any, Callable[[Sequence[Any]], Kind]] = {
    tuple: _tuple,
    list: lambda arguments: _items(list, "a list", kind_of(arguments[0])),
    Sequence: lambda arguments: _items(list | tuple, "a list", kind_of(arguments[0])),
    dict: _by_name,
    np.dtype: lambda arguments: PLAIN_KINDS[np.dtype],
}
