"""The layout of a table: features, the column that names the rows, and columns set aside."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from .dialect import TextSample, is_id_name
from .records import How, Layout

# A column with a larger share of numbers than this is numeric; its other fields are mistakes.
MOSTLY = 0.5
BOOLEANS = {"true", "false"}
# A column by its position, from 1.
BY_POSITION = re.compile(r"#([0-9]{1,9})")


def of_sample(sample: TextSample, how: How, where: str) -> Layout:
    """The layout of a text table, from its first rows."""
    n = sample.n_columns
    names = _checked_names(sample.names, where, how.drop)
    kinds = [_kind(sample, j) for j in range(n)]
    signed = [j for j in range(n) if kinds[j] == "text" and _is_signed(sample, j)]
    id_column = position(names, n, how.id_column, where) if how.id_column else None
    if how.id_column is None and _names_the_rows(sample, names, kinds, 0 in signed):
        id_column = 0
    aside = {position(names, n, name, where): "dropped" for name in how.drop}
    aside |= {
        j: "text" for j in range(n) if kinds[j] == "text" and j != id_column and j not in aside
    }
    features = tuple(j for j in range(n) if j != id_column and j not in aside)
    booleans = frozenset(j for j in features if kinds[j] == "boolean")
    notes = []
    numbers = [name for name in sample.names or () if sample.dialect.is_number(name)]
    if how.header is None and numbers:
        shown = ", ".join(numbers[:3]) + (", …" if len(numbers) > 3 else "")
        notes.append(
            f"The first line ({shown}) was read as the names of the columns. If it is data, use "
            "--no-header; in Python, bayespca.io.open_file(path, How(header=False)).read()."
        )
    unread = [j for j in signed if aside.get(j) == "text"]
    if unread:
        called = [str(j) if names is None else names[j] for j in unread]
        notes.append(
            f"Numbers with signs or separators, such as {sample.column(unread[0])[0]!r} in "
            f"{listed(called, 3)}, were not read. Read them with --units, and with --decimal if it "
            "is a comma; in Python with bayespca.io.open_file(path, How(units=True)).read()."
        )
    return Layout(n, names, features, id_column, aside, booleans, tuple(notes))


def _is_signed(sample: TextSample, j: int) -> bool:
    """Whether most fields of a column of text would be numbers without signs and separators."""
    fields = sample.column(j)
    ways = (replace(sample.dialect, units=True, decimal=decimal) for decimal in ".,")
    return any(sum(map(way.is_number, fields)) > MOSTLY * len(fields) for way in ways)


def of_types(
    names: Sequence[str],
    kinds: Sequence[str],
    how: How,
    where: str,
    *,
    row_labels: Sequence[str] = (),
    first: Sequence[object] = (),
) -> Layout:
    """The layout of a table with typed columns.

    `kinds` are "number", "whole" for integers, or the reason to set a column aside. `first` are the
    sampled values of the first column.
    """
    n, known = len(names), _checked_names(list(names), where, how.drop)
    id_column: int | None = None
    if how.id_column:
        id_column = position(known, n, how.id_column, where)
    elif how.id_column is None:
        stored = [j for j in range(n) if names[j] in row_labels]
        is_first = n > 1 and _are_ids(first, kinds[0], names[0])
        id_column = stored[0] if stored else (0 if is_first else None)
    aside = {position(known, n, name, where): "dropped" for name in how.drop}
    aside |= {j: "row label" for j in range(n) if names[j] in row_labels and j not in aside}
    numbers = ("number", "whole")
    aside |= {j: kinds[j] for j in range(n) if kinds[j] not in numbers and j not in aside}
    aside = {j: reason for j, reason in aside.items() if j != id_column}
    features = tuple(j for j in range(n) if j != id_column and j not in aside)
    return Layout(n, known, features, id_column, aside)


def check_features(layout: Layout, where: str, how: How, sample: TextSample | None = None) -> None:
    """Raise if there is nothing to analyse."""
    if layout.features or (how.texts and "text" in layout.aside.values()):
        return
    shown = ", ".join(f"{layout.described(j)} ({why})" for j, why in list(layout.aside.items())[:3])
    splitting = ""
    if sample is not None:
        delimiter = {"\t": "tab", " ": "space"}.get(
            sample.dialect.delimiter, sample.dialect.delimiter
        )
        splitting = f", splitting lines at {delimiter!r}: if that is wrong, name the delimiter"
    raise ValueError(
        f"{where} has no column of numbers among its {layout.n_columns} "
        f"column{'s' * (layout.n_columns != 1)}"
        f"{' (' + shown + ')' if shown else ''}{splitting}.{' '.join(['', *layout.notes])}"
    )


def _kind(sample: TextSample, j: int) -> str:
    fields = sample.column(j)
    if not fields:
        return "number"  # nothing speaks against it
    if all(text.strip().lower() in BOOLEANS for text in fields):
        return "boolean"
    numbers = sum(sample.dialect.is_number(text) for text in fields)
    return "number" if numbers > MOSTLY * len(fields) else "text"


def _names_the_rows(
    sample: TextSample, names: tuple[str, ...] | None, kinds: list[str], is_signed: bool
) -> bool:
    if len(kinds) < 2:
        return False
    if sample.dialect.has_short_header:
        return True
    fields = sample.column(0)
    is_whole = all(text.strip().lstrip("-").isdigit() for text in fields)
    kind = "whole" if kinds[0] == "number" and is_whole else kinds[0]
    name = None if names is None else names[0]
    if is_signed and not (name and is_id_name(name)):
        return False
    return _are_ids(fields, kind, name)


def _are_ids(values: Sequence[object], kind: str, name: str | None) -> bool:
    """Whether the first column names the rows: distinct texts, or a column of texts or whole
    numbers with the name of an id.

    Numbers without such a name are data, even if they count the rows.
    """
    if not values or kind not in ("text", "whole"):
        return False
    if name is not None and is_id_name(name):
        return True
    return kind == "text" and len(values) > 1 and len(set(values)) == len(values)


def _checked_names(
    names: list[str] | None, where: str, drop: Sequence[str]
) -> tuple[str, ...] | None:
    """Names, which must be distinct; columns without one are named by position.

    A column that is dropped by its position may share its name with another.
    """
    if names is None:
        return None
    names = [name or (f"column {j}" if j else "") for j, name in enumerate(names)]
    for j in (int(found[1]) - 1 for text in drop if (found := BY_POSITION.fullmatch(text))):
        if 0 <= j < len(names) and names.count(names[j]) > 1:
            names[j] = f"{names[j]} #{j + 1}"
    seen: dict[str, int] = {}
    for j, name in enumerate(names):
        if name in seen:
            raise ValueError(
                f"{where} has two columns called {name!r} (columns {seen[name] + 1} and {j + 1}): "
                f"rename one of them, or leave it out with --drop '#{j + 1}' (in Python "
                f"bayespca.io.How(drop=('#{j + 1}',)))."
            )
        seen[name] = j
    return tuple(names)


def position(names: tuple[str, ...] | None, n: int, name: str, where: str) -> int:
    """Position of a column, given by its name, as #3 (from 1), or as 2 (from 0)."""
    if names is not None and name in names:
        return names.index(name)
    if (found := BY_POSITION.fullmatch(name)) and 0 < int(found[1]) <= n:
        return int(found[1]) - 1
    if name.isdigit() and int(name) < n:
        return int(name)
    known = "" if names is None else f" Its columns are {listed(names)}."
    raise ValueError(f"{where} has no column {name!r}.{known}")


def listed(names: Sequence[str], most: int = 8) -> str:
    """The first names for a sentence, with the number of the others."""
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
