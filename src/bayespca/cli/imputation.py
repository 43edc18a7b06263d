"""`bayespca impute`: the filled table, and files on the uncertainty of the filled cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from bayespca.estimators._base import AnyEstimator
from bayespca.io.completing import write_completed, write_filled
from bayespca.io.records import How, Table
from bayespca.io.tables import write_table

from . import models
from .inputs import Input
from .mixed import MixedInput

LEVEL = 0.95


@dataclass(frozen=True)
class FilledOutputs:
    """Outputs besides the filled table: standard deviations of filled cells, their intervals or
    probabilities, and a number of draws.
    """

    std: bool = False
    intervals: bool = False
    draws: int = 0

    def named(self) -> list[str]:
        """The given options for these outputs."""
        return [f"--{name}" for name, given in vars(self).items() if given]

    def places(self, out: Path) -> list[tuple[str, Path]]:
        """The files that `impute` writes, each with its option."""
        options = ("std", "intervals")
        single = [(f"--{o}", self.place(out, o)) for o in options if getattr(self, o)]
        drawn = (("--draws", self.of_draw(out, i)) for i in range(self.draws))
        return [("--out", out), *single, *drawn]

    def of_draw(self, out: Path, i: int) -> Path:
        return self.place(out, f"draw-{i + 1:0{len(str(self.draws))}d}")

    @staticmethod
    def place(path: Path, what: str) -> Path:
        """Path of a further output: data.csv becomes data-std.csv."""
        is_packed = path.suffix in (".gz", ".bz2", ".zst")
        endings = "".join(path.suffixes[-2:]) if is_packed else path.suffix
        return path.with_name(f"{path.name.removesuffix(endings)}-{what}{endings}")


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

    # --- numbers -------------------------------------------------------------------------------

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
        """Path and random generator of each draw."""
        rng = np.random.default_rng(model.random_state)
        for i in range(self.beside.draws):
            place = self.beside.of_draw(self.out, i)
            yield place, rng
            written[f"draw {i + 1}"] = str(place)

    # --- columns of any kind -------------------------------------------------------------------

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
    order = [*columns, "probability"]
    return replace(
        Table(np.asarray(probability)[:, None], ["probability"], others=others), order=order
    )
