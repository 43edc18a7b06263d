"""Kinds of values: what a file may hold for each type annotation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import GenericAlias
from typing import Annotated, Any, Generic, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from bayespca.io.kinds import bound_in, kind_of, option_kind, record_of, records_in, records_of

P = TypeVar("P")
Q = TypeVar("Q")
FLOATS = NDArray[np.float64]


@dataclass(frozen=True)
class Inner:
    size: int


@dataclass(frozen=True)
class Outer(Generic[P]):
    inner: P
    name: str | None = None


@dataclass(frozen=True)
class Between(Outer[Q]):
    more: tuple[Inner, ...] = ()


@dataclass(frozen=True)
class Whole(Between[Inner | float]):
    pass


@pytest.mark.parametrize(
    ("annotation", "words", "good", "bad"),
    [
        (None, "None", [None], [0, ""]),
        (bool, "true or false", [True, np.bool_(False)], [0, None]),
        (int, "a whole number", [0, np.int8(3), 2**53], [True, -1, 1.0, 2**53 + 1]),
        (float, "a number", [0.5, np.float32(1), float("nan")], [1, "1", None, np.zeros(1)]),
        (str, "a string", ["", "x"], [b"x", None]),
        (int | None, "a whole number or None", [3, None], [3.5]),
        (tuple[int, float], "a tuple of a whole number and a number", [(1, 2.0)], [(1,), [1, 2.0]]),
        (tuple[str, ...], "a tuple, each a string", [(), ("a",)], [("a", 1), ["a"]]),
        (list[str], "a list, each a string", [[], ["a"]], [("a",), [1]]),
        (Sequence[str], "a list, each a string", [[], ("a",)], [[1], "a"]),
        (dict[str, float], "a number by name", [{}, {"a": 1.0}], [{1: 1.0}, {"a": 1}, []]),
        (np.dtype[Any], "float32 or float64", [np.dtype("f4")], [np.dtype("i4"), "f4"]),
        (FLOATS, "an array of numbers", [np.zeros(()), np.zeros((2, 3), "f4")], [np.zeros(2, int)]),
        (Annotated[FLOATS, 1], "a vector of numbers", [np.zeros(2)], [np.zeros((2, 1)), [0.0]]),
        (Annotated[Any, 2], "a matrix of numbers", [np.zeros((2, 1))], [np.zeros(2)]),
        (Annotated[Any, None], "an array of numbers", [np.zeros((2, 1))], [np.zeros(2, "?")]),
        (
            Annotated[NDArray[np.int64], 1],
            "a vector of whole numbers",
            [np.zeros(2, "i4")],
            [np.zeros(2)],
        ),
        (
            Annotated[NDArray[np.object_], 1],
            "a vector of strings",
            [np.array(["a"], object)],
            [np.zeros(2)],
        ),
        (
            Annotated[NDArray[Any], 1],
            "a vector of numbers or strings",
            [np.zeros(2), np.array(["a"], object)],
            [np.zeros(2, complex)],
        ),
        (Inner, "a Inner", [Inner(3)], [Outer(3), None]),
    ],
    ids=str,
)
def test_kinds_of_annotations(annotation, words, good, bad):
    kind = kind_of(annotation)
    assert kind.words == words
    assert all(kind.fits(value) for value in good)
    assert not any(kind.fits(value) for value in bad)


@pytest.mark.parametrize("annotation", [object, Any, complex, P, dict[int, Any], list[object]])
def test_what_has_no_place_in_a_file(annotation):
    with pytest.raises(TypeError):
        kind_of(annotation)


def test_aliases_are_what_they_stand_for():
    """NDArray of NumPy 2.5 on Python 3.12, made of parts that older ones have."""

    class Alias:
        __value__ = np.ndarray[tuple[Any, ...], np.dtype[P]]

    floats = GenericAlias(Alias, (np.float64,))
    assert kind_of(floats).words == "an array of numbers"
    assert kind_of(Annotated[floats, 2]).words == "a matrix of numbers"


def test_type_variables_are_what_a_class_says():
    assert bound_in(Whole)[P] == bound_in(Whole)[Q] == Inner | float
    words = {name: kind.words for name, kind in record_of(Whole).kinds.items()}
    assert words["inner"] == "a Inner or a number"
    assert set(records_in(Whole)) == {Whole, Inner}
    with pytest.raises(TypeError, match=r"Outer\.inner cannot be saved"):
        record_of(Outer)


def test_two_records_of_one_name():
    other = dataclass(type("Inner", (), {"__annotations__": {"name": str}}))
    with pytest.raises(TypeError, match="two records have one name in files: Inner"):
        records_of(Inner, other)


def test_options():
    plain, listed = option_kind(float | str), option_kind(int | Sequence[int] | None)
    assert all(plain.fits(value) for value in (None, 3, -1, True, "x", np.float32(1)))
    assert not any(plain.fits(value) for value in ([1], (1,), {}, np.zeros(2)))
    assert all(listed.fits(value) for value in ("x", [1, None], (-1,), np.arange(3)))
    assert not any(listed.fits(value) for value in ([[1]], {}, np.zeros((2, 2)), [object()]))
    assert option_kind(Any).fits(object())
