"""Constraints on options: a test, the words of a message, and the kind in a docstring."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal, get_args, get_origin

import numpy as np

# The head of a docstring's entry lists at most this many words.
LISTED = 5
SEEDS = (
    np.random.Generator,
    np.random.RandomState,
    np.random.BitGenerator,
    np.random.SeedSequence,
)


@dataclass(frozen=True)
class Constraint:
    """The kinds of values that an option accepts; `a | b` accepts the kinds of both.

    Each kind has an entry in `words`, for messages, and one in `kinds`, for docstrings.
    """

    words: tuple[str, ...]
    kinds: tuple[str, ...]
    fits: Callable[[Any], bool]

    def __or__(self, other: Constraint) -> Constraint:
        return Constraint(
            self.words + other.words,
            self.kinds + other.kinds,
            lambda value: self.fits(value) or other.fits(value),
        )

    @property
    def kind(self) -> str:
        return _listed(self.kinds)

    def check(self, name: str, value: object) -> None:
        """Raise ValueError with the option's name, its allowed values and the one given."""
        if not self.fits(value):
            words = _listed(self.words)
            raise ValueError(f"{name} must be {words}{';' if ',' in words else ','} got {value!r}.")


def _listed(items: Sequence[str]) -> str:
    *others, last = items
    return f"{', '.join(others)} or {last}" if others else last


# --- words -------------------------------------------------------------------------------------


def _is_one_of(value: Any, options: Sequence[object]) -> bool:
    return any(value is one or (np.ndim(value) == 0 and value == one) for one in options)


def one_of(*options: object) -> Constraint:
    """Exactly one of these values."""
    listed = ", ".join(repr(option) for option in options)
    braces = ", ".join(map(quoted, options))
    kind = f"{{{braces}}}" if len(options) <= LISTED else "str"
    return Constraint((f"one of {listed}",), (kind,), lambda value: _is_one_of(value, options))


def word(option: object) -> Constraint:
    """This value, as one kind among others."""
    return Constraint((repr(option),), (quoted(option),), lambda value: _is_one_of(value, [option]))


def quoted(value: object) -> str:
    """The value as a docstring writes it."""
    return f'"{value}"' if isinstance(value, str) else f"{value!r}".replace("e-0", "e-")


# --- numbers -----------------------------------------------------------------------------------


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def _is_finite(value: object) -> bool:
    return isinstance(value, Real) and bool(np.isfinite(float(value)))


def whole(least: int, what: str = "") -> Constraint:
    """A whole number of at least `least`; `what` says in messages what it counts."""
    words = f"a whole number of at least {least}" + (f", {what}" if what else "")
    return Constraint((words,), ("int",), lambda value: _is_whole(value, least))


def at_least(least: float) -> Constraint:
    return Constraint(
        (f"a number of at least {least:g}",),
        ("float",),
        lambda value: isinstance(value, Real) and float(value) >= least,
    )


SHARE = Constraint(
    ("a number between 0 and 1",),
    ("float",),
    lambda value: isinstance(value, float | np.floating) and 0 < float(value) < 1,
)
NUMBER = Constraint(("a number",), ("float",), _is_finite)
POSITIVE = Constraint(
    ("a positive number",), ("float",), lambda value: _is_finite(value) and float(value) > 0
)


# --- others ------------------------------------------------------------------------------------


def _is_interval(value: Any) -> bool:
    try:
        low, high = (float(bound) for bound in value)
    except (TypeError, ValueError):
        return False
    return -np.inf < low < high < np.inf


def _is_sequence(value: Any) -> bool:
    is_some = isinstance(value, Sequence) or np.ndim(value) > 0
    return is_some and not isinstance(value, str)


def _is_seed(value: Any) -> bool:
    several = _is_sequence(value) and all(_is_whole(one, 0) for one in value)
    return several or _is_whole(value, 0) or isinstance(value, SEEDS)


NONE = word(None)
AUTO = word("auto")
FLAG = Constraint(
    ("one of True, False",), ("bool",), lambda value: isinstance(value, Integral | np.bool_)
)
PATH = Constraint(("a path",), ("path",), lambda value: isinstance(value, str | os.PathLike))
SEED = Constraint(
    ("a whole number of at least 0", "a Generator", "a RandomState"),
    ("int", "Generator", "RandomState"),
    _is_seed,
)
INTERVAL = Constraint(("two numbers (lowest, highest)",), ("(low, high)",), _is_interval)


def several(words: str, kind: str, item: Constraint | None = None) -> Constraint:
    """A sequence or an array, whose items all satisfy `item`."""
    return Constraint(
        (words,),
        (kind,),
        lambda value: _is_sequence(value) and (item is None or all(map(item.fits, value))),
    )


def from_annotation(annotation: Any) -> Constraint:
    """The constraint that an annotation implies: words of a `Literal`, or a flag."""
    if get_origin(annotation) is Literal:
        return one_of(*get_args(annotation))
    if annotation is bool:
        return FLAG
    raise TypeError(f"what {annotation!r} may be does not follow from it")
