"""`check`: rows of a file that a saved model does not expect."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from bayespca.io.records import How, Table
from bayespca.io.tables import write_table
from bayespca.monitoring.rows import Monitoring, calibrate, statistics

from . import models, screen
from .inputs import open_input
from .outputs import check_places, check_tables
from .progress import progress

# The exit code with alarms: 1 is for failures, 2 for a wrong command line.
ALARMS = 3
# Most alarms that are listed in the terminal.
LISTED = 40


def check(
    model_path: Path,
    data: Path,
    how: How,
    *,
    alpha: float,
    clean: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Print the alarms of a file's rows, and exit with `ALARMS` if there are any."""
    check_tables(out)
    read = [("MODEL", model_path), ("DATA", data)]
    check_places([("--out", out)], read=read if clean is None else [*read, ("--clean", clean)])
    model = models.saved(model_path, "check")
    given = open_input(data, how, stream=False)
    assert given.table is not None
    calibration = None
    if clean is not None:
        rows = open_input(clean, how, stream=False).table
        with progress(f"leaving out rows of {clean.name}"):
            calibration = calibrate(model, rows)
    found = statistics(model, given.table, alpha=alpha, calibration=calibration)
    written = {}
    if out is not None:
        write_table(out, iter([as_table(found, given.table)]))
        written = {"statistics": str(out)}
    notes = given.notes
    if not model.n_components_:
        notes.append("The model has no components, so there is no T²; Q is the whole distance.")
    if found.unchecked.size:
        notes.append(
            f"{screen.counted(found.unchecked.size, 'row')} could not be checked: there are no "
            "more cells than components."
        )
    alarms, ids = [asdict(alarm) for alarm in found.alarms()], given.table.ids
    if ids is not None:
        alarms = [alarm | {"name": ids[alarm["row"]]} for alarm in alarms]
    if as_json:
        facts = {"file": str(data), "model": str(model_path), "alpha": alpha}
        facts |= {"rows": len(found.q), "alarms": alarms, "unchecked": found.unchecked}
        screen.print_json(facts | {"notes": notes, "written": written})
    else:
        _show(found, alarms, data.name, notes)
        if written:
            screen.print_footer(written)
    if alarms:
        sys.exit(ALARMS)


def as_table(found: Monitoring, table: Table) -> Table:
    """A table with statistics, limits, alarm (0 or 1) and contributions for each row of data."""
    columns = {"T2": found.t2, "T2 limit": found.t2_limit, "Q": found.q, "Q limit": found.q_limit}
    columns["alarm"] = found.is_alarm.astype(np.float64)
    parts = {"T2": found.t2_contributions, "Q": found.q_contributions}
    names = [f"{short} of {name}" for short in parts for name in found.names]
    values = np.column_stack([*columns.values(), *parts.values()])
    return Table(values, [*columns, *names], table.ids, table.id_name)


def _show(found: Monitoring, alarms: list[dict[str, Any]], title: str, notes: list[str]) -> None:
    n, flagged = len(found.q), int(found.is_alarm.sum())
    out = screen.console()
    rows = screen.counted(n, "row")
    out.print(Text.assemble((screen.shown(title), "bold"), f"  {rows}"))
    out.print()
    has = "have" if flagged > 1 else "has"
    each = f"{100 * found.alpha:g} % of clean rows exceed each limit"
    out.print(Padding(f"{flagged or 'none'} of {rows} {has} alarms; {each}", (0, 2)))
    if alarms:
        out.print()
        grid = Grid(box=None, padding=(0, 3, 0, 0), header_style="dim")
        grid.add_column("row", justify="right")
        grid.add_column("statistic")
        for name in ("value", "limit"):
            grid.add_column(name, justify="right")
        grid.add_column("mostly", overflow="fold")
        for alarm in alarms[:LISTED]:
            grid.add_row(
                screen.shown(str(alarm.get("name", alarm["row"]))),
                alarm["statistic"],
                f"{alarm['value']:.4g}",
                f"{alarm['limit']:.4g}",
                Text(screen.shown(", ".join(alarm["columns"]))),
            )
        out.print(Padding(grid, (0, 2)))
    if len(alarms) > LISTED:
        notes = [*notes, f"{len(alarms) - LISTED} more alarms are in --json and --out."]
    screen.print_notes(notes)
