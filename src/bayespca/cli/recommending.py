"""`bayespca predict` and `bayespca recommend`: answers of a saved model of ratings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bayespca.estimators.findings import findings_of
from bayespca.io.records import How
from bayespca.io.tables import write_table

from . import screen, using
from .outputs import check_places, check_tables
from .rating import print_csv
from .rating_answers import (
    Answers,
    NewUsers,
    columns_of,
    pairs_of,
    predictions,
    recommendations,
    users_of,
)


def predict(
    model_path: Path,
    pairs: Path,
    how: How,
    columns: Sequence[str] | None,
    *,
    new: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Write or print predictions for the pairs of a file, with the part of each that is known."""
    _check(model_path, new, out, ("PAIRS", pairs))
    model = using.saved(model_path, "predict")
    asked = pairs_of(pairs, columns, how)
    answer = partial(predictions, model) if new is None else NewUsers(model, new).predictions
    answers = answer(asked)
    _tell(model, model_path, answers, out, as_json=as_json)


def recommend(
    model_path: Path,
    users: Sequence[str],
    n: int,
    *,
    new: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Write or print the n best items for users, by default all, or for users not in the fit."""
    _check(model_path, new, out)
    if new is not None and users:
        raise ValueError(
            "--new is for users who were not in the fit, --user for those who were: give only one "
            "of them."
        )
    model = using.saved(model_path, "recommend")
    if new is not None:
        answers = NewUsers(model, new).recommendations(n)
    else:
        asked = users_of(model, None) if not users else np.concatenate(_each(model, users))
        answers = recommendations(model, asked, n)
    _tell(model, model_path, answers, out, as_json=as_json)


def _each(model: Any, users: Sequence[str]) -> list[Any]:
    """Ids of each --user, which may be a list or a file of ids."""
    found = [users_of(model, user) for user in users]
    if any(ids.dtype == object for ids in found):
        return [np.array([str(value) for value in ids.tolist()], dtype=object) for ids in found]
    return found


def _check(model: Path, new: Path | None, out: Path | None, *more: tuple[str, Path | None]) -> None:
    check_tables(out)
    check_places([("--out", out)], read=[("MODEL", model), ("--new", new), *more])


def _tell(model: Any, path: Path, answers: Answers, out: Path | None, *, as_json: bool) -> None:
    written = {}
    if out is not None:
        write_table(out, answers.table)
        written = {"answers": str(out)}
    if as_json:
        shown = columns_of(answers.table) if out is None else {}
        screen.print_json({"model": str(path), "notes": answers.notes, "written": written} | shown)
    elif out is None:
        print_csv(*answers)
    else:
        screen.print_notes(answers.notes)
        screen.print_footer(written, findings_of(model).headline)
