"""`transform`, `denoise`, `impute` and `info`: what is done with a model."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bayespca.estimators._base import AnyEstimator
from bayespca.estimators._posterior import PosteriorReader
from bayespca.estimators.pca import BayesianPCA
from bayespca.estimators.persistence import load
from bayespca.estimators.summary import FittedPCA, summarize
from bayespca.estimators.wording import feature_names, percent
from bayespca.io.completing import write_filled
from bayespca.io.records import How, Table
from bayespca.io.tables import write_table

from . import screen
from .inputs import Input, open_input
from .outputs import Named, check_places, check_tables
from .progress import progress
from .tables import described_components, score_table


def transform(
    model_path: Path,
    data: Path,
    how: How,
    *,
    out: Path | None,
    std: bool,
    stream: bool | None,
    as_json: bool,
) -> None:
    """Scores of a file's rows, to a file or to standard output."""
    check_tables(out)
    check_places([("--out", out)], read=[("MODEL", model_path), ("DATA", data)])
    model = _scoring_model(model_path)
    given = open_input(data, how, stream=stream)
    parts = (score_table(model, part, std=std) for part in given.parts("scores"))
    if out is not None:
        write_table(out, parts)
        written = {"scores": str(out)}
        if as_json:
            screen.print_json({"file": str(data), "model": str(model_path), "written": written})
        else:
            screen.print_footer(written, f"{model.n_components_} components")
        return
    if as_json:
        screen.print_json({"file": str(data), "model": str(model_path), **_as_columns(list(parts))})
        return
    _print_csv(parts)


def _scoring_model(path: Path) -> PosteriorReader[Any]:
    """A fitted model whose scores come from a table."""
    model = load(path)
    if not isinstance(model, PosteriorReader):
        raise ValueError(
            f"{path} holds a {type(model).__name__}, for which there is Python: bayespca.load. The "
            "command takes models of fit, and of VariationalPCA."
        )
    if not hasattr(model, "n_features_in_"):
        raise ValueError(f"{path} holds a model that is not fitted: fit it first.")
    return model


def denoise(
    data: Path,
    how: How,
    model: BayesianPCA,
    *,
    out: Path,
    stream: bool | None,
    as_json: bool,
) -> None:
    """The posterior mean of the low-rank part of a file, in the layout of that file."""
    check_tables(out)
    check_places([("--out", out)], read=[("DATA", data)])
    given = open_input(data, how, stream=stream)
    given.fit(model.fit, model.tol)
    parts = given.parts("denoising")
    write_table(out, (_with_values(part, model.denoise(part)) for part in parts))
    _tell(given, model, {"denoised": str(out)}, as_json=as_json)


def impute(
    data: Path,
    how: How,
    model: BayesianPCA,
    *,
    out: Path,
    std: bool,
    draws: int,
    as_json: bool,
) -> None:
    """Fill the holes of a file; beside it their standard deviations and draws if asked for."""
    check_tables(out)
    check_places(_places(out, std=std, draws=draws), read=[("DATA", data)])
    given = open_input(data, how, stream=False)
    table = given.table
    assert table is not None
    given.fit(model.fit, model.tol)
    with progress("filling"):
        written = _write_filled(given.file.path, how, table, model, out, std=std, draws=draws)
    holes, cells = table.n_holes, table.shape[0] * table.shape[1]
    note = f"{holes:,} holes ({percent(holes / cells)} of the cells) were filled."
    if not holes:
        note = "There are no holes in the data: nothing was filled, all values are as they were."
    _tell(given, model, written, as_json=as_json, note=note, facts={"holes": holes})


def _write_filled(
    source: Path, how: How, table: Table, model: BayesianPCA, out: Path, *, std: bool, draws: int
) -> dict[str, str]:
    """Write the filled table and what was asked for beside it; what was written, and where."""
    filled, spread = model.impute(table, return_std=True)
    written = {"imputed": str(out)}
    write_filled(out, table, filled, source, how)
    if std:
        beside = _beside(out, "std")
        write_table(beside, _with_values(table, spread))
        written["std"] = str(beside)
    # One at a time: all draws need not fit into memory.
    rng = np.random.default_rng(model.random_state)
    for i in range(draws):
        beside = _of_draw(out, i, draws)
        drawn = model.sample_imputations(table, 1, rng)[0]
        write_filled(beside, table, drawn, source, how)
        written[f"draw {i + 1}"] = str(beside)
    return written


def _places(out: Path, *, std: bool, draws: int) -> Named:
    """The files that `impute` writes, by the option that asks for each."""
    beside = [("--std", _beside(out, "std"))] * std
    return [("--out", out), *beside, *(("--draws", _of_draw(out, i, draws)) for i in range(draws))]


def _of_draw(out: Path, i: int, draws: int) -> Path:
    return _beside(out, f"draw-{i + 1:0{len(str(draws))}d}")


def info(model_path: Path, *, as_json: bool) -> None:
    """What a model file holds."""
    model = load(model_path)
    parameters = model.get_params()
    name = type(model).__name__
    is_fitted = hasattr(model, "n_features_in_") or hasattr(model, "users_")
    if not is_fitted or not isinstance(model, PosteriorReader):
        facts = {"model": str(model_path), "class": name, "fitted": is_fitted}
        if as_json:
            screen.print_json(facts | {"parameters": parameters})
        else:
            state = _fitted_on(model) if is_fitted else "not fitted"
            print(f"{model_path.name}: {model!r}, {state}")
        return
    summary = summarize(model)
    if as_json:
        screen.print_json(
            {"model": str(model_path), "class": name, "fitted": True, "parameters": parameters}
            | summary.as_dict()
            | {"feature_names": feature_names(model)}
        )
        return
    screen.print_summary(summary, model_path.name, described_components(model))
    given = ", ".join(f"{k}={v!r}" for k, v in parameters.items() if v != _default(model, k))
    screen.print_footer({"class": f"{name}({given})"}, f"engine {model.engine_}")


def _fitted_on(model: AnyEstimator) -> str:
    if hasattr(model, "users_"):
        return (
            f"fitted on {model.n_ratings_:,} ratings of {model.items_.size:,} items by "
            f"{model.users_.size:,} users: {model.n_components_} components"
        )
    return f"fitted on {model.n_features_in_} features"


def _default(model: AnyEstimator, name: str) -> object:
    return type(model)().get_params()[name]


def _with_values(part: Table, values: np.ndarray) -> Table:
    """The same table with other numbers."""
    return replace(part, values=values, kept={})


def _beside(path: Path, what: str) -> Path:
    """data.csv becomes data-std.csv."""
    endings = "".join(path.suffixes[-2:]) if path.suffix in (".gz", ".bz2", ".zst") else path.suffix
    return path.with_name(f"{path.name.removesuffix(endings)}-{what}{endings}")


def _tell(
    given: Input,
    model: FittedPCA,
    written: dict[str, str],
    *,
    as_json: bool,
    note: str | None = None,
    facts: dict[str, Any] | None = None,
) -> None:
    summary = summarize(model)
    if as_json:
        screen.print_json(
            {"file": str(given.file.path)}
            | summary.as_dict()
            | given.facts
            | (facts or {})
            | {"written": written}
        )
        return
    notes = [*([note] if note else []), *given.notes]
    screen.print_summary(summary, given.file.path.name, [], notes)
    screen.print_footer(written, f"engine {model.engine_}")


def _as_columns(parts: list[Table]) -> dict[str, Any]:
    values = np.concatenate([part.values for part in parts])
    ids = [name for part in parts for name in part.ids or []]
    columns = {name: values[:, j] for j, name in enumerate(parts[0].names or [])}
    return {"ids": ids or None, "scores": columns}


def _print_csv(parts: Iterator[Table]) -> None:
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    for i, part in enumerate(parts):
        if not i:
            head = [] if part.ids is None else [part.id_name]
            writer.writerow([*head, *(part.names or [])])
        for r, row in enumerate(part.values.tolist()):
            writer.writerow([*([] if part.ids is None else [part.ids[r]]), *row])
