"""`bayespca ratings`: factorize ratings, predict those of pairs, recommend items."""

from __future__ import annotations

import csv
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bayespca.arrays.types import Identifiers, Numbers
from bayespca.estimators.factorization import MatrixFactorization
from bayespca.estimators.stories import story
from bayespca.io.archive import is_model_file
from bayespca.io.ratings_files import RatingColumns, read_pairs, read_ratings
from bayespca.io.records import How, Table
from bayespca.io.tables import write_table
from bayespca.version import __version__

from . import screen, using
from .outputs import RatingOutputs
from .progress import progress, sweeps

# Ids that a note lists.
SHOWN = 5


def ratings(
    data: Path,
    how: How,
    columns: Sequence[str] | None,
    model: MatrixFactorization,
    wanted: RatingOutputs,
    *,
    as_json: bool = False,
) -> None:
    """Fit a file of ratings, write what was asked for, and tell what was found."""
    start = time.perf_counter()
    wanted.check(data)
    if is_model_file(data):
        _use(data, columns, wanted, as_json=as_json)
        return
    with progress(f"reading {data.name}"):
        given = read_ratings(data, how, columns)
    # Before the fit, which takes longer than finding a mistake in a small file.
    pairs = None if wanted.predict is None else _pairs(wanted.predict, columns)
    with sweeps("fitting", model.tol) as callback:
        model.fit_ratings(given.users, given.items, given.ratings, callback=callback)
    table, strangers = _answers(model, pairs, wanted)
    written = _write(model, table, wanted, data.name)
    seconds = time.perf_counter() - start
    if as_json:
        shown = table if wanted.out is None else None
        _print_json(data, model, given, shown, written, strangers, seconds)
    elif table is not None and wanted.out is None:
        _print_csv(table, strangers)
    else:
        _print(data, model, given, written, strangers, seconds)


def _use(
    path: Path, columns: Sequence[str] | None, wanted: RatingOutputs, *, as_json: bool
) -> None:
    """Predictions of a saved model, without a new fit."""
    model = using.saved(path, "ratings")
    pairs = None if wanted.predict is None else _pairs(wanted.predict, columns)
    table, strangers = _answers(model, pairs, wanted)
    if (table is None and wanted.report is None) or wanted.save is not None:
        raise ValueError(
            f"{path} holds a model, which is used as it is: give --predict, --recommend or "
            "--report, and leave --save out."
        )
    written = _write(model, table, wanted, path.name)
    shown = table if wanted.out is None else None
    if as_json:
        numbers = story(model).numbers
        notes = {"notes": [*numbers["notes"], *strangers]}
        said = {"model": str(path), "written": written} | numbers | notes
        screen.print_json(said | ({} if shown is None else _as_columns(shown)))
    elif shown is not None:
        _print_csv(shown, strangers)
    else:
        screen.print_story(story(model), path.name, strangers)
        screen.print_footer(written, "the model was used as it is")


# --- predictions -------------------------------------------------------------------------------


def _pairs(path: Path, columns: Sequence[str] | None) -> RatingColumns:
    """Pairs from a file; named as in the ratings where it has these columns."""
    try:
        return read_pairs(path, columns=columns and columns[:2])
    except ValueError:
        if columns is None:
            raise
        return read_pairs(path)


def _answers(
    model: MatrixFactorization, pairs: RatingColumns | None, wanted: RatingOutputs
) -> tuple[Table | None, list[str]]:
    """Predictions or recommendations, and notes on users and items that the model does not know."""
    if pairs is not None:
        return _predictions(model, pairs)
    if wanted.recommend is not None:
        return _recommendations(model, _users(model, wanted.users), wanted.recommend)
    return None, []


def _predictions(model: MatrixFactorization, pairs: RatingColumns) -> tuple[Table, list[str]]:
    users, items = _like(pairs.users, model.users_), _like(pairs.items, model.items_)
    with progress("predicting"):
        mean, std = model.predict(users, items, return_std=True)
    notes = [
        *_note_on_strangers("user", pairs.users, users, model.users_),
        *_note_on_strangers("item", pairs.items, items, model.items_),
    ]
    return _table(pairs.users, pairs.items, mean, std), notes


def _recommendations(
    model: MatrixFactorization, given: Identifiers, n: int
) -> tuple[Table, list[str]]:
    users = _like(given, model.users_)
    found = []
    with progress("recommending", len(users)) as advance:
        for user in users:
            found.append(model.recommend(user, n, return_std=True))
            advance(1)
    counts = [len(items) for items, _, _ in found]
    items, mean, std = (np.concatenate(parts) for parts in zip(*found, strict=True))
    notes = _note_on_strangers("user", given, users, model.users_)
    return _table(np.repeat(given, counts), items, mean, std), notes


def _note_on_strangers(
    what: str, given: Identifiers, asked: Identifiers, known: Identifiers
) -> list[str]:
    """A sentence about ids that are not among those of the fit, if there are any."""
    ours = set(known.tolist())
    pairs = zip(given.tolist(), asked.tolist(), strict=True)
    strangers = list(dict.fromkeys(str(one) for one, same in pairs if same not in ours))
    if not strangers:
        return []
    some = ", ".join(strangers[:SHOWN]) + (", …" if len(strangers) > SHOWN else "")
    whose = f"what is expected of any {what}, with a wide standard deviation"
    are = "is" if len(strangers) == 1 else "are"
    return [
        f"{screen.counted(len(strangers), what)} {are} not among those of the fit ({some}): "
        f"predictions are {whose}."
    ]


def _table(users: Identifiers, items: Identifiers, mean: Numbers, std: Numbers) -> Table:
    return Table(
        np.stack([mean, std], axis=1),
        ["prediction", "std"],
        others={"user": _of_one_kind(users), "item": _of_one_kind(items)},
        order=["user", "item", "prediction", "std"],
    )


def _of_one_kind(ids: Identifiers) -> Identifiers:
    """Ids for a column: where some are numbers and some are not, all are text."""
    if ids.dtype != object:
        return ids
    return np.array([str(value) for value in ids.tolist()], dtype=object)


def _users(model: MatrixFactorization, given: str | None) -> Identifiers:
    """Whom to recommend to: all users, those in a file, or those in a list."""
    if given is None:
        return model.users_
    if os.path.isfile(given):  # pathlib raises for long lists of ids
        names = Path(given).read_text(encoding="utf-8-sig").splitlines()
    else:
        names = given.split(",")
    found = [name.strip() for name in names if name.strip()]
    if not found:
        raise ValueError(f"there are no users in {given!r}: give ids, or a file with one a line.")
    return _numbers_if_all(np.array(found, dtype=object))


def _like(ids: Identifiers, known: Identifiers) -> Identifiers:
    """Ids in the type of those of the fit.

    A file has no types. Text that is no whole number, where ids are numbers, is somebody who is not
    known, and so becomes a number that no id of the fit is.
    """
    if known.dtype == object and ids.dtype != object:
        return np.array([str(value) for value in ids.tolist()], dtype=object)
    if known.dtype != object and ids.dtype == object:
        nobody = int(known.max()) + 1
        texts = [str(value) for value in ids.tolist()]
        return np.array([int(text) if _is_whole(text) else nobody for text in texts], dtype=object)
    return ids


def _numbers_if_all(ids: Identifiers) -> Identifiers:
    if all(map(_is_whole, ids)):
        return ids.astype(np.int64)
    return ids


def _is_whole(text: str) -> bool:
    return re.fullmatch(r"-?[0-9]{1,18}", text, re.ASCII) is not None


# --- what is written and shown -----------------------------------------------------------------


def _write(
    model: MatrixFactorization, table: Table | None, wanted: RatingOutputs, source: str
) -> dict[str, str]:
    written = {}
    if wanted.save is not None:
        model.save(wanted.save)
        written["model"] = str(wanted.save)
    if wanted.out is not None and table is not None:
        write_table(wanted.out, table)
        written["pairs" if wanted.recommend is None else "items"] = str(wanted.out)
    if wanted.report is not None:
        from bayespca.report import page

        command = {"command": "bayespca " + " ".join(sys.argv[1:])}
        page.write(wanted.report, model, title=source, source=source, details=command)
        written["report"] = str(wanted.report)
    return written


def _print_csv(table: Table, notes: Sequence[str]) -> None:
    for note in notes:
        print(f"note: {screen.shown(note)}", file=sys.stderr)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["user", "item", "prediction", "std"])
    columns = [column.tolist() for column in (*table.others.values(), *table.values.T)]
    writer.writerows(zip(*columns, strict=True))


def _print_json(
    data: Path,
    model: MatrixFactorization,
    given: RatingColumns,
    table: Table | None,
    written: dict[str, str],
    strangers: list[str],
    seconds: float,
) -> None:
    low, high = model.bounds_ or (None, None)
    facts: dict[str, Any] = {
        "file": str(data),
        "version": __version__,
        "columns": list(given.names),
        "method": model.method,
        "n_users": model.users_.size,
        "n_items": model.items_.size,
        "n_ratings": model.n_ratings_,
        "n_duplicates": model.n_duplicates_,
        "rank": model.n_components_,
        "mean": model.mean_,
        "noise_variance": model.noise_variance_,
        "lowest": low,
        "highest": high,
        "free_energy": model.free_energy_,
        "converged": model.converged_,
        "n_iter": model.n_iter_,
        "notes": [*_notes(model), *strangers],
        "written": written,
        "seconds": round(seconds, 3),
        "memory_mb": screen.peak_memory(),
    }
    screen.print_json(facts | ({} if table is None else _as_columns(table)))


def _as_columns(table: Table) -> dict[str, Any]:
    ids = {name: column.tolist() for name, column in table.others.items()}
    return ids | {"prediction": table.values[:, 0], "std": table.values[:, 1]}


def _print(
    data: Path,
    model: MatrixFactorization,
    given: RatingColumns,
    written: dict[str, str],
    strangers: list[str],
    seconds: float,
) -> None:
    sizes = (
        f"{screen.counted(model.n_ratings_, 'rating')} of "
        f"{screen.counted(model.items_.size, 'item')} by "
        f"{screen.counted(model.users_.size, 'user')}"
    )
    spread = float(np.sqrt(model.noise_variance_))
    facts = {
        "components": f"[bold green]{model.n_components_}[/bold green]",
        "noise": f"standard deviation {spread:.4g}",
        "evidence bound": f"{-model.free_energy_:.6g} nats",
    }
    if model.biases:
        facts = {"mean rating": f"{model.mean_:.4g}"} | facts
    screen.print_facts(data.name, f"{sizes}, {screen.METHOD_NAMES[model.method]}", facts)
    columns = ", ".join(given.names)
    screen.print_notes(
        [
            f"The columns {columns} were read as user, item and rating.",
            *_notes(model),
            *strangers,
        ]
    )
    how = f"{model.n_iter_} sweeps, bayespca {__version__}"
    screen.print_footer(written, f"{screen.took(seconds)}, {how}")


def _notes(model: MatrixFactorization) -> list[str]:
    notes = [advice.text for advice in model.status_.advice]
    if not model.converged_:
        notes.append(
            f"The free energy still fell after {model.n_iter_} sweeps: raise --max-iter or --tol. "
            "The result is usable."
        )
    return notes
