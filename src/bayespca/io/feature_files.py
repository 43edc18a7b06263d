"""Features of users or items from files: ids, and columns of numbers, words and lists of words.

It reads MovieLens' `u.user`, `users.dat` and `movies.csv`, RecBole's `.user` and `.item`, and any
CSV, TSV, Parquet or Feather file with a row for each user or item.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrow_files import column_kind
from .dialect import Dialect, open_text
from .packages import need
from .ratings_files import (
    ARROW,
    WHOLE,
    _arrow_module,
    _bare,
    _decoded,
    _first_line,
    _has,
    _sample,
)
from .records import TEXT, Arrow, How, ending_of, readable
from .text_files import data_rows

FEATURES_TEXT = (*TEXT, ".dat", ".data", ".user", ".item")
# The separator of words in a list; RecBole's type for columns of lists, separated by spaces.
BETWEEN = "|"
SEQUENCE = "token_seq"
# The separator of columns in MovieLens' .dat files.
COLONS = "::"
# A column with more distinct words than this share of the rows names the rows rather than describe
# them, and is left out; files with fewer rows than the second number keep every column.
NAMES, FEW = 0.5, 20

Numbers = NDArray[np.float64]
# Words of each row; an empty tuple if it has none.
Words = list[tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class FeatureColumns:
    """A row for each id, with columns of numbers or of words.

    `id_name` is the name of the column of ids; `notes` are sentences about what was left out or
    filled in.
    """

    ids: NDArray[Any]
    columns: Mapping[str, Numbers | Words]
    id_name: str = ""
    notes: tuple[str, ...] = ()


def words_of(cell: object, *, is_list: bool) -> tuple[str, ...]:
    """The words in a cell of text, which may hold several."""
    if not is_list:
        return (str(cell),)
    return tuple(dict.fromkeys(word.strip() for word in str(cell).split(BETWEEN) if word.strip()))


def read_features(path: Path, role: str) -> FeatureColumns:
    """Read the features of users or items; `role` is "user" or "item"."""
    ending = ending_of(path, FEATURES_TEXT, ARROW, "features")
    if ending in ARROW:
        pa = need("pyarrow", f"reading {path}")
        with readable(path, "", pa.ArrowException, OSError):
            table = _arrow_module(path).read_table(path)
        columns = [_plain(_decoded(column, pa), pa) for column in table.columns]
        rows = [list(row) for row in zip(*columns, strict=True)]
        return _columns(path, table.column_names, rows, role, dialect=None)
    sample = _sample(path, How())
    dialect, header = sample.dialect, sample.names
    lines = data_rows(path, dialect, most=None)
    if dialect.delimiter == ":" and COLONS in _first_line(path):
        lines = _split_at_colons(path, dialect)
        header = next(lines)[1] if dialect.has_header else None
    rows = []
    for line, fields in lines:
        width = len(header or (rows or [fields])[0])
        if len(fields) != width:
            raise ValueError(
                f"{path}, line {line} has {len(fields)} fields, but other lines have {width}: "
                "correct it."
            )
        rows.append([None if dialect.is_missing(field) else field for field in fields])
    names = None if header is None else [_bare(name) for name in header]
    # RecBole writes the type of a column after its name.
    kinds = [name.partition(":")[2].strip() for name in header or ()]
    return _columns(path, names, rows, role, kinds=kinds, dialect=dialect)


# --- rows --------------------------------------------------------------------------------------


def _split_at_colons(path: Path, dialect: Dialect) -> Iterator[tuple[int, list[str]]]:
    """Lines split at ::, because titles may contain single colons."""
    with open_text(path, dialect.encoding) as text:
        for line, content in enumerate(text, 1):
            if line > dialect.n_skipped and content.strip():
                yield line, content.rstrip("\r\n").split(COLONS)


def _plain(column: Arrow, pa: Arrow) -> list[Any]:
    """Cells of a column: numbers, lists, or text."""
    kind = column.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if column_kind(kind, pa.types) in ("whole", "number") or is_list:
        return list(column.to_pylist())
    return [None if cell is None else str(cell) for cell in column.to_pylist()]


# --- columns -----------------------------------------------------------------------------------


def _columns(
    path: Path,
    names: Sequence[str] | None,
    rows: list[list[Any]],
    role: str,
    *,
    kinds: Sequence[str] = (),
    dialect: Dialect | None,
) -> FeatureColumns:
    if not rows:
        raise ValueError(f"{path} holds no rows.")
    # Ids are in the first column named like an id of the role, else like the role, else the first.
    like = [j for j, name in enumerate(names or ()) if _has(name, role, at_start=True)]
    ids_like = [j for j in like if (names or ())[j].strip().lower().endswith("id")]
    place = next(iter(ids_like + like), 0)
    called = [str(j) for j in range(len(rows[0]))] if names is None else list(names)
    ids = _ids(path, [row[place] for row in rows], called[place], role)
    columns: dict[str, Numbers | Words] = {}
    notes = []
    for j, name in enumerate(called):
        if j == place:
            continue
        cells = [row[j] for row in rows]
        is_sequence = j < len(kinds) and kinds[j] == SEQUENCE
        found, note = _column(cells, role, is_sequence=is_sequence, dialect=dialect)
        if found is not None:
            columns[name] = found
        if note:
            notes.append(f"{path.name}: the column {name!r} {note}.")
    if not columns:
        raise ValueError(
            f"{path} has no column that describes a {role}: beside ids, columns of numbers, or of "
            "words that several of them share, are needed."
        )
    return FeatureColumns(ids, columns, called[place], tuple(notes))


def _ids(path: Path, cells: list[Any], name: str, role: str) -> NDArray[Any]:
    """Ids as whole numbers if all are, else as text; an error if one is repeated or missing."""
    if None in cells:
        raise ValueError(
            f"{path}, row {cells.index(None) + 1} below the header, column {name!r} has no id of "
            f"a {role}: fill it in, or leave the line out."
        )
    texts = [str(cell).strip() for cell in cells]
    is_whole = all(WHOLE.fullmatch(text) for text in texts)
    seen: set[str] = set()
    for text in texts:
        if text in seen:
            raise ValueError(
                f"{path} has more than one row for the {role} {text!r}: keep one of them."
            )
        seen.add(text)
    return np.array(
        [int(text) for text in texts] if is_whole else texts,
        dtype=object if not is_whole else np.int64,
    )


def _column(
    cells: list[Any], role: str, *, is_sequence: bool, dialect: Dialect | None
) -> tuple[Numbers | Words | None, str]:
    """Numbers or words, or None for a column to leave out; and a note on it, or ""."""
    known = [cell for cell in cells if cell is not None]
    if not known:
        return None, "was left out: it is empty"
    if not is_sequence and all(_as_number(cell, dialect) is not None for cell in known):
        return _filled(cells, dialect)
    words = _words(cells, is_sequence)
    different = {word for row in words for word in row}
    if len(cells) >= FEW and len(different) > NAMES * len(cells):
        count = f"{len(different):,} different words"
        return None, f"was left out: with {count} it names {role}s rather than describing them"
    return words, ""


def _filled(cells: list[Any], dialect: Dialect | None) -> tuple[Numbers, str]:
    """Numbers with their mean in place of missing ones, and a note on these."""
    values = np.array([np.nan if (x := _as_number(c, dialect)) is None else x for c in cells])
    holes = np.isnan(values)
    if not holes.any():
        return values, ""
    values[holes] = values[~holes].mean()
    return values, f"has no number in {int(holes.sum()):,} rows, which got the mean of the others"


def _as_number(cell: Any, dialect: Dialect | None) -> float | None:
    if isinstance(cell, str):
        if dialect is None or not dialect.is_number(cell):
            return None
        found = dialect.number(cell)
    elif cell is None or isinstance(cell, list):
        return None
    else:
        found = float(cell)
    return found if np.isfinite(found) else None


def _words(cells: list[Any], is_sequence: bool) -> Words:
    is_list = any(isinstance(cell, str) and BETWEEN in cell for cell in cells)
    found: Words = []
    for cell in cells:
        if cell is None:
            found.append(())
        elif isinstance(cell, list):
            found.append(tuple(dict.fromkeys(str(word) for word in cell if word is not None)))
        elif is_sequence:
            found.append(tuple(dict.fromkeys(cell.split())))
        else:
            found.append(words_of(cell, is_list=is_list))
    return found
