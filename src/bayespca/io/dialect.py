"""How a text table is written: found out from its first lines, each finding overridable."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

from .endings import COMPRESSED
from .numerals import bare
from .packages import need

# What people write for "no value", in any case and with spaces around it.
MISSING = (
    *("", "NA", "N/A", "#N/A", "n.a.", "NaN", "-nan", "NULL", "None", "nil", "missing"),
    *("?", "-", "--", ".", "*", "<NA>", "#NUM!", "#DIV/0!", "#VALUE!", "#REF!"),
)
# Those that may be levels in a column of text, unless the user says that they are not.
LEVELS = {"none", "nil"}
SAMPLE_BYTES, SAMPLE_ROWS = 2**18, 500
# Lines that are looked at however long they are, if the first is no longer than the second number.
SAMPLE_LINES, LONGEST_LINE = 8, 2**24
BYTE_ORDER_MARKS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
DELIMITERS = ",;\t|"
# Numbers that may be names if they are in order, and so many that they can hardly be by chance:
# those that count the columns, and others.
FEWEST_IN_ORDER, MANY_THAT_COUNT, MANY_IN_ORDER = 3, 4, 8
CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f]")
ID_NAMES = re.compile(
    r"#?|(.*[ _.-])?(id|ids|name|names|label|labels|key|uuid|nr\.?|no\.?)|index|idx|unnamed: ?0"
    r"|rows?|row\.?names?|samples?|subjects?|genes?|probes?|accession|barcodes?|cells?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Dialect:
    """How a text table is written.

    `n_skipped` lines come before the table (comments that start with #). `has_short_header` is
    R's way: the header has no name for the column of row names. `named_missing` are the texts for
    no value that the user has named, which are among `missing`.
    """

    delimiter: str
    decimal: str
    encoding: str
    has_header: bool
    has_short_header: bool
    n_skipped: int
    missing: tuple[str, ...]
    has_quotes: bool
    units: bool = False
    named_missing: tuple[str, ...] = ()

    def markers(self) -> list[str]:
        """Every way in which a missing value may be written."""
        changes = (str, str.lower, str.upper, str.title)
        cases = {change(text) for text in self.missing for change in changes}
        spaces = ("", " ")
        return sorted({f"{one}{form}{two}" for form in cases for one in spaces for two in spaces})

    def is_missing(self, field: str) -> bool:
        return field.strip().lower() in self._missing_forms

    @cached_property
    def _missing_forms(self) -> frozenset[str]:
        return frozenset(text.strip().lower() for text in self.missing)

    @property
    def no_level(self) -> frozenset[str]:
        """Texts that stand for no value in a column of text, where "none" may be a level."""
        return self._missing_forms - LEVELS | {text.strip().lower() for text in self.named_missing}

    def is_number(self, field: str) -> bool:
        text = self._plain(field)
        if "_" in text:  # Python reads 1_000, files do not mean that
            return False
        try:
            float(text)
        except ValueError:
            return False
        return True

    def number(self, field: str) -> float:
        """The number in a field; NaN where there is none."""
        if not self.is_number(field):
            return math.nan
        return float(self._plain(field))

    def _plain(self, field: str) -> str:
        """A field as Python writes numbers, if it holds one."""
        text = bare(field, self.decimal) if self.units else field
        text = text.strip()
        return text.replace(",", ".") if self.decimal == "," else text

    def rows(self, text: io.TextIOBase) -> Iterator[tuple[int, list[str]]]:
        """Line number, counting from 1, and fields of each line that is not empty."""
        for _ in range(self.n_skipped):
            text.readline()
        reader = csv.reader(text, delimiter=self.delimiter)
        while True:
            line = self.n_skipped + reader.line_num + 1
            try:
                fields = next(reader, None)
            except csv.Error:  # a field longer than the module allows, a NUL
                return
            if fields is None:
                return
            if fields:
                yield line, fields


@dataclass(frozen=True)
class TextSample:
    """The first rows of a text table: names or None, and fields by row."""

    dialect: Dialect
    names: list[str] | None
    rows: list[list[str]]

    @property
    def n_columns(self) -> int:
        if self.names is not None:
            return len(self.names)
        return len(self.rows[0]) if self.rows else 0

    def column(self, j: int) -> list[str]:
        """The fields of a column that are not missing."""
        fields = [row[j] for row in self.rows if j < len(row)]
        return [field for field in fields if not self.dialect.is_missing(field)]


def recognise(
    path: Path,
    *,
    delimiter: str | None = None,
    decimal: str | None = None,
    header: bool | None = None,
    missing: Sequence[str] | None = None,
    units: bool = False,
) -> TextSample:
    """Look at the first lines of a text table; what is given is not guessed."""
    head, is_whole = _head(path)
    encoding = _encoding(head)
    text = _decoded(head, encoding, is_whole, path)
    n_skipped = _comment_lines(text)
    lines = text.splitlines(keepends=True)[n_skipped:]
    body = "".join(lines)
    if not body.strip():
        raise ValueError(f"{path} holds no rows.")
    delimiter = delimiter or _delimiter(path, lines)
    draft = Dialect(
        delimiter=delimiter,
        decimal=decimal or ".",
        encoding=encoding,
        has_header=bool(header),
        has_short_header=False,
        n_skipped=n_skipped,
        missing=(*MISSING, *(missing or ())),
        has_quotes='"' in text,
        units=units,
        named_missing=tuple(missing or ()),
    )
    reader = csv.reader(io.StringIO(body), delimiter=delimiter)
    rows = _first_rows(reader, is_whole)
    plain = [[bare(field, ",") for field in row] for row in rows] if units else rows
    if decimal is None and delimiter != "," and _has_decimal_commas(plain):
        draft = replace(draft, decimal=",")
    if header is None:
        draft = replace(draft, has_header=_has_header(rows, draft))
    if not draft.has_header:
        return TextSample(draft, None, rows)
    names, rows = [name.strip() for name in rows[0]], rows[1:]
    if rows and len(rows[0]) == len(names) + 1:
        return TextSample(replace(draft, has_short_header=True), ["", *names], rows)
    return TextSample(draft, names, rows)


def open_text(path: Path, encoding: str) -> io.TextIOWrapper:
    """A text file, decompressed where the ending says so."""
    return io.TextIOWrapper(_open_bytes(path), encoding=encoding, errors="replace", newline="")


def writing_text(path: Path) -> io.TextIOWrapper:
    """A text file to write, compressed where the ending says so."""
    stream: Any = path.open("wb")
    if path.suffix.lower() in COMPRESSED:
        stream.close()
        stream = need("pyarrow", f"writing {path}").output_stream(str(path))
    return io.TextIOWrapper(stream, encoding="utf-8", newline="")


# --- the beginning of the file -----------------------------------------------------------------


def _open_bytes(path: Path) -> BinaryIO:
    if path.suffix.lower() in COMPRESSED:
        return need("pyarrow", f"reading {path}").input_stream(str(path))
    return path.open("rb")


def _head(path: Path) -> tuple[bytes, bool]:
    """The first lines, some of them whole, and whether that is all of the file."""
    parts, n_lines, size = [], 0, 0
    try:
        with _open_bytes(path) as file:
            while more := file.read(SAMPLE_BYTES):
                parts.append(more)
                n_lines, size = n_lines + more.count(b"\n"), size + len(more)
                if n_lines > SAMPLE_LINES or (n_lines > 1 and size > SAMPLE_LINES * LONGEST_LINE):
                    return b"".join(parts), False
                if not n_lines and size > LONGEST_LINE:
                    raise ValueError(_endless(path))
    except (OSError, EOFError) as error:
        raise ValueError(f"{path} cannot be read as text: {error}") from error
    return b"".join(parts), True


def _endless(path: Path) -> str:
    return (
        f"the first line of {path} is longer than {LONGEST_LINE // 2**20} MB, which no table has: "
        "write one line for each sample, or save the numbers as .npy."
    )


def _encoding(head: bytes) -> str:
    for mark, encoding in BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return encoding
    try:
        # The last character may be cut in two.
        head[: -4 or None].decode("utf-8")
    except UnicodeDecodeError as error:
        return "utf-8" if error.start >= len(head) - 8 else "latin-1"
    return "utf-8"


def _decoded(head: bytes, encoding: str, is_whole: bool, path: Path) -> str:
    # The last character may be cut in two where the file goes on.
    cut = "strict" if is_whole and encoding == "utf-16" else "ignore"
    try:
        text = head.decode(encoding, errors="replace" if encoding == "utf-8" else cut)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} cannot be read as text: {error}") from error
    if CONTROL.search(text):
        raise ValueError(f"{path} cannot be read as text: it holds bytes that are not characters.")
    return text if is_whole else text[: text.rfind("\n") + 1] or text


def _comment_lines(text: str) -> int:
    """Lines at the beginning that start with # and are not a header."""
    lines = text.splitlines()
    count = 0
    while count < len(lines) and lines[count].startswith("#"):
        count += 1
    # One line that splits like the first row below it is a header that starts with #.
    if count == 1 and len(lines) > 1:
        best = max(DELIMITERS, key=lines[1].count)
        if lines[1].count(best) and lines[0].count(best) == lines[1].count(best):
            return 0
    return count


def _first_rows(reader: Iterator[list[str]], is_whole: bool) -> list[list[str]]:
    rows: list[list[str]] = []
    try:
        for row in reader:
            if row:
                rows.append(row)
            if len(rows) > SAMPLE_ROWS:
                break
    except csv.Error:
        pass  # what was read so far will do; the reader proper will say what is wrong
    if not is_whole and 1 < len(rows) <= SAMPLE_ROWS:
        rows.pop()  # perhaps cut short
    return rows or [[]]


# --- guesses -----------------------------------------------------------------------------------


def _delimiter(path: Path, lines: list[str]) -> str:
    """A tab where the ending says so, else the usual one that splits most lines alike.

    Spaces separate columns in .txt files alone: elsewhere they are parts of names.
    """
    endings = {suffix.lower() for suffix in path.suffixes}
    if {".tsv", ".tab"} & endings:
        return "\t"
    bare = [re.sub(r'"[^"]*"', "", line) for line in lines[:50] if line.strip()]

    def agreement(delimiter: str) -> tuple[float, int]:
        counts = [line.count(delimiter) for line in bare]
        usual = max(set(counts), key=counts.count)
        # Decimal commas occur in most fields, but not equally often in all lines.
        return (counts.count(usual) / len(counts) if usual else 0.0), usual

    best = max(DELIMITERS, key=agreement)
    if not any(best in line for line in bare):
        best = max(DELIMITERS, key=lambda d: sum(line.count(d) for line in bare))
    is_spaced = ".txt" in endings and not any(best in line for line in bare)
    return " " if is_spaced else best


def _has_decimal_commas(rows: list[list[str]]) -> bool:
    """Whether fields like 1,5 occur, and none like 1.5.

    Not in a single column, which comes from a file that is split at the wrong character.
    """
    if max(len(row) for row in rows) < 2:
        return False
    fields = [field.strip() for row in rows for field in row]
    commas = sum(bool(re.fullmatch(r"[-+]?\d*,\d+([eE][-+]?\d+)?", field)) for field in fields)
    points = sum(bool(re.fullmatch(r"[-+]?\d*\.\d+([eE][-+]?\d+)?", field)) for field in fields)
    return commas > points


def _has_header(rows: list[list[str]], dialect: Dialect) -> bool:
    """Whether the first row names columns: it has text where the rows below have numbers.

    A first row without any number is a header too, whatever is below it.
    """
    first, body = rows[0], rows[1:]
    shift = 1 if body and len(body[0]) == len(first) + 1 else 0
    has_number = any(dialect.is_number(field) for field in first)
    for j, name in enumerate(first):
        below = [row[j + shift] for row in body if j + shift < len(row)]
        below = [field for field in below if not dialect.is_missing(field)]
        numbers = sum(dialect.is_number(field) for field in below)
        is_text = not dialect.is_number(name) and not dialect.is_missing(name)
        if is_text and below and numbers > len(below) / 2:
            return True
    if not has_number:
        return any(not dialect.is_missing(field) for field in first)
    if len({field.strip() for field in first}) < len(first):
        return False
    # Years and other numbers as names, beside the name of an id column.
    is_named = bool(first[0].strip()) and is_id_name(first[0])
    return is_named or _are_numbers_as_names(first, body, dialect)


def _are_numbers_as_names(first: list[str], body: list[list[str]], dialect: Dialect) -> bool:
    """Whether a first row of different numbers names columns: positions, years, wavelengths.

    They go up, or down, all along the row, and most rows below do not. Few of them may do so by
    chance, unless they count the columns, or are other numbers than those below.
    """
    rest = first[1:] if not dialect.is_number(first[0]) else first
    names = [dialect.number(field) for field in rest]
    below = [[dialect.number(field) for field in row[-len(rest) :]] for row in body]
    below = [row for row in below if len(row) == len(names)]
    if len(names) < FEWEST_IN_ORDER or not _are_in_order(names) or not below:
        return False
    if sum(_are_in_order(row) for row in below) > len(below) / 2:
        return False
    count = names[-1] - names[0] == len(names) - 1 and names[0] in (0, 1)
    is_unnamed = not first[0].strip() and any(row[0].strip() for row in body)
    many = MANY_THAT_COUNT if count else MANY_IN_ORDER
    return is_unnamed or len(names) >= many or _are_unlike(names, below)


def _are_in_order(numbers: list[float]) -> bool:
    """Whether numbers rise all along, or fall; NaN do neither."""
    return all(a < b for a, b in pairwise(numbers)) or all(a > b for a, b in pairwise(numbers))


def _are_unlike(names: list[float], below: list[list[float]]) -> bool:
    """Whether most names are whole numbers above fractions, or far from the numbers below them."""
    columns = [[x for x in column if not math.isnan(x)] for column in zip(*below, strict=True)]
    odd = [_is_unlike(name, column) for name, column in zip(names, columns, strict=True)]
    return sum(odd) > len(odd) / 2


def _is_unlike(name: float, column: list[float]) -> bool:
    if len(column) < 2:
        return False
    low, high = min(column), max(column)
    is_far = not 2 * low - high <= name <= 2 * high - low
    return is_far or (name.is_integer() and not any(x.is_integer() for x in column))


def is_id_name(name: str) -> bool:
    """Whether a column of this name, if it comes first, most likely names the rows."""
    return ID_NAMES.fullmatch(name.strip()) is not None
