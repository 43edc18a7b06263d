"""`bayespca views`: factors of several tables of the same samples."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from bayespca.estimators.multi_view import MultiViewPCA
from bayespca.estimators.stories import story
from bayespca.estimators.wording import feature_names
from bayespca.io.files import open_file
from bayespca.io.records import How, Table
from bayespca.io.tables import write_table
from bayespca.version import __version__

from . import screen, using
from .progress import progress, sweeps
from .tables import table_of_scores
from .view_options import ViewOutputs


def views(
    files: list[Path], how: How, model: MultiViewPCA, wanted: ViewOutputs, *, as_json: bool
) -> None:
    """Fit tables, or apply a saved model to them; write what was asked for, say what was found."""
    start = time.perf_counter()
    wanted.check(files)
    tables = _read(files, how)
    if wanted.use is not None:
        model = using.saved(wanted.use, "views")
    else:
        with sweeps("fitting", model.tol) as callback:
            model.fit(tables, callback=callback)
    written = _write(model, tables, wanted)
    seconds = time.perf_counter() - start
    told, names = story(model), ", ".join(path.name for path in files)
    if as_json:
        about = {"files": [str(path) for path in files], "version": __version__}
        ended = {"written": written, "seconds": round(seconds, 3)}
        screen.print_json(about | told.numbers | ended | {"memory_mb": screen.peak_memory()})
        return
    screen.print_story(told, names)
    screen.print_footer(written, f"{screen.took(seconds)}, bayespca {__version__}")


def _read(files: list[Path], how: How) -> dict[str, Table]:
    """Tables by the names of their files."""
    found: dict[str, Table] = {}
    for path in files:
        name = path.name.partition(".")[0] or path.name
        if name in found:
            raise ValueError(
                f"two of the files are called {name!r}, which is what the views are named by: "
                "rename one of them."
            )
        with progress(f"reading {path.name}"):
            found[name] = open_file(path, how).read()
    return found


def _write(model: Any, tables: dict[str, Table], wanted: ViewOutputs) -> dict[str, str]:
    written = {}
    if wanted.model is not None:
        model.save(wanted.model)
        written["model"] = str(wanted.model)
    if wanted.scores is not None:
        write_table(wanted.scores, _scores(model, tables))
        written["scores"] = str(wanted.scores)
    if wanted.loadings is not None:
        write_table(wanted.loadings, _loadings(model))
        written["loadings"] = str(wanted.loadings)
    if wanted.report is not None:
        from bayespca.report import page

        title = ", ".join(tables)
        command = {"command": "bayespca " + " ".join(sys.argv[1:])}
        page.write(wanted.report, model, tables, title=title, source=title, details=command)
        written["report"] = str(wanted.report)
    return written


def _scores(model: Any, tables: dict[str, Table]) -> Table:
    T, std = model.transform(tables, return_std=True)
    samples = model.samples_in(tables)
    ids = None if samples is None else [str(name) for name in samples]
    id_name = next((table.id_name for table in tables.values() if table.ids), "id")
    return table_of_scores(T, std, Table(T, None, ids, id_name))


def _loadings(model: Any) -> Table:
    """A row for each feature of each view: its loading on every factor."""
    W = np.concatenate([model.components_[name] for name in model.view_names_], axis=1).T
    order = np.argsort(model.fit_.view, kind="stable")
    names = [feature_names(model)[j] for j in order]
    return Table(W, [f"factor {h + 1}" for h in range(W.shape[1])], names, "feature")
