"""`bayespca ratings`: factorize ratings, predict those of pairs, recommend items."""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bayespca.estimators._distant_ratings import is_distant
from bayespca.estimators.factorization import MatrixFactorization
from bayespca.estimators.findings import findings_of, number_of_tastes
from bayespca.io.archive import is_model_file
from bayespca.io.ratings_files import RatingColumns, read_ratings
from bayespca.io.records import How, Table
from bayespca.io.tables import write_table
from bayespca.sources.files import of_rating_files
from bayespca.version import __version__

from . import screen, using
from .cluster import DaskCluster
from .outputs import RatingOutputs
from .progress import progress, sweeps
from .rating_answers import columns_of, pairs_of, predictions, recommendations, users_of
from .rating_features import Described
from .rating_options import FeatureFiles


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
    strangers = [*described.notes, *strangers]
    written = _write(model, table, wanted, data.name, _at_hand(given))
    seconds = time.perf_counter() - start
    if as_json:
        shown = table if wanted.out is None else None
        _print_json(data, model, given, shown, written, strangers, seconds)
    elif table is not None and wanted.out is None:
        print_csv(table, strangers)
    else:
        _print(data, model, given, written, strangers, seconds)


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
    model = using.saved(path, "ratings")
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


def _at_hand(given: RatingColumns) -> tuple[Any, Any, Any] | None:
    """Users, items and ratings; None if they are on the workers of a cluster."""
    columns = given.users, given.items, given.ratings
    return None if is_distant(*columns) else columns


def _write(
    model: MatrixFactorization,
    table: Table | None,
    wanted: RatingOutputs,
    source: str,
    given: tuple[Any, Any, Any] | None = None,
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
        page.write(wanted.report, model, given, title=source, source=source, details=command)
        written["report"] = str(wanted.report)
    return written


def print_csv(table: Table, notes: Sequence[str]) -> None:
    """Print answers to standard output, and notes to standard error."""
    for note in notes:
        print(f"note: {screen.shown(note)}", file=sys.stderr)
    columns = columns_of(table)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))


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
        "mean_rating": model.mean_rating_ if model.biases else None,
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
    screen.print_json(facts | ({} if table is None else columns_of(table)))


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
        "components": str(model.n_components_),
        "noise": f"standard deviation {spread:.4g}",
    }
    if model.draws_ is None:
        facts["evidence bound"] = f"{-model.free_energy_:.6g} nats"
    else:
        facts["components"] += f", {number_of_tastes(model)}"
        facts["draws"] = f"{model.draws_.size} of {screen.counted(model.draws_.n_chains, 'chain')}"
    if model.biases:
        facts = {"mean rating": f"{model.mean_rating_:.4g}"} | facts
    screen.print_facts(data.name, f"{sizes}, method {model.method}", facts)
    columns = ", ".join(given.names)
    roles = "user, item and rating" if given.times is None else "user, item, rating and time"
    screen.print_notes(
        [
            f"The columns {columns} were read as {roles}.",
            *_notes(model),
            *strangers,
        ]
    )
    how = f"{model.n_iter_} sweeps, bayespca {__version__}"
    screen.print_footer(written, f"{screen.took(seconds)}, {how}")


def _notes(model: MatrixFactorization) -> list[str]:
    return [advice.text for advice in model.status_.advice]
