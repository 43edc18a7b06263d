"""A table with its holes filled, and every other cell exactly as it was.

Numbers that go through float64 come back changed where they have more digits than that, are whole
numbers beyond 2⁵³, or true and false.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from .dialect import Dialect, writing_text
from .endings import TEXT, known_ending
from .records import Floats, How, Table
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
    with replacing_path(out) as temporary, writing_text(temporary) as text:
        writer = csv.writer(text, delimiter=_delimiter(out, sample.dialect), lineterminator="\n")
        if sample.names is not None:
            header = sample.names[1:] if sample.dialect.has_short_header else sample.names
            writer.writerow(header)
        writer.writerows(_filled_rows(source, sample.dialect, places, values))


def _delimiter(out: Path, dialect: Dialect) -> str:
    """That of the file that was read, unless the ending says another."""
    if is_tabbed(out):
        return "\t"
    return dialect.delimiter if dialect.delimiter in ",;|" else ","


def _filled_rows(
    source: Path, dialect: Dialect, places: list[int], values: Floats
) -> Iterator[list[str]]:
    """The fields of each row, with numbers in the place of those that are missing."""
    rows = data_rows(source, dialect, most=None)
    for (_, fields), numbers in zip(rows, values.tolist(), strict=True):
        for j, number in zip(places, numbers, strict=True):
            if dialect.is_missing(fields[j]):
                fields[j] = repr(number).replace(".", dialect.decimal)
        yield fields
