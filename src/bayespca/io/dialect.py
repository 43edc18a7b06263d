"""The dialect of a text table, guessed from its first lines; callers can override each guess."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

from .packages import need
from .records import COMPRESSED, How

# Texts for "no value", in any case and with spaces around them.
MISSING = (
    *("", "NA", "N/A", "#N/A", "n.a.", "NaN", "-nan", "NULL", "None", "nil", "missing"),
    *("?", "-", "--", ".", "*", "<NA>", "#NUM!", "#DIV/0!", "#VALUE!", "#REF!"),
)
# Those that may be levels in a column of text, unless the user names them as missing.
LEVELS = {"none", "nil"}
SAMPLE_BYTES, SAMPLE_ROWS = 2**18, 500
# Lines to sample even if they exceed SAMPLE_BYTES, and the longest first line accepted.
SAMPLE_LINES, LONGEST_LINE = 8, 2**24
BYTE_ORDER_MARKS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
DELIMITERS = ",;\t|"
# Fewest ordered numbers that may be names, and how many are hardly in order by chance: for numbers
# that count the columns, and for others.
FEWEST_IN_ORDER, MANY_THAT_COUNT, MANY_IN_ORDER = 3, 4, 8
CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f]")
CURRENCIES = r"[$€£¥₹]|EUR|USD|GBP|CHF|JPY|INR"
# An optional sign, the number, a currency on either side, and percent at the end.
SIGNED = re.compile(rf"([-+−]?)\s*(?:{CURRENCIES})?\s*([-+−]?[\d.,].*?)\s*(?:{CURRENCIES}|[%‰])?")
ID_NAMES = re.compile(
    r"#?|(.*[ _.-])?(id|ids|name|names|label|labels|key|uuid|nr\.?|no\.?)|index|idx|unnamed: ?0"
    r"|rows?|row\.?names?|samples?|subjects?|genes?|probes?|accession|barcodes?|cells?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Dialect:
    """The notation of a text table.

    `n_skipped` lines come before the table (comments that start with #). `has_short_header` is
    R's convention: the header has no name for the column of row names. `named_missing` are the
    texts in `missing` that the user has named.
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
        """All texts for missing values, in the usual cases and with spaces."""
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
        if "_" in text:  # Python accepts 1_000; in files it is not a number
            return False
        try:
            float(text)
        except ValueError:
            return False
        return True

    def number(self, field: str) -> float:
        """The number in a field; NaN if there is none."""
        if not self.is_number(field):
            return math.nan
        return float(self._plain(field))

    def _plain(self, field: str) -> str:
        """A field in Python's notation of numbers, if it holds one."""
        text = bare(field, self.decimal) if self.units else field
        text = text.strip()
        return text.replace(",", ".") if self.decimal == "," else text

    def rows(self, text: io.TextIOBase) -> Iterator[tuple[int, list[str]]]:
        """Line number, from 1, and fields of each line that is not empty."""
        for _ in range(self.n_skipped):
            text.readline()
        reader = csv.reader(text, delimiter=self.delimiter)
        while True:
            line = self.n_skipped + reader.line_num + 1
            try:
                fields = next(reader, None)
            except csv.Error:  # an overlong field, or a NUL
                return
            if fields is None:
                return
            if fields:
                yield line, fields


@dataclass(frozen=True)
class TextSample:
    """The first rows of a text table: column names or None, and the fields of each row."""

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


def recognise(path: Path, how: How) -> TextSample:
    """Guess the dialect of a text table from its first lines, except for what is given."""
    head, is_whole = _head(path)
    encoding = _encoding(head)
    text = _decoded(head, encoding, is_whole, path)
    n_skipped = _comment_lines(text)
    lines = text.splitlines(keepends=True)[n_skipped:]
    body = "".join(lines)
    if not body.strip():
        raise ValueError(f"{path} holds no rows.")
    delimiter = how.delimiter or _delimiter(path, lines)
    draft = Dialect(
        delimiter=delimiter,
        decimal=how.decimal or ".",
        encoding=encoding,
        has_header=bool(how.header),
        has_short_header=False,
        n_skipped=n_skipped,
        missing=(*MISSING, *(how.missing or ())),
        has_quotes='"' in text,
        units=how.units,
        named_missing=tuple(how.missing or ()),
    )
    reader = csv.reader(io.StringIO(body), delimiter=delimiter)
    rows = _first_rows(reader, is_whole)
    plain = [[bare(field, ",") for field in row] for row in rows] if how.units else rows
    if how.decimal is None and delimiter != "," and _has_decimal_commas(plain):
        draft = replace(draft, decimal=",")
    if how.header is None:
        draft = replace(draft, has_header=_has_header(rows, draft))
    if not draft.has_header:
        return TextSample(draft, None, rows)
    names, rows = [name.strip() for name in rows[0]], rows[1:]
    if rows and len(rows[0]) == len(names) + 1:
        return TextSample(replace(draft, has_short_header=True), ["", *names], rows)
    return TextSample(draft, names, rows)


def open_text(path: Path, encoding: str) -> io.TextIOWrapper:
    """Open a text file to read, decompressed if the ending says so."""
    return io.TextIOWrapper(_open_bytes(path), encoding=encoding, errors="replace", newline="")


def writing_text(path: Path) -> io.TextIOWrapper:
    """Open a text file to write, compressed if the ending says so."""
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
    """The beginning of the file, with several whole lines, and whether it is the whole file."""
    parts, n_lines, size = [], 0, 0
    try:
        with _open_bytes(path) as file:
            while more := file.read(SAMPLE_BYTES):
                parts.append(more)
                n_lines, size = n_lines + more.count(b"\n"), size + len(more)
                if n_lines > SAMPLE_LINES or (n_lines > 1 and size > SAMPLE_LINES * LONGEST_LINE):
                    return b"".join(parts), False
                if not n_lines and size > LONGEST_LINE:
                    raise ValueError(
                        f"the first line of {path} is longer than {LONGEST_LINE // 2**20} MB, "
                        "which no table has: write one line for each sample, or save the numbers "
                        "as .npy."
                    )
    except (OSError, EOFError) as error:
        raise ValueError(f"{path} cannot be read as text: {error}") from error
    return b"".join(parts), True


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
    # If the file goes on, the last character may be cut in two.
    cut = "strict" if is_whole and encoding == "utf-16" else "ignore"
    try:
        text = head.decode(encoding, errors="replace" if encoding == "utf-8" else cut)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} cannot be read as text: {error}") from error
    if CONTROL.search(text):
        raise ValueError(f"{path} cannot be read as text: it holds bytes that are not characters.")
    return text if is_whole else text[: text.rfind("\n") + 1] or text


def _comment_lines(text: str) -> int:
    """Number of lines at the beginning that start with # and are not a header."""
    lines = text.splitlines()
    count = 0
    while count < len(lines) and lines[count].startswith("#"):
        count += 1
    # A single line that splits like the row below it is a header that starts with #.
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
        pass  # these rows are enough; reading the whole file reports the error
    if not is_whole and 1 < len(rows) <= SAMPLE_ROWS:
        rows.pop()  # it may be cut short
    return rows or [[]]


# --- guesses -----------------------------------------------------------------------------------


def _delimiter(path: Path, lines: list[str]) -> str:
    """A tab if the ending says so, else the usual delimiter that splits most lines alike.

    Spaces separate columns in .txt files only; elsewhere they are parts of names.
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
    """Whether fields like 1,5 are more frequent than fields like 1.5.

    False for a single column, which means that lines were split at the wrong character.
    """
    if max(len(row) for row in rows) < 2:
        return False
    fields = [field.strip() for row in rows for field in row]
    commas = sum(bool(re.fullmatch(r"[-+]?\d*,\d+([eE][-+]?\d+)?", field)) for field in fields)
    points = sum(bool(re.fullmatch(r"[-+]?\d*\.\d+([eE][-+]?\d+)?", field)) for field in fields)
    return commas > points


def _has_header(rows: list[list[str]], dialect: Dialect) -> bool:
    """Whether the first row names columns: it has text where the rows below have numbers.

    A first row without any number is always a header.
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
    # Names may be years or other numbers if the first one is that of an id column.
    is_named = bool(first[0].strip()) and is_id_name(first[0])
    return is_named or _are_numbers_as_names(first, body, dialect)


def _are_numbers_as_names(first: list[str], body: list[list[str]], dialect: Dialect) -> bool:
    """Whether a first row of distinct numbers names columns: positions, years, wavelengths.

    They must rise or fall along the whole row, unlike most rows below. Few numbers may do so by
    chance, so they must also be many, or unlike the numbers below, or stand next to an unnamed
    first column.
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
    """Whether all numbers rise, or all fall; NaN do neither."""
    return all(a < b for a, b in pairwise(numbers)) or all(a > b for a, b in pairwise(numbers))


def _are_unlike(names: list[float], below: list[list[float]]) -> bool:
    """Whether most names are whole numbers above fractions, or far from the numbers below them."""
    columns = [[x for x in column if not math.isnan(x)] for column in zip(*below, strict=True)]
    odd = 0
    for name, column in zip(names, columns, strict=True):
        if len(column) >= 2:
            low, high = min(column), max(column)
            is_far = not 2 * low - high <= name <= 2 * high - low
            odd += is_far or (name.is_integer() and not any(x.is_integer() for x in column))
    return odd > len(names) / 2


def is_id_name(name: str) -> bool:
    """Whether a first column of this name most likely names the rows."""
    return ID_NAMES.fullmatch(name.strip()) is not None


# --- numbers as people write them: 1,234.5, 12 %, $3.20, 3,20 € --------------------------------


def bare(field: str, decimal: str) -> str:
    """The digits of a number, without thousands separators, percent and currency signs.

    Percentages are not divided by 100. A field that is not such a number is returned unchanged.
    """
    found = SIGNED.fullmatch(field.strip())
    if found is None:
        return field
    number = (found[1] + found[2]).replace("−", "-")
    end = _whole(number, decimal)
    return re.sub(r"[,.'’\s]", "", number[:end]) + number[end:]


def _whole(number: str, decimal: str) -> int:
    """End of the digits in groups of three; 0 if there are none."""
    found = _grouped(decimal).fullmatch(number)
    return found.end(1) if found else 0


@cache
def _grouped(decimal: str) -> re.Pattern[str]:
    """Pattern of digits in groups of three, with the same separator between all of them."""
    separators = r"['’\s]|" + (r"\." if decimal == "," else ",")
    return re.compile(
        rf"([-+]?\d{{1,3}}(?:(?P<by>{separators})\d{{3}})(?:(?P=by)\d{{3}})*)"
        rf"(?:{re.escape(decimal)}\d*)?"
    )
