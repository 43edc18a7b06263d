"""`bayespca views`: factors of several tables of the same samples."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bayespca.estimators._input import check_all_there
from bayespca.estimators._mixed_views import loading_names, only_numbers
from bayespca.estimators._views import OF, View
from bayespca.estimators.findings import findings_of
from bayespca.estimators.multi_view import MultiViewPCA
from bayespca.io.files import open_file
from bayespca.io.records import How, Table
from bayespca.io.tables import write_table

from . import models, screen
from .inputs import frame_of, names_of
from .mixed import NAMED, set_aside
from .outputs import ViewOutputs, write_files, write_report
from .progress import progress, sweeps


def views(
    files: list[Path], how: How, model: MultiViewPCA, wanted: ViewOutputs, *, as_json: bool
) -> None:
    """Fit tables, or apply a saved model to them; write output files, and report the result."""
    start = time.perf_counter()
    wanted.check(files)
    if wanted.use is not None:
        model = models.saved(wanted.use, "views")
        read, notes = _read(files, how), []
        tables = {name: _of_fit(model, name, table) for name, table in read.items()}
    else:
        read = _read(files, how, model.likelihood)
        tables = _of_kinds(read, model.likelihood)
        notes = list(_notes(read, model.likelihood))
        with sweeps("fitting", model.tol) as callback:
            model.fit(tables, callback=callback)
    id_name = next((table.id_name for table in read.values() if table.ids), "id")
    names = ", ".join(tables)
    written = write_files(
        ("model", wanted.model, model.save),
        ("scores", wanted.scores, lambda path: write_table(path, _scores(model, tables, id_name))),
        ("loadings", wanted.loadings, lambda path: write_table(path, _loadings(model))),
        (
            "report",
            wanted.report,
            lambda path: write_report(path, model, tables, names),
        ),
    )
    source = {"files": [str(path) for path in files]}
    title = ", ".join(path.name for path in files)
    screen.print_fit(source, title, findings_of(model), written, notes, start, as_json=as_json)


def _read(files: list[Path], how: How, likelihood: Any = "auto") -> dict[str, Table]:
    """Tables by the names of their files, with columns of text unless all are only numbers."""
    how = replace(how, texts=not only_numbers(likelihood))
    found: dict[str, Table] = {}
    for path in files:
        name = path.name.partition(".")[0] or path.name
        if name in found:
            raise ValueError(
                f"two files are called {name!r}, but views take their names from files: rename "
                "one of them."
            )
        with progress(f"reading {path.name}"):
            found[name] = open_file(path, how).read()
    return found


def _of_kinds(tables: dict[str, Table], likelihood: Any) -> dict[str, Table | View]:
    """Tables for a fit; those with a likelihood other than normal have columns of all kinds."""
    named = likelihood if isinstance(likelihood, dict) else {}
    if unknown := [name for name in named if name not in tables]:
        raise ValueError(
            f"--likelihood names the table {unknown[0]!r}, but the tables are "
            f"{', '.join(map(repr, tables))}."
        )
    found: dict[str, Table | View] = {}
    for name, table in tables.items():
        kind = _kind(likelihood, name)
        if kind == "normal":
            found[name] = table
            continue
        # Columns of text take part, except those that are not categories.
        aside = _aside(table, kind)
        found[name] = _view(name, table, [one for one in names_of(table) if one not in aside])
    return found


def _aside(table: Table, kind: Any) -> dict[str, str]:
    """Columns that are not analysed, with the reasons."""
    if kind == "normal":
        return table.aside
    return set_aside(table, set(), kind if isinstance(kind, dict) else {})


def _notes(tables: Mapping[str, Table], likelihood: Any) -> Iterator[str]:
    for name, table in tables.items():
        aside = _aside(table, _kind(likelihood, name))
        if aside:
            shown = ", ".join(f"{one!r} ({why})" for one, why in list(aside.items())[:NAMED])
            more = f" and {len(aside) - NAMED} more" if len(aside) > NAMED else ""
            yield f"Skipped in {name}: {shown}{more}."


def _kind(likelihood: Any, name: str) -> Any:
    return likelihood.get(name, "normal") if isinstance(likelihood, dict) else likelihood


def _of_fit(model: MultiViewPCA, name: str, table: Table) -> Table | View:
    """A table with the columns that the model has in the view of this name."""
    fit = model.fit_
    if not fit.columns or name not in fit.names:
        return table
    mine = np.flatnonzero(fit.view == list(fit.names).index(name))
    if all(fit.columns[j].likelihood == "normal" for j in mine):
        return table
    wanted = [fit.columns[j].name.removeprefix(f"{name}{OF}") for j in mine]
    check_all_there(wanted, {*names_of(table)})
    return _view(name, table, wanted)


def _view(name: str, table: Table, columns: Sequence[str]) -> View:
    known = {one: order for one, order in table.levels.items() if one in columns}
    ids = None if table.ids is None else np.array(table.ids, dtype=object)
    return View(name, frame_of(table, columns, known), ids)


def _scores(model: Any, tables: dict[str, Table | View], id_name: str) -> Table:
    T, std = model.transform(tables, return_std=True)
    samples = model.samples_in(tables)
    ids = None if samples is None else [str(name) for name in samples]
    return models.by_component(T, std, ids, id_name)


def _loadings(model: Any) -> Table:
    """Loadings on all factors, with a row for each feature of each view, or each of its levels."""
    W = np.concatenate([model.components_[name] for name in model.view_names_], axis=1).T
    every = loading_names(model)
    order = np.concatenate([model.fit_.cells_of(v) for v in range(model.view_names_.size)])
    names = [every[j] for j in order]
    return Table(W, [f"factor {h + 1}" for h in range(W.shape[1])], names, "feature")
