"""Answers of a model of ratings on the command line: predictions and recommended items.

Text files have no types, so ids are converted to the type that they had in the fit. Unknown users
and items get average answers; the column `known` and a note say so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import Identifiers, Numbers
from bayespca.estimators._predictions import strangers_sentence
from bayespca.estimators.factorization import MatrixFactorization
from bayespca.io.ratings_files import RatingColumns, read_new_ratings, read_pairs
from bayespca.io.records import How, Table

from . import screen
from .progress import progress

ORDER = ["user", "item", "prediction", "std", "known"]
Flags = NDArray[np.bool_]


class Answers(NamedTuple):
    """Predictions, and notes on unknown users and items."""

    table: Table
    notes: list[str]


class _Ids(NamedTuple):
    """Ids as given, in the type of the fit, and which of them the model knows."""

    given: Identifiers
    ids: Identifiers
    known: Flags
    notes: list[str]

    def taken(self, places: Any) -> _Ids:
        return _Ids(self.given[places], self.ids[places], self.known[places], self.notes)


# --- users and items ---------------------------------------------------------------------------


def pairs_of(
    path: Path, columns: Sequence[str] | None, how: How | None = None, *, times: bool = False
) -> RatingColumns:
    """Pairs from a file, perhaps with times; its columns may have the names of the ratings file."""
    try:
        named = columns and [*columns[:2], *(columns[3:] if times else [])]
        return read_pairs(path, how, named, times=times)
    except ValueError:
        if columns is None:
            raise
        return read_pairs(path, how, times=times)


def users_of(model: MatrixFactorization, given: str | None) -> Identifiers:
    """Users to recommend to: all, those in a file, or those in a list."""
    if given is None:
        return model.users_
    if os.path.isfile(given):  # pathlib raises for long lists of ids
        names = Path(given).read_text(encoding="utf-8-sig").splitlines()
    else:
        names = given.split(",")
    found = [name.strip() for name in names if name.strip()]
    if not found:
        raise ValueError(f"there are no users in {given!r}: give ids, or a file with one a line.")
    ids = np.array(found, dtype=object)
    return ids.astype(np.int64) if all(map(_is_whole, ids)) else ids


def _ids_of(what: str, given: Identifiers, known: Identifiers) -> _Ids:
    """Ids in the type of the fit, and a sentence about unknown ones.

    If ids of the fit are numbers, texts that are not whole numbers in the usual notation are
    unknown, and become a number that is no id of the fit: 007 is a different id from 7.
    """
    ids, texts = given, [str(value) for value in given.tolist()]
    if known.dtype == object and given.dtype != object:
        ids = np.array(texts, dtype=object)
    elif known.dtype != object and given.dtype == object:
        nobody = int(known.max()) + 1
        ids = np.array([int(text) if _is_whole(text) else nobody for text in texts], dtype=object)
    ours = set(known.tolist())
    there = np.array([value in ours for value in ids.tolist()], dtype=bool)
    sentence = strangers_sentence(given, np.where(there, 0, -1), what)
    if sentence is None:
        return _Ids(given, ids, there, [])
    strange = [str(value) for value in given[~there].tolist()]
    if known.dtype != object and not all(map(_is_whole, strange)):
        sentence += f" Ids of the {what}s of the fit are numbers, as {known.tolist()[0]!r}."
    return _Ids(given, ids, there, [sentence])


def _is_whole(text: object) -> bool:
    return re.fullmatch(r"0|-?[1-9][0-9]{0,17}", str(text), re.ASCII) is not None


# --- answers -----------------------------------------------------------------------------------


def predictions(model: MatrixFactorization, pairs: RatingColumns) -> Answers:
    users = _ids_of("user", pairs.users, model.users_)
    items = _ids_of("item", pairs.items, model.items_)
    with progress("predicting"):
        mean, std = model.predict(users.ids, items.ids, return_std=True, times=pairs.times)
    return Answers(_table(users, items, mean, std), [*users.notes, *items.notes])


def recommendations(model: MatrixFactorization, given: Identifiers, n: int) -> Answers:
    """Recommendations of the n best items to each user."""
    users = _ids_of("user", given, model.users_)
    found = []
    with progress("recommending", len(given)) as advance:
        for user in users.ids:
            found.append(model.recommend(user, n, return_std=True))
            advance(1)
    return Answers(_best(users, found), users.notes)


class NewUsers:
    """Users who were not in the fit; answers come only from their ratings, read from a file."""

    def __init__(self, model: MatrixFactorization, path: Path, how: How | None = None) -> None:
        given = read_new_ratings(path, how)
        assert given.ratings is not None
        items = _ids_of("item", given.items, model.items_)
        self.model, self.items, self.ratings = model, items.taken(items.known), given.ratings
        self.ratings = given.ratings[items.known]
        self.rows = given.users[items.known]
        # In file order, including users who rated only unknown items.
        self.users: list[Any] = list(dict.fromkeys(given.users.tolist()))
        self.notes = [
            f"{path.name}: skipped {screen.counted(int((~items.known).sum()), 'rating')} of items "
            "that were not in the fit."
        ] * (not items.known.all())

    def recommendations(self, n: int) -> Answers:
        """Recommendations of the n best items that each new user has not rated."""
        found = self._each(
            self.users,
            lambda items, stars, _: self.model.recommend_new(items, stars, n, True, True),
        )
        ids = np.array(self.users, dtype=object)
        users = _Ids(ids, ids, np.ones(ids.size, dtype=bool), [])
        return Answers(_best(users, found), self.notes)

    def predictions(self, pairs: RatingColumns) -> Answers:
        """Predictions for pairs: for new users from their ratings, for others from the fit."""
        named = np.array([str(user) for user in pairs.users.tolist()])
        ours = {str(user): user for user in self.users}
        answers = predictions(self.model, pairs)
        items = _ids_of("item", pairs.items, self.model.items_)
        mean, std = answers.table.values[:, 0].copy(), answers.table.values[:, 1].copy()
        is_new = np.array([name in ours for name in named], dtype=bool)
        asked = list(dict.fromkeys(named[is_new].tolist()))
        found = self._each(
            [ours[name] for name in asked],
            lambda rated, stars, user: self.model.predict_new(
                rated, stars, items.ids[named == str(user)], return_std=True
            ),
        )
        for name, (one_mean, one_std) in zip(asked, found, strict=True):
            mean[named == name], std[named == name] = one_mean, one_std
        users = _ids_of("user", pairs.users, self.model.users_)
        others = _ids_of("user", pairs.users[~is_new], self.model.users_)
        users = users._replace(known=users.known | is_new)
        notes = [*self.notes, *others.notes, *items.notes]
        return Answers(_table(users, items, mean, std), notes)

    def _each(self, users: Sequence[Any], ask: Callable[[Any, Any, Any], Any]) -> list[Any]:
        found = []
        with progress("answering", len(users)) as advance:
            for user in users:
                mine = np.flatnonzero(np.array([row == user for row in self.rows], dtype=bool))
                found.append(ask(self.items.ids[mine], self.ratings[mine], user))
                advance(1)
        return found


# --- tables ------------------------------------------------------------------------------------


def _best(users: _Ids, found: Sequence[Any]) -> Table:
    counts = [len(items) for items, _, _ in found]
    items, mean, std = (np.concatenate(parts) for parts in zip(*found, strict=True))
    all_known = _Ids(items, items, np.ones(items.size, dtype=bool), [])
    return _table(users.taken(np.repeat(np.arange(len(counts)), counts)), all_known, mean, std)


def _table(users: _Ids, items: _Ids, mean: Numbers, std: Numbers) -> Table:
    known = np.array(["neither", "item", "user", "both"], dtype=object)
    return Table(
        np.stack([mean, std], axis=1),
        ["prediction", "std"],
        others={
            "user": _of_one_kind(users.given),
            "item": _of_one_kind(items.given),
            "known": known[2 * users.known + items.known],
        },
        order=ORDER,
    )


def _of_one_kind(ids: Identifiers) -> Identifiers:
    """Ids for a column, all as text if some of them are not numbers."""
    if ids.dtype != object:
        return ids
    if all(isinstance(value, int) for value in ids.tolist()):
        return ids.astype(np.int64)
    return np.array([str(value) for value in ids.tolist()], dtype=object)


def columns_of(table: Table) -> dict[str, list[Any]]:
    """The columns of a table of answers by name, in order."""
    numbers = dict(zip(table.names or [], table.values.T.tolist(), strict=True))
    others = {name: column.tolist() for name, column in table.others.items()}
    return {name: (numbers | others)[name] for name in ORDER}
