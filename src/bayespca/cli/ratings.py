"""`bayespca ratings`, `predict` and `recommend`: a model of ratings, and its answers."""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bayespca.arrays.types import Identifiers
from bayespca.estimators._distant_ratings import is_distant
from bayespca.estimators.factorization import MatrixFactorization
from bayespca.estimators.findings import findings_of, number_of_tastes
from bayespca.io.archive import is_model_file
from bayespca.io.feature_files import FeatureColumns, read_features
from bayespca.io.layout import listed
from bayespca.io.ratings_files import WHOLE, RatingColumns, read_ratings
from bayespca.io.records import How, Table
from bayespca.io.tables import write_table
from bayespca.sources.files import of_rating_files
from bayespca.version import __version__

from . import models, screen
from .inputs import DaskCluster
from .model_options import FeatureFiles
from .outputs import RatingOutputs, check_places, check_tables, write_files, write_report
from .progress import progress, sweeps
from .rating_answers import (
    Answers,
    NewUsers,
    columns_of,
    pairs_of,
    predictions,
    recommendations,
    users_of,
)

ROLES = ("user", "item")


def ratings(
    data: Path,
    how: How,
    columns: Sequence[str] | None,
    model: MatrixFactorization,
    wanted: RatingOutputs,
    *,
    features: FeatureFiles,
    cluster: DaskCluster,
    as_json: bool = False,
) -> None:
    """Fit a file of ratings, write output files, and report the result."""
    start = time.perf_counter()
    wanted.check(data, features.places())
    if is_model_file(data):
        if features.are_given:
            raise ValueError(f"{data} holds a model: features and --times are for fits.")
        if cluster.is_given:
            raise ValueError(f"{data} holds a model: --dask and --workers are for fits.")
        _use(data, columns, wanted, as_json=as_json)
        return
    # Read first, to report a mistake in a small file before a long fit.
    times = features.times
    pairs = None if wanted.predict is None else pairs_of(wanted.predict, columns, times=times)
    described = Described.read(features.user_features, features.item_features)
    reading = _read(data, how, columns, cluster, times=times)
    with reading as given, sweeps("fitting", model.tol) as callback:
        known = described.options(given.users, given.items) | {"times": given.times}
        model.fit_ratings(given.users, given.items, given.ratings, callback=callback, **known)
    table, strangers = _answers(model, pairs, wanted)
    notes = [*described.notes, *strangers]
    columns_read = given.users, given.items, given.ratings
    # A report needs ratings at hand, not on the workers of a cluster.
    at_hand = None if is_distant(*columns_read) else columns_read
    written = _write(model, table, wanted, data.name, at_hand)
    shown = table if wanted.out is None else None
    seconds = time.perf_counter() - start
    notes = [*(advice.text for advice in model.status_.advice), *notes]
    if as_json:
        facts: dict[str, Any] = {"file": str(data), "version": __version__}
        facts["columns"] = list(given.names)
        facts |= _numbers(model) | {"notes": notes, "written": written}
        facts |= {"seconds": round(seconds, 3), "memory_mb": screen.peak_memory()}
        screen.print_json(facts | ({} if shown is None else columns_of(shown)))
    elif shown is not None:
        print_csv(shown, [*described.notes, *strangers])
    else:
        _print_fit(data.name, model)
        columns_in_words = ", ".join(given.names)
        roles = "user, item and rating" if given.times is None else "user, item, rating and time"
        screen.print_notes([f"The columns {columns_in_words} were read as {roles}.", *notes])
        how_long = f"{screen.took(seconds)}, {model.n_iter_} sweeps, bayespca {__version__}"
        screen.print_footer(written, how_long)


@contextmanager
def _read(
    data: Path, how: How, columns: Sequence[str] | None, cluster: DaskCluster, *, times: bool
) -> Iterator[RatingColumns]:
    """A context with the columns of a file, or of files that the workers of a cluster read."""
    if not cluster.is_given:
        with progress(f"reading {data.name}"):
            given = read_ratings(data, how, columns, times=times)
        yield given
        return
    cluster.check()
    with cluster.connected():
        yield of_rating_files(data, how, columns)


def _use(
    path: Path, columns: Sequence[str] | None, wanted: RatingOutputs, *, as_json: bool
) -> None:
    """Write or show predictions of a saved model, without a new fit."""
    model = models.saved(path, "ratings")
    pairs = None if wanted.predict is None else pairs_of(wanted.predict, columns)
    table, strangers = _answers(model, pairs, wanted)
    if (table is None and wanted.report is None) or wanted.save is not None:
        raise ValueError(
            f"{path} holds a model, which is used as it is: give --predict, --recommend or "
            "--report, and leave --save out."
        )
    written = _write(model, table, wanted, path.name)
    shown = table if wanted.out is None else None
    if as_json:
        numbers = findings_of(model).numbers
        notes = {"notes": [*numbers["notes"], *strangers]}
        said = {"model": str(path), "written": written} | numbers | notes
        screen.print_json(said | ({} if shown is None else columns_of(shown)))
    elif shown is not None:
        print_csv(shown, strangers)
    else:
        screen.print_findings(findings_of(model), path.name, strangers)
        screen.print_footer(written, "the model was used as it is")


def _answers(
    model: MatrixFactorization, pairs: RatingColumns | None, wanted: RatingOutputs
) -> tuple[Table | None, list[str]]:
    """Predictions or recommendations, and notes on unknown users and items."""
    if pairs is not None:
        return predictions(model, pairs)
    if wanted.recommend is not None:
        return recommendations(model, users_of(model, wanted.users), wanted.recommend)
    return None, []


# --- what is written and shown -----------------------------------------------------------------


def _write(
    model: MatrixFactorization,
    table: Table | None,
    wanted: RatingOutputs,
    source: str,
    given: tuple[Any, Any, Any] | None = None,
) -> dict[str, str]:
    def write_answers(path: Path) -> None:
        assert table is not None
        write_table(path, table)

    return write_files(
        ("model", wanted.save, model.save),
        ("pairs" if wanted.recommend is None else "items", wanted.out, write_answers),
        ("report", wanted.report, lambda path: write_report(path, model, given, source)),
    )


def print_csv(table: Table, notes: Sequence[str]) -> None:
    """Print answers to standard output, and notes to standard error."""
    for note in notes:
        print(f"note: {screen.shown(note)}", file=sys.stderr)
    columns = columns_of(table)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))


def _numbers(model: MatrixFactorization) -> dict[str, Any]:
    low, high = model.bounds_ or (None, None)
    return {
        "method": model.method,
        "n_users": model.users_.size,
        "n_items": model.items_.size,
        "n_ratings": model.n_ratings_,
        "n_duplicates": model.n_duplicates_,
        "rank": model.n_components_,
        "mean_rating": model.mean_rating_ if model.biases else None,
        "mean": model.mean_,
        "noise_variance": model.noise_variance_,
        "lowest": low,
        "highest": high,
        "free_energy": model.free_energy_,
        "converged": model.converged_,
        "n_iter": model.n_iter_,
    }


def _print_fit(title: str, model: MatrixFactorization) -> None:
    sizes = (
        f"{screen.counted(model.n_ratings_, 'rating')} of "
        f"{screen.counted(model.items_.size, 'item')} by "
        f"{screen.counted(model.users_.size, 'user')}"
    )
    facts = {"mean rating": f"{model.mean_rating_:.4g}"} if model.biases else {}
    facts["components"] = str(model.n_components_)
    facts["noise"] = f"standard deviation {float(np.sqrt(model.noise_variance_)):.4g}"
    if model.draws_ is None:
        facts["evidence bound"] = f"{-model.free_energy_:.6g} nats"
    else:
        facts["components"] += f", {number_of_tastes(model)}"
        facts["draws"] = f"{model.draws_.size} of {screen.counted(model.draws_.n_chains, 'chain')}"
    screen.print_facts(title, f"{sizes}, method {model.method}", facts)


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
    model = models.saved(model_path, "predict")
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
    model = models.saved(model_path, "recommend")
    if new is not None:
        answers = NewUsers(model, new).recommendations(n)
    else:
        found = [users_of(model, user) for user in users]
        if any(ids.dtype == object for ids in found):
            found = [np.array([str(i) for i in ids.tolist()], dtype=object) for ids in found]
        asked = np.concatenate(found) if found else model.users_
        answers = recommendations(model, asked, n)
    _tell(model, model_path, answers, out, as_json=as_json)


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
