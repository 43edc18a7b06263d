"""Old names of options, which keep working with a warning that gives the new one."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


OURS = ("bayespca", "sklearn")


class Renamed:
    """An option under its old name: it can be read and set, and the constructor takes it.

    scikit-learn does not see it: signature, `get_params` and clones have the new name only.
    """

    def __init__(self, new: str) -> None:
        self.new = new
        self.__doc__ = f"The old name of `{new}`."

    def __set_name__(self, owner: type, name: str) -> None:
        self.old = name

    def __get__(self, estimator: BaseEstimator, owner: type | None = None) -> Any:
        if estimator is None:
            return self
        warn_of_old_words(self.old, self.new)
        return getattr(estimator, self.new)

    def __set__(self, estimator: BaseEstimator, value: Any) -> None:
        warn_of_old_words(self.old, self.new)
        setattr(estimator, self.new, value)


def warn_of_old_words(old: str, new: str) -> None:
    """Issue a FutureWarning at the first caller outside this package and scikit-learn."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _package(frame.f_globals) in OURS:
        level, frame = level + 1, frame.f_back
    warnings.warn(
        f"{old} is now {new}; the old spelling will be removed.",
        FutureWarning,
        stacklevel=level,
    )


def _package(names: Mapping[str, Any]) -> str:
    return str(names.get("__name__", "")).partition(".")[0]


def renamed_in(cls: type) -> dict[str, str]:
    """Old names of the options of a class, and the new ones."""
    found = (item for base in cls.__mro__ for item in vars(base).items())
    return {name: value.new for name, value in found if isinstance(value, Renamed)}


def in_new_words(cls: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options by their new names; those of nested models, as `a__b`, are left alone."""
    renamed, found = renamed_in(cls), dict(given)
    for old in given.keys() & renamed.keys():
        new = renamed[old]
        if new in given:
            raise TypeError(f"{cls.__name__} got both {new} and {old}, which is its old name.")
        warn_of_old_words(old, new)
        found[new] = found.pop(old)
    return found


def taking_old_names(init: Callable[..., None]) -> Callable[..., None]:
    """A constructor with the same signature that also takes old names."""

    @functools.wraps(init)
    def with_old_names(self: Any, *args: Any, **options: Any) -> None:
        init(self, *args, **in_new_words(type(self), options))

    return with_old_names
