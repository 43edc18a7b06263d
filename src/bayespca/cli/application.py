"""`transform`, `denoise`, `impute` and `info`: uses of a model."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from bayespca.estimators._base import AnyEstimator
from bayespca.estimators.findings import findings_of
from bayespca.estimators.pca import BayesianPCA
from bayespca.estimators.persistence import load
from bayespca.estimators.summary import summarize
from bayespca.estimators.wording import feature_names
from bayespca.io.array_files import check_tensor_ending, write_tensor
from bayespca.io.records import How, Table
from bayespca.io.tables import write_completed, write_filled, write_table

from . import models, screen
from .inputs import Input, open_input, open_tensor
from .mixed import Choice, MixedInput, of_saved
from .outputs import FilledOutputs, check_places, check_tables
from .progress import progress
from .standard import STANDARD

LEVEL = 0.95


@dataclass(frozen=True)
class Filling:
    """The source of a table, the place of its filled version, and further outputs."""

    source: Path
    how: How
    out: Path
    beside: FilledOutputs

    def write(self, model: AnyEstimator, given: Input) -> tuple[dict[str, str], Table]:
        """Fill a table and write output files.

        Returns the files by kind, and the columns of the model with holes as NaN.
        """
        assert given.table is not None
        if isinstance(given, MixedInput) and not isinstance(given.frame, Table):
            written = self._write_any(model, given.table, given.frame)
            holes = np.column_stack([series.is_null().to_numpy() for series in given.frame])
            return written, Table(np.where(holes, np.nan, 0.0))
        table = models.columns_of(model, given.table)
        return self._write_numbers(model, table), table

    def _write_numbers(self, model: AnyEstimator, table: Table) -> dict[str, str]:
        fill = models.uses_of(model).impute
        assert fill is not None
        values, std = fill(model, table)
        filled = models.in_order_of(table, model, values)
        spread = None if std is None else models.in_order_of(table, model, std)
        written = {"imputed": str(self.out)}
        write_filled(self.out, table, filled, self.source, self.how)
        if self.beside.std and spread is not None:
            place = self.beside.place(self.out, "std")
            write_table(place, table.with_values(spread))
            written["std"] = str(place)
        if self.beside.intervals and spread is not None:
            written |= self._write_cells(_intervals(table, filled, spread))
        # One at a time, because all draws together may not fit into memory.
        for place, rng in self._draws(model, written):
            drawn = models.in_order_of(table, model, model.sample_imputations(table, 1, rng)[0])
            write_filled(place, table, drawn, self.source, self.how)
        return written

    def _draws(
        self, model: AnyEstimator, written: dict[str, str]
    ) -> Iterator[tuple[Path, np.random.Generator]]:
        rng = np.random.default_rng(model.random_state)
        for i in range(self.beside.draws):
            place = self.beside.of_draw(self.out, i)
            yield place, rng
            written[f"draw {i + 1}"] = str(place)

    def _write_any(self, model: Any, table: Table, frame: Any) -> dict[str, str]:
        filled, cells = model.impute(frame, interval=LEVEL)
        written = {"imputed": str(self.out)}
        holed = [series.name for series in frame if series.null_count()]

        def write(out: Path, values: Any) -> None:
            columns = {series.name: series.to_list() for series in values.select(holed)}
            write_completed(out, table, columns, self.source, self.how)

        write(self.out, filled)
        if self.beside.intervals:
            names = _row_names(table)
            texts = {
                key: ["" if one is None else str(one) for one in cells[key].tolist()]
                for key in ("column", "value", "low", "high")
            }
            rows = [names[i] for i in cells["row"]]
            written |= self._write_cells(_cells(rows, texts, cells["probability"]))
        for place, rng in self._draws(model, written):
            drawn = model.sample_imputations(frame, 1, rng)[0]
            write(place, drawn)
        return written

    def _write_cells(self, cells: Table) -> dict[str, str]:
        place = self.beside.place(self.out, "intervals")
        write_table(place, cells)
        return {"intervals": str(place)}


def _row_names(table: Table) -> list[str]:
    return table.ids or [str(i + 1) for i in range(table.shape[0])]


def _intervals(table: Table, filled: Any, spread: Any) -> Table:
    """A table of the filled cells of numbers with their intervals."""
    i, j = np.nonzero(np.isnan(table.values))
    value, reach = filled[i, j], ndtri(0.5 + LEVEL / 2) * spread[i, j]
    rows, names = _row_names(table), table.features
    bounds = {"value": value, "low": value - reach, "high": value + reach}
    texts = {key: [repr(one) for one in some.tolist()] for key, some in bounds.items()}
    texts = {"column": [names[k] for k in j], **texts}
    return _cells([rows[k] for k in i], texts, np.full(i.size, np.nan))


def _cells(rows: list[str], texts: dict[str, list[str]], probability: Any) -> Table:
    """A table with a row for each filled cell; its values are text, because some are levels."""
    columns = {"row": rows, **texts}
    others = {name: np.array(some, dtype=object) for name, some in columns.items()}
    shares, name = np.asarray(probability)[:, None], "probability"
    return Table(shares, [name], others=others, order=[*columns, name])


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
    model = models.saved(model_path, "transform")
    parts = _scores(model, data, how, std=std, stream=stream)
    files: dict[str, Any] = {"file": str(data), "model": str(model_path)}
    if out is not None:
        write_table(out, parts)
        written = {"scores": str(out)}
        if as_json:
            screen.print_json(files | {"written": written})
        else:
            screen.print_footer(written, findings_of(model).headline)
    elif as_json:
        tables = list(parts)
        values = np.concatenate([part.values for part in tables])
        ids = [name for part in tables for name in part.ids or []]
        columns = {name: values[:, j] for j, name in enumerate(tables[0].names or [])}
        screen.print_json(files | {"ids": ids or None, "scores": columns})
    else:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        for i, part in enumerate(parts):
            if not i:
                head = [] if part.ids is None else [part.id_name]
                writer.writerow([*head, *(part.names or [])])
            for r, row in enumerate(part.values.tolist()):
                writer.writerow([*([] if part.ids is None else [part.ids[r]]), *row])


def _scores(
    model: AnyEstimator, data: Path, how: How, *, std: bool, stream: bool | None
) -> Iterator[Table]:
    """Scores of the rows of a file, or of the slices of a tensor, in parts."""
    uses = models.uses_of(model)
    if uses.tensors:
        yield models.slice_scores(model, open_tensor(data, how))
        return
    assert uses.transform is not None
    given = open_input(data, how_read(model, how), stream=False if uses.texts else stream)
    for part in given.parts("scores"):
        yield uses.transform(model, part, std=std)


def how_read(model: AnyEstimator, how: How) -> How:
    """Options for reading a table for a model, with columns of text if it uses them."""
    return replace(how, texts=models.uses_of(model).texts)


@dataclass(frozen=True)
class Modelled:
    """The source of a command's model, a fit or a file, and the file to save it to.

    With a `choice`, a new fit uses columns of all kinds if a table has them.
    """

    model: BayesianPCA
    saved: Path | None = None
    save: Path | None = None
    choice: Choice | None = None

    def of_tensors(self, verb: str) -> AnyEstimator | None:
        """The saved model if it is one of tensors, else None."""
        model = None if self.saved is None else models.saved(self.saved, verb)
        return model if model is not None and models.uses_of(model).tensors else None

    def opened(self, data: Path, how: How, verb: str) -> Input:
        """The file, read into memory with the columns that the model uses."""
        if self.saved is not None:
            model = models.saved(self.saved, verb)
            given = open_input(data, how_read(model, how), stream=False)
            return of_saved(model, given) if models.uses_of(model).texts else given
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
            return models.saved(self.saved, verb)
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
    places = [("--out", out), ("--save", modelled.save)]
    check_places(places, read=[("DATA", data), ("--model", modelled.saved)])
    written = {"denoised": str(out)}
    if (tucker := modelled.of_tensors("denoise")) is not None:
        check_tensor_ending(out)
        T = open_tensor(data, how)
        with progress("denoising"):
            write_tensor(out, tucker.inverse_transform(tucker.transform(T)))
        _show_result(data, tucker, written, as_json=as_json)
        return
    given = open_input(data, how, stream=stream)
    model = modelled.of(given, "denoise")
    write_table(out, (_without_noise(model, part) for part in given.parts("denoising")))
    written |= modelled.written()
    path, notes = given.file.path, given.notes_on(model)
    _show_result(path, model, written, notes, given.facts, as_json=as_json)


def _without_noise(model: AnyEstimator, part: Table) -> Table:
    clean = models.uses_of(model).denoise
    assert clean is not None
    ours = models.columns_of(model, part)
    return ours.with_values(models.in_order_of(ours, model, clean(model, ours)))


def impute(
    data: Path, how: How, modelled: Modelled, beside: FilledOutputs, *, out: Path, as_json: bool
) -> None:
    """Fill the holes of a file, and write the other requested outputs."""
    check_tables(out)
    if out == STANDARD.written and beside.named():
        raise ValueError(
            f"{' and '.join(beside.named())} write files beside --out: give --out the name of a "
            "file."
        )
    places = [*beside.places(out), ("--save", modelled.save)]
    check_places(places, read=[("DATA", data), ("--model", modelled.saved)])
    if (tucker := modelled.of_tensors("impute")) is not None:
        _check_spread(tucker, replace(beside, std=False))
        check_tensor_ending(out)
        T = open_tensor(data, how)
        written = {"imputed": str(out)}
        with progress("filling"):
            filled, spread = tucker.impute(T, return_std=True)
        write_tensor(out, filled)
        if beside.std:
            place = beside.place(out, "std")
            write_tensor(place, spread)
            written["std"] = str(place)
        note = screen.filled(int(np.isnan(T).sum()), T.size)
        _show_result(data, tucker, written, as_json=as_json, note=note)
        return
    given = modelled.opened(data, how, "impute")
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
    facts = given.facts | {"holes": holes}
    path, notes = given.file.path, given.notes_on(model)
    _show_result(path, model, written, notes, facts, as_json=as_json, note=note)


def _check_spread(model: AnyEstimator, beside: FilledOutputs) -> None:
    uses = models.uses_of(model)
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
    name, parameters, fitted = type(model).__name__, model.get_params(), models.is_fitted(model)
    verbs = models.uses_of(model).verbs() if fitted else []
    if as_json:
        facts = {"model": str(model_path), "class": name, "fitted": fitted}
        facts |= {"parameters": parameters, "used_by": verbs}
        if fitted:
            facts |= findings_of(model).numbers
            if hasattr(model, "n_features_in_"):
                facts["feature_names"] = feature_names(model)
        screen.print_json(facts)
        return
    if not fitted:
        print(f"{model_path.name}: {model!r}, not fitted")
        return
    if hasattr(model, "spectrum_"):
        components = models.described_components(model)
        screen.print_summary(summarize(model), model_path.name, components)
    else:
        screen.print_findings(findings_of(model), model_path.name)
    defaults = type(model)().get_params()
    given = ", ".join(f"{k}={v!r}" for k, v in parameters.items() if v != defaults[k])
    written = {"class": f"{name}({given})"}
    written |= {"used by": ", ".join(f"bayespca {verb}" for verb in verbs)} if verbs else {}
    written |= {"engine": model.engine_} if hasattr(model, "engine_") else {}
    screen.print_footer(written)


def _show_result(
    data: Path,
    model: AnyEstimator,
    written: dict[str, str],
    notes: Sequence[str] = (),
    facts: Mapping[str, Any] | None = None,
    *,
    as_json: bool,
    note: str | None = None,
) -> None:
    """Print what the model found in a file; a `note` on the result comes first."""
    account = findings_of(model)
    if as_json:
        about = {"file": str(data)} | account.numbers | dict(facts or {})
        about["notes"] = [*account.numbers["notes"], *notes]
        screen.print_json(about | {"written": written})
        return
    notes = [*([note] if note else []), *notes]
    if hasattr(model, "spectrum_"):
        screen.print_summary(summarize(model), data.name, [], notes)
    else:
        screen.print_findings(account, data.name, notes)
    screen.print_footer(written, f"engine {model.engine_}" if hasattr(model, "engine_") else "")
