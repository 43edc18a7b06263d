"""`transform`, `denoise`, `impute` and `info`: uses of a model."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bayespca.estimators._base import AnyEstimator
from bayespca.estimators.findings import findings_of
from bayespca.estimators.pca import BayesianPCA
from bayespca.estimators.persistence import load
from bayespca.estimators.summary import summarize
from bayespca.estimators.wording import feature_names
from bayespca.io.records import How, Table
from bayespca.io.tables import write_table

from . import screen, tensors, using
from .filling import FilledOutputs, Filling
from .inputs import Input, open_input
from .mixed import Choice, MixedInput, of_saved
from .outputs import Named, check_places, check_tables
from .progress import progress
from .standard import is_written
from .tables import described_components


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
    """Write scores or clusters of a file's rows to a file or to standard output."""
    check_tables(out)
    check_places([("--out", out)], read=[("MODEL", model_path), ("DATA", data)])
    model = using.saved(model_path, "transform")
    parts = _scored(model, data, how, std=std, stream=stream)
    if out is not None:
        write_table(out, parts)
        written = {"scores": str(out)}
        if as_json:
            screen.print_json({"file": str(data), "model": str(model_path), "written": written})
        else:
            screen.print_footer(written, findings_of(model).headline)
        return
    if as_json:
        screen.print_json({"file": str(data), "model": str(model_path), **_as_columns(list(parts))})
        return
    _print_csv(parts)


def _scored(
    model: AnyEstimator, data: Path, how: How, *, std: bool, stream: bool | None
) -> Iterator[Table]:
    """Scores of the rows of a file, or of the slices of a tensor, in parts."""
    uses = using.uses_of(model)
    if uses.tensors:
        yield tensors.scores(model, data, how)
        return
    assert uses.transform is not None
    given = open_input(data, how_read(model, how), stream=False if uses.texts else stream)
    for part in given.parts("scores"):
        yield uses.transform(model, part, std=std)


def how_read(model: AnyEstimator, how: How) -> How:
    """Options for reading a table for a model, with columns of text if it uses them."""
    return replace(how, texts=using.uses_of(model).texts)


@dataclass(frozen=True)
class Modelled:
    """The source of a command's model, a fit or a file, and the file to save it to.

    With a `choice`, a new fit uses columns of all kinds if a table has them.
    """

    model: BayesianPCA
    saved: Path | None = None
    save: Path | None = None
    choice: Choice | None = None

    def places(self) -> Named:
        return [("--save", self.save)]

    def read(self) -> Named:
        return [("--model", self.saved)]

    def of_tensors(self, verb: str) -> AnyEstimator | None:
        """The saved model if it is one of tensors, else None."""
        model = None if self.saved is None else using.saved(self.saved, verb)
        return model if model is not None and using.uses_of(model).tensors else None

    def opened(self, data: Path, how: How, verb: str) -> Input:
        """The file, read into memory with the columns that the model uses."""
        if self.saved is not None:
            model = using.saved(self.saved, verb)
            given = open_input(data, how_read(model, how), stream=False)
            return of_saved(model, given) if using.uses_of(model).texts else given
        if self.choice is None:
            return open_input(data, how, stream=False)
        given = open_input(data, self.choice.how(how), stream=False)
        return self.choice.read(given, how) or given

    def of(self, given: Input, verb: str) -> AnyEstimator:
        """The fitted model, loaded or fitted to the input; it is saved if --save is given."""
        if self.saved is not None:
            if self.save is not None:
                raise ValueError(
                    "--save writes the model of a new fit, but --model needs no fit: leave one "
                    "of them out."
                )
            return using.saved(self.saved, verb)
        model: AnyEstimator = self.model
        if self.choice is not None and isinstance(given, MixedInput):
            model = self.choice.model(given)
        given.fit(model.fit, model.tol)
        if self.save is not None:
            model.save(self.save)
        return model

    def written(self) -> dict[str, str]:
        return {} if self.save is None else {"model": str(self.save)}


def denoise(
    data: Path, how: How, modelled: Modelled, *, out: Path, stream: bool | None, as_json: bool
) -> None:
    """Write the posterior mean of the low-rank part of a file, in the layout of that file."""
    check_tables(out)
    places = [("--out", out), *modelled.places()]
    check_places(places, read=[("DATA", data), *modelled.read()])
    if (tucker := modelled.of_tensors("denoise")) is not None:
        tensors.denoise(tucker, data, how, out, as_json=as_json)
        return
    given = open_input(data, how, stream=stream)
    model = modelled.of(given, "denoise")
    write_table(out, (_without_noise(model, part) for part in given.parts("denoising")))
    _tell(given, model, {"denoised": str(out)} | modelled.written(), as_json=as_json)


def _without_noise(model: AnyEstimator, part: Table) -> Table:
    clean = using.uses_of(model).denoise
    assert clean is not None
    ours = using.columns_of(model, part)
    return ours.with_values(using.in_order_of(ours, model, clean(model, ours)))


def impute(
    data: Path, how: How, modelled: Modelled, beside: FilledOutputs, *, out: Path, as_json: bool
) -> None:
    """Fill the holes of a file, and write the other requested outputs."""
    check_tables(out)
    if is_written(out) and beside.named():
        raise ValueError(
            f"{' and '.join(beside.named())} write files beside --out: give --out the name of a "
            "file."
        )
    places = [*beside.places(out), *modelled.places()]
    check_places(places, read=[("DATA", data), *modelled.read()])
    if (tucker := modelled.of_tensors("impute")) is not None:
        _check_spread(tucker, replace(beside, std=False))
        spread = FilledOutputs.place(out, "std") if beside.std else None
        tensors.impute(tucker, data, how, out, std=spread, as_json=as_json)
        return
    given = modelled.opened(data, how, "impute")
    assert given.table is not None
    model = modelled.of(given, "impute")
    _check_spread(model, beside)
    work = Filling(given.file.path, how_read(model, how), out, beside)
    with progress("filling"):
        written, table = work.write(model, given)
    holes, cells = table.n_holes, table.shape[0] * table.shape[1]
    note = screen.filled(holes, cells)
    if not holes:
        note = "There are no holes in the data: nothing was filled, all values are as they were."
    written |= modelled.written()
    _tell(given, model, written, as_json=as_json, note=note, facts={"holes": holes})


def _check_spread(model: AnyEstimator, beside: FilledOutputs) -> None:
    uses = using.uses_of(model)
    lacking = {
        "--std": beside.std and not uses.spread,
        "--intervals": beside.intervals and not (uses.spread or uses.texts),
        "--draws": beside.draws > 0 and not uses.draws,
    }
    for option in (option for option, lacks in lacking.items() if lacks):
        raise ValueError(
            f"{option} needs a model of fit, or of VariationalPCA: a {type(model).__name__} has no "
            "such spread of filled cells."
        )


def info(model_path: Path, *, as_json: bool) -> None:
    """Show the contents of a model file, and the commands that use it."""
    model = load(model_path)
    known = {"model": str(model_path), "class": type(model).__name__}
    parameters, fitted = model.get_params(), using.is_fitted(model)
    verbs = using.uses_of(model).verbs() if fitted else []
    facts = known | {"fitted": fitted, "parameters": parameters, "used_by": verbs}
    if as_json:
        screen.print_json(facts | (_found(model) if fitted else {}))
    elif fitted:
        _show_model(model, model_path, verbs)
    else:
        print(f"{model_path.name}: {model!r}, not fitted")


def _found(model: AnyEstimator) -> dict[str, Any]:
    names = {"feature_names": feature_names(model)} if hasattr(model, "n_features_in_") else {}
    return findings_of(model).numbers | names


def _show_model(model: AnyEstimator, path: Path, verbs: list[str]) -> None:
    if hasattr(model, "spectrum_"):
        screen.print_summary(summarize(model), path.name, described_components(model))
    else:
        screen.print_findings(findings_of(model), path.name)
    parameters = model.get_params()
    given = ", ".join(f"{k}={v!r}" for k, v in parameters.items() if v != _default(model, k))
    written = {"class": f"{type(model).__name__}({given})"}
    written |= {"used by": ", ".join(f"bayespca {verb}" for verb in verbs)} if verbs else {}
    written |= {"engine": model.engine_} if hasattr(model, "engine_") else {}
    screen.print_footer(written)


def _default(model: AnyEstimator, name: str) -> object:
    return type(model)().get_params()[name]


def _tell(
    given: Input,
    model: AnyEstimator,
    written: dict[str, str],
    *,
    as_json: bool,
    note: str | None = None,
    facts: dict[str, Any] | None = None,
) -> None:
    account = findings_of(model)
    if as_json:
        about = {"file": str(given.file.path)} | account.numbers | given.facts
        about["notes"] = [*account.numbers["notes"], *_notes(given, model)]
        screen.print_json(about | (facts or {}) | {"written": written})
        return
    notes = [*([note] if note else []), *_notes(given, model)]
    if hasattr(model, "spectrum_"):
        screen.print_summary(summarize(model), given.file.path.name, [], notes)
    else:
        screen.print_findings(account, given.file.path.name, notes)
    screen.print_footer(written, f"engine {model.engine_}" if hasattr(model, "engine_") else "")


def _notes(given: Input, model: AnyEstimator) -> list[str]:
    return given.notes_on(model) if isinstance(given, MixedInput) else given.notes


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
