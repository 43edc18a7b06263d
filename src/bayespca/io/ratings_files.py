"""Ratings from files: finds and reads the columns of users, items, ratings and times.

It reads MovieLens' `u.data`, `ratings.dat` (columns separated by ::) and `ratings.csv`, RecBole's
`.inter`, and any CSV, TSV, Parquet or Feather file with such columns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrow_files import column_kind
from .dialect import TextSample, open_text, recognise
from .layout import listed, position
from .packages import need
from .records import (
    FEATHER,
    PARQUET,
    TEXT,
    Arrow,
    Entries,
    How,
    Layout,
    ending_of,
    readable,
)
from .text_files import complaint, data_rows, reading_options

RATINGS_TEXT = (*TEXT, ".dat", ".data", ".inter")
ARROW = (*PARQUET, *FEATHER)
ROLES = ("user", "item", "rating")
# The name of the only user of a file without a column of users.
ONE = "new"
# Beginnings of column names, by role.
CALLED = {
    "user": r"user|customer|reviewer|member|viewer|reader|account|visitor|uid|person",
    "item": r"item|movie|film|product|book|song|track|artist|business|anime|game|asin|isbn|iid",
    "rating": r"rating|score|value|star|overall|rate|preference",
    "time": r"time|date|unix|day|when|tstamp",
}
# Roles of ids; the other columns hold numbers.
IDS = ("user", "item")
# Whole numbers in Python's notation: 007 is a different id from 7.
WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")


@dataclass(frozen=True, eq=False)
class RatingColumns:
    """Columns of a file: ids as whole numbers or strings, ratings, and the names of these columns.

    `ratings` is None for pairs. `times`, numbers or the file's dates, is None if not requested. If
    there is no column of users, all users are `ONE`.
    """

    users: Entries
    items: Entries
    ratings: NDArray[np.float64] | None
    names: tuple[str, ...]
    times: NDArray[Any] | None = None


@dataclass(frozen=True)
class RatingsHead:
    """From the beginning of a file: names of its columns, and whether the ids of users and items
    are whole numbers.
    """

    names: tuple[str, ...]
    whole: tuple[bool, bool]


def read_head(path: Path, how: How, columns: Sequence[str] | None = None) -> RatingsHead:
    """Read the beginning of a file of ratings."""
    ending = ending_of(Path(path), RATINGS_TEXT, ARROW, "ratings")
    if ending in RATINGS_TEXT:
        need("pyarrow", f"reading {path}")
        opened = _opened_text(path, how, columns, ROLES)
        return RatingsHead(opened.called, (opened.is_whole[0], opened.is_whole[1]))
    schema = _schema(path)
    types = need("pyarrow.types", f"reading {path}")
    places = _chosen(schema.names, len(schema.names), columns, ROLES, path)
    users, items = (types.is_integer(schema.field(j).type) for j in places[:2])
    return RatingsHead(tuple(schema.names[j] for j in places), (users, items))


def read_ratings(
    path: Path,
    how: How | None = None,
    columns: Sequence[str] | None = None,
    *,
    times: bool = False,
) -> RatingColumns:
    """Read users, items, ratings and perhaps times; `columns` names them in this order."""
    return _read(Path(path), how or How(), columns, (*ROLES, "time") if times else ROLES)


def read_pairs(
    path: Path,
    how: How | None = None,
    columns: Sequence[str] | None = None,
    *,
    times: bool = False,
) -> RatingColumns:
    """Read users, items and perhaps times; other columns are not read."""
    return _read(Path(path), how or How(), columns, (*IDS, "time") if times else IDS)


def read_new_ratings(path: Path, how: How | None = None) -> RatingColumns:
    """Read ratings of new users: users, items and ratings, or items and ratings of one user."""
    try:
        return read_ratings(path, how)
    except ValueError:
        with suppress(ValueError):
            alone = _read(Path(path), how or How(), None, ROLES[1:])
            if not any(_has(name, "user", at_start=True) for name in alone.names):
                return alone
        raise


def _read(
    path: Path, how: How, columns: Sequence[str] | None, roles: tuple[str, ...]
) -> RatingColumns:
    ending = ending_of(path, RATINGS_TEXT, ARROW, "ratings")
    if columns is not None and len(columns) < len(roles):
        raise ValueError(
            f"the columns of {' and '.join(roles)} must be named, got {', '.join(columns)}."
        )
    return (_read_text if ending in RATINGS_TEXT else _read_arrow)(path, how, columns, roles)


# --- which columns -----------------------------------------------------------------------------


def _chosen(
    names: Sequence[str] | None,
    n_columns: int,
    columns: Sequence[str] | None,
    roles: tuple[str, ...],
    path: Path,
) -> tuple[int, ...]:
    if columns is not None:
        known = None if names is None else tuple(names)
        places = tuple(position(known, n_columns, name, str(path)) for name in columns)
        return places[: len(roles)]
    found = _recognised(names or (), roles)
    if n_columns == len(roles) == len(found) + 1:
        (left,) = set(range(n_columns)) - set(found.values())
        found |= {role: left for role in roles if role not in found}
    if len(found) == len(roles):
        return tuple(found[role] for role in roles)
    # Without names, the columns are users, items, ratings and perhaps times, in this order.
    is_bare = names is None and len(roles) <= n_columns <= 4
    if is_bare or (n_columns == len(roles) and not found):
        return tuple(range(len(roles)))
    there = f"{n_columns} columns" if names is None else f"the columns {listed(names)}"
    raise ValueError(
        f"{path} has {there}, and which of them are {', '.join(roles)} is not clear: name them "
        "with --columns, or count them from 0."
    )


def _recognised(names: Sequence[str], roles: tuple[str, ...]) -> dict[str, int]:
    """Positions by role: the first name that begins like the role, else the first that contains it.

    A column user_rating holds ratings, not users.
    """
    found: dict[str, int] = {}
    for role in roles:
        left = [j for j in range(len(names)) if j not in found.values()]
        if role != "rating":
            left.sort(key=lambda j: _has(names[j], "rating"))
        fits = [j for j in left if _has(names[j], role, at_start=True)]
        fits += [j for j in left if _has(names[j], role)]
        if fits:
            found[role] = fits[0]
    return found


def _has(name: str, role: str, *, at_start: bool = False) -> bool:
    look = re.match if at_start else re.search
    return look(CALLED[role], name.strip(), re.IGNORECASE) is not None


# --- text --------------------------------------------------------------------------------------


def _read_text(
    path: Path, how: How, columns: Sequence[str] | None, roles: tuple[str, ...]
) -> RatingColumns:
    need("pyarrow", f"reading {path}")
    found = _opened_text(path, how, columns, roles)
    sample, called = found.sample, found.called
    table = _whole_or_text(path, sample, found.places, found.is_whole)
    if not table.num_rows:
        raise ValueError(f"{path} holds no rows.")
    cells = [table.column(str(j)) for j in found.places]
    first = _first_missing(cells)
    if first is not None:
        j, row = first
        lines = (line for line, _ in data_rows(path, sample.dialect))
        line = next(islice(lines, row, None), row + 1)
        raise ValueError(
            f"{path}, line {line}, column {called[j]!r} has no {roles[j]}: fill it in, or leave "
            "the line out."
        )
    return _columns(cells, called, roles)


@dataclass(frozen=True, eq=False)
class _OpenedText:
    """The first rows, names and positions of the columns, and which ids are whole numbers."""

    sample: TextSample
    called: tuple[str, ...]
    places: tuple[int, ...]
    is_whole: list[bool]


def _opened_text(
    path: Path, how: How, columns: Sequence[str] | None, roles: tuple[str, ...]
) -> _OpenedText:
    sample = _sample(path, how)
    first_rows = sample.rows[:5] or [sample.names or []]
    # Splitting :: at each colon leaves an empty column in between.
    is_double = sample.dialect.delimiter == ":" and not any("".join(r[1::2]) for r in first_rows)
    step = 2 if is_double else 1
    names = None if sample.names is None else [_bare(name) for name in sample.names[::step]]
    places = _chosen(names, (sample.n_columns + step - 1) // step, columns, roles, path)
    called = tuple(str(j) if names is None else names[j] for j in places)
    raw = tuple(step * j for j in places)
    ids = [j for j, role in zip(raw, roles, strict=True) if role in IDS]
    is_whole = [all(WHOLE.fullmatch(field.strip()) for field in sample.column(j)) for j in ids]
    return _OpenedText(sample, called, raw, is_whole)


def _sample(path: Path, how: How) -> TextSample:
    """The first rows; columns separated by :: are split at each colon."""
    delimiter = how.delimiter
    if delimiter is None and _first_line(path).count("::") >= 1:
        delimiter = ":"
    return recognise(path, replace(how, delimiter=delimiter, units=False))


def _first_line(path: Path) -> str:
    with readable(path, "text", OSError, EOFError), open_text(path, "utf-8") as text:
        return text.readline(10_000)


def _bare(name: str) -> str:
    """The name without the type that RecBole appends: user_id:token."""
    return name.partition(":")[0].strip()


def _whole_or_text(
    path: Path, sample: TextSample, places: Sequence[int], is_whole: list[bool]
) -> Arrow:
    """The table; ids become text if a later one is not a whole number like the first ones."""
    for may_be in ((True, True), (False, True), (True, False)):
        try:
            whole = [a and b for a, b in zip(is_whole, may_be, strict=False)]
            return _arrow_table(path, sample, places, whole)
        except _NotWholeError:
            continue
    return _arrow_table(path, sample, places, [False] * len(is_whole))


class _NotWholeError(Exception):
    """An id is not a whole number although the first ones are."""


def _arrow_table(
    path: Path, sample: TextSample, places: Sequence[int], is_whole: list[bool]
) -> Arrow:
    pa, pa_csv = (need(name, f"reading {path}") for name in ("pyarrow", "pyarrow.csv"))
    # Features are the ratings, and times if they are read.
    features, n = tuple(places[len(is_whole) :]), sample.n_columns
    names = None if sample.names is None else tuple(sample.names)
    aside = dict.fromkeys((j for j in range(n) if j not in features), "no rating")
    layout = Layout(n, names, features, None, aside)
    options = reading_options(pa, pa_csv, sample, layout, sorted(set(places)), block_size=None)
    convert = options["convert_options"]
    types = dict(convert.column_types)
    ids = places[: len(is_whole)]
    types |= {str(j): pa.int64() for j, whole in zip(ids, is_whole, strict=True) if whole}
    convert.column_types = types
    if not (sample.rows or not sample.dialect.has_header):
        raise ValueError(f"{path} holds no rows.")
    try:
        return pa_csv.read_csv(path, **options)
    except (pa.ArrowException, OSError, UnicodeError) as error:
        if "int64" in str(error):
            raise _NotWholeError from error
        raise ValueError(complaint(error, path, sample, layout)) from error


def _first_missing(columns: Sequence[Arrow]) -> tuple[int, int] | None:
    """The first column with a missing or empty value, and its row; None if there is none."""
    pa, pc = (need(name, "reading ratings") for name in ("pyarrow", "pyarrow.compute"))
    for j, column in enumerate(columns):
        missing = column.is_null()
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            missing = pc.or_(missing, pc.equal(column.fill_null(""), ""))
        if pa.types.is_floating(column.type):
            missing = pc.or_(missing, pc.is_nan(column.fill_null(0.0)))
        row = int(pc.index(missing, True).as_py())
        if row >= 0:
            return j, row
    return None


# --- Parquet and Feather -----------------------------------------------------------------------


def _read_arrow(
    path: Path, how: How, columns: Sequence[str] | None, roles: tuple[str, ...]
) -> RatingColumns:
    if how != replace(How(), missing=how.missing):
        raise ValueError(f"{path}: delimiter, decimal and header do not apply to {path.suffix}.")
    pa = need("pyarrow", f"reading {path}")
    names = _schema(path).names
    called = tuple(names[j] for j in _chosen(names, len(names), columns, roles, path))
    with readable(path, "", pa.ArrowException, OSError):
        table = _arrow_module(path).read_table(path, columns=list(called))
    if not table.num_rows:
        raise ValueError(f"{path} holds no rows.")
    found = [_decoded(table.column(name), pa) for name in called]
    first = _first_missing(found)
    if first is not None:
        j, row = first
        raise ValueError(
            f"{path}, row {row} (counting from 0), column {called[j]!r} has no {roles[j]}: fill it "
            "in, or leave the row out."
        )
    for column, name, role in zip(found, called, roles, strict=True):
        may_be = role == "time" and pa.types.is_temporal(column.type)
        kind = column_kind(column.type, pa.types)
        if role not in IDS and not (may_be or kind in ("whole", "number")):
            raise ValueError(
                f"{path}: the column of {role}s, {name!r}, holds {kind}, not numbers: name another "
                "one."
            )
    return _columns(found, called, roles)


def _arrow_module(path: Path) -> Arrow:
    is_parquet = path.suffix.lower() in PARQUET
    return need("pyarrow.parquet" if is_parquet else "pyarrow.feather", f"reading {path}")


def _schema(path: Path) -> Arrow:
    pa, module = need("pyarrow", f"reading {path}"), _arrow_module(path)
    with readable(path, "", pa.ArrowException, OSError):
        if path.suffix.lower() in PARQUET:
            return module.read_schema(path)
        return module.read_table(path).schema


def _decoded(column: Arrow, pa: Arrow) -> Arrow:
    """A column of categories as the values that they stand for."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _columns(
    columns: list[Arrow], called: tuple[str, ...], roles: tuple[str, ...]
) -> RatingColumns:
    by_role = dict(zip(roles, columns, strict=True))
    ratings = None
    if "rating" in by_role:
        pa = need("pyarrow", "reading ratings")
        ratings = by_role["rating"].cast(pa.float64(), safe=False).to_numpy().astype(np.float64)
    items = by_role["item"].to_numpy()
    users = by_role["user"].to_numpy() if "user" in by_role else np.full(len(items), ONE, object)
    times = by_role["time"].to_numpy() if "time" in by_role else None
    return RatingColumns(users, items, ratings, called, times)
