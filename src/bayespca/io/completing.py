"""A table with its holes filled, and every other cell exactly as it was.

Numbers that go through float64 come back changed where they have more digits than that, are whole
numbers beyond 2⁵³, or true and false.
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
    """Write `values`, which differ from the table that was read from `source` in its holes.

    From text to text, only fields of holes are written anew; otherwise columns without holes stay
    what they are.
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
    """As `write_filled`, for columns of any kind by name, in the types that they have; columns
    that are not named had no holes.
    """
    if known_ending(source) not in TEXT or not is_text(out):
        write_table(out, _completed(table, columns, need("pyarrow", f"writing {out}")))
        return
    sample, layout = recognised(source, how)
    every = ((j, layout.name(j)) for j in range(layout.n_columns))
    _write_text(out, source, sample, {j: columns[name] for j, name in every if name in columns})


def _write_text(
    out: Path, source: Path, sample: TextSample, columns: Mapping[int, Sequence[Any]]
) -> None:
    """The rows of a text table with values from columns, by place, where fields are missing."""
    with replacing_path(out) as temporary, writing_text(temporary) as text:
        writer = csv.writer(text, delimiter=_delimiter(out, sample.dialect), lineterminator="\n")
        if sample.names is not None:
            header = sample.names[1:] if sample.dialect.has_short_header else sample.names
            writer.writerow(header)
        writer.writerows(_filled_rows(source, sample, columns))


# --- types -------------------------------------------------------------------------------------


def _completed(table: Table, columns: Mapping[str, Sequence[Any]], pa: Arrow) -> Table:
    """The table with these columns in the place of its own, in the types of these."""
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
    """A column in the type that the file has; text has none, and values keep their own."""
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
    """That of the file that was read, unless the ending says another."""
    if is_tabbed(out):
        return "\t"
    return dialect.delimiter if dialect.delimiter in ",;|" else ","


def _filled_rows(
    source: Path, sample: TextSample, columns: Mapping[int, Sequence[Any]]
) -> Iterator[list[str]]:
    """The fields of each row, with values in the place of those that are missing."""
    dialect = sample.dialect
    forms = {j: _Forms.of(sample, j) for j in columns}
    rows = data_rows(source, dialect, most=None)
    for i, (_, fields) in enumerate(rows):
        for j, values in columns.items():
            if _is_hole(fields[j], values[i], dialect):
                fields[j] = forms[j].written(values[i])
        yield fields


def _is_hole(field: str, value: Any, dialect: Dialect) -> bool:
    """Whether a field has no value; "none" may be one among texts."""
    if isinstance(value, str):
        return field.strip().lower() in dialect.no_level
    return dialect.is_missing(field)


@dataclass(frozen=True)
class _Forms:
    """How a column of a text table writes its values: the decimal sign of numbers, whether whole
    ones have one, and its words for true and false.
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
        """A word for true or false as the column has it, or as it would have it."""
        if word in self.words:
            return self.words[word]
        other = next(iter(self.words.values()), "")
        change = str.upper if other.isupper() else str.title if other.istitle() else str
        return change(word)
