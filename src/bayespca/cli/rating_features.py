"""Files with features of users and items, matched with the ids of the ratings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from bayespca.arrays.types import Identifiers
from bayespca.io.feature_files import FeatureColumns, read_features
from bayespca.io.layout import listed
from bayespca.io.ratings_files import WHOLE

from . import screen

ROLES = ("user", "item")


@dataclass(frozen=True, eq=False)
class Described:
    """Features of users and items by role, the paths of their files, and notes on what was read and
    on ids without features or ratings.
    """

    features: dict[str, FeatureColumns]
    paths: dict[str, Path]
    notes: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, of_users: Path | None, of_items: Path | None) -> Described:
        given = zip(ROLES, (of_users, of_items), strict=True)
        paths = {role: path for role, path in given if path is not None}
        found = {role: read_features(path, role) for role, path in paths.items()}
        return cls(found, paths, [note for one in found.values() for note in one.notes])

    def options(self, users: Identifiers, items: Identifiers) -> dict[str, Any]:
        """Options of `fit_ratings`, with ids in the type of the ratings."""
        found = {}
        for role, ids in zip(ROLES, (users, items), strict=True):
            if role in self.features:
                matched = _matched(self.features[role], ids, role, self.paths[role])
                self.notes.extend(_of_ids(matched, ids, role, self.paths[role]))
                found[f"{role}_features"] = matched
        return found


def _matched(given: FeatureColumns, ids: Identifiers, role: str, path: Path) -> FeatureColumns:
    """Features with ids as whole numbers if those of the ratings are, else as text."""
    texts = [str(value) for value in given.ids.tolist()]
    if ids.dtype == object:
        return replace(given, ids=np.array(texts, dtype=object))
    wrong = [text for text in texts if not WHOLE.fullmatch(text)]
    if wrong:
        raise ValueError(
            f"{path} has the id {wrong[0]!r} in the column {given.id_name!r}, but {role}s have "
            f"numbers as ids in the ratings, as {np.asarray(ids).tolist()[0]!r}: correct it, or "
            "name a file with such ids."
        )
    return replace(given, ids=np.array([int(text) for text in texts], dtype=np.int64))


def _of_ids(given: FeatureColumns, ids: Identifiers, role: str, path: Path) -> list[str]:
    """Sentences about ids that are in only one of the files; ValueError if none is in both."""
    rated, there = set(np.unique(ids).tolist()), set(given.ids.tolist())
    if not rated & there:
        examples = [str(value) for value in (given.ids.tolist()[0], next(iter(rated)))]
        raise ValueError(
            f"no {role} of the ratings is in {path}: its column {given.id_name!r} has ids as "
            f"{examples[0]!r}, the ratings have {examples[1]!r}."
        )
    named = listed(list(given.columns), 6)
    notes = [
        f"{path.name}: ids are in the column {given.id_name!r}, {role}s are described by {named}."
    ]
    if missing := len(rated - there):
        verb = "is" if missing == 1 else "are"
        notes.append(
            f"{screen.counted(missing, role)} of the ratings {verb} not in {path.name}, so the "
            "average features of the others are used."
        )
    if more := len(there - rated):
        verb = "has" if more == 1 else "have"
        notes.append(
            f"{screen.counted(more, role)} of {path.name} {verb} no ratings: predictions for "
            "them come from their features."
        )
    return notes
