"""A table with its holes filled, and every other cell exactly as it was.

Conversion to float64 would change numbers with more digits, whole numbers beyond 2⁵³, and truth
values.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .dialect import Dialect, TextSample, writing_text
from .endings import TEXT, known_ending
from .packages import need
from .records import Arrow, Floats, How, Table
from .tables import is_tabbed, is_text, write_table
from .text_files import data_rows, recognised
from .writing import replacing_path


def write_filled(out: Path, table: Table, values: Floats, source: Path, how: How) -> None:
    """Write `values`, which differ from the table read from `source` only in its holes.

    From text to text, only the fields of holes change; otherwise columns without holes stay
    unchanged.
    """
    if table.upright is not None:
        table, values = table.upright, values.T
    if known_ending(source) not in TEXT or not is_text(out):
        write_table(out, replace(table, values=values))
        return
    sample, layout = recognised(source, how)
    places = [j for j in layout.features if layout.name(j) not in table.aside]
    columns = {j: column.tolist() for j, column in zip(places, values.T, strict=True)}
    _write_text(out, source, sample, columns)


def write_completed(
    out: Path, table: Table, columns: Mapping[str, Sequence[Any]], source: Path, how: How
) -> None:
    """Like `write_filled`, for columns of any type, given by name; other columns had no holes."""
    if known_ending(source) not in TEXT or not is_text(out):
        write_table(out, _completed(table, columns, need("pyarrow", f"writing {out}")))
        return
    sample, layout = recognised(source, how)
    every = ((j, layout.name(j)) for j in range(layout.n_columns))
    _write_text(out, source, sample, {j: columns[name] for j, name in every if name in columns})


def _write_text(
    out: Path, source: Path, sample: TextSample, columns: Mapping[int, Sequence[Any]]
) -> None:
    """Write the rows of a text table with missing fields filled from `columns`, by position."""
    with replacing_path(out) as temporary, writing_text(temporary) as text:
        writer = csv.writer(text, delimiter=_delimiter(out, sample.dialect), lineterminator="\n")
        if sample.names is not None:
            header = sample.names[1:] if sample.dialect.has_short_header else sample.names
            writer.writerow(header)
        writer.writerows(_filled_rows(source, sample, columns))


# --- types -------------------------------------------------------------------------------------


def _completed(table: Table, columns: Mapping[str, Sequence[Any]], pa: Arrow) -> Table:
    """The table with these columns replaced, in the types that the table has."""
    values = np.array(table.values)
    for j, name in enumerate(table.features):
        if name in columns:
            values[:, j] = columns[name]
    others = {
        name: np.array(columns.get(name, other.tolist()), dtype=object)
        for name, other in table.others.items()
    }
    kept = {name: _typed(table, name, some, pa) for name, some in columns.items()}
    return replace(table, values=values, others=others, kept=table.kept | kept)


def _typed(table: Table, name: str, values: Sequence[Any], pa: Arrow) -> Arrow:
    """A column in the type of the file; for text files, which have no types, in its own."""
    kind = table.types.get(name)
    if kind is None or table.is_of_text:
        return pa.array(values)
    if not pa.types.is_dictionary(kind):
        return pa.array(values, kind)
    if name not in table.levels:
        return pa.array(values).dictionary_encode().cast(kind)
    levels = table.levels[name]
    codes = pa.array([levels.index(value) for value in values], kind.index_type)
    return pa.DictionaryArray.from_arrays(codes, pa.array(levels), ordered=True)


def _delimiter(out: Path, dialect: Dialect) -> str:
    """A tab if the ending says so, else the delimiter of the file that was read, or a comma."""
    if is_tabbed(out):
        return "\t"
    return dialect.delimiter if dialect.delimiter in ",;|" else ","


def _filled_rows(
    source: Path, sample: TextSample, columns: Mapping[int, Sequence[Any]]
) -> Iterator[list[str]]:
    """The fields of each row, with missing ones replaced by values."""
    dialect = sample.dialect
    forms = {j: _Forms.of(sample, j) for j in columns}
    rows = data_rows(source, dialect, most=None)
    for i, (_, fields) in enumerate(rows):
        for j, values in columns.items():
            if _is_hole(fields[j], values[i], dialect):
                fields[j] = forms[j].written(values[i])
        yield fields


def _is_hole(field: str, value: Any, dialect: Dialect) -> bool:
    """Whether a field has no value; among texts, "none" may be a value."""
    if isinstance(value, str):
        return field.strip().lower() in dialect.no_level
    return dialect.is_missing(field)


@dataclass(frozen=True)
class _Forms:
    """Notation of a column of a text table: the decimal sign, whether numbers have decimals, and
    the words for true and false.
    """

    decimal: str
    has_decimals: bool
    words: Mapping[str, str]

    @classmethod
    def of(cls, sample: TextSample, j: int) -> _Forms:
        fields, decimal = [field.strip() for field in sample.column(j)], sample.dialect.decimal
        words = {field.lower(): field for field in fields}
        return cls(decimal, any(decimal in field for field in fields), words)

    def written(self, value: Any) -> str:
        if isinstance(value, bool):
            return self._flag("true" if value else "false")
        if isinstance(value, int) and self.has_decimals:
            value = float(value)
        return value if isinstance(value, str) else repr(value).replace(".", self.decimal)

    def _flag(self, word: str) -> str:
        """The column's word for true or false; if it has none, one in the case of its others."""
        if word in self.words:
            return self.words[word]
        other = next(iter(self.words.values()), "")
        change = str.upper if other.isupper() else str.title if other.istitle() else str
        return change(word)
