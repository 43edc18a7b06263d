"""Tables with columns of all kinds: the choice of columns, their kinds, and the data frame."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bayespca.arrays.namespaces import is_sparse
from bayespca.estimators._columns import MOST_LEVELS
from bayespca.estimators.generalized_pca import GeneralizedPCA
from bayespca.estimators.wording import KINDS
from bayespca.io.dialect import LEVELS, bare
from bayespca.io.files import open_files
from bayespca.io.layout import MOSTLY, listed
from bayespca.io.records import How, Table

from .inputs import Input, frame_for, frame_of, names_of, texts_of
from .options import ColumnKinds
from .progress import sweeps

# Reasons to set a column aside. All columns of text have the first, but may be categories.
TEXT, DATED = "text", "dates"
MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
TIME = r"(?:[T ,]+\d{1,2}:\d{2}.*)?"
DATES = re.compile(
    rf"(?:\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}|\d{{1,2}}[-/.]\d{{1,2}}[-/.](?:\d{{4}}|\d{{2}})"
    rf"|\d{{1,2}}\.?[ -]{MONTH}[ ,-]+\d{{2,4}}|{MONTH} \d{{1,2}},? \d{{4}}){TIME}"
    r"|\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?",
    re.IGNORECASE,
)
# Most columns of a kind that notes name.
NAMED = 4


@dataclass(frozen=True)
class MixedInput(Input):
    """A file whose columns of all kinds are analysed; `frame` is the input of the model.

    That is a data frame, or the table itself if it is sparse. `likelihood` is the option of
    `GeneralizedPCA`, None for a saved model. `is_chosen` says whether the user gave an option for
    columns.
    """

    frame: Any
    likelihood: Any = None
    is_chosen: bool = False

    def fit(self, work: Callable[..., object], tol: float) -> None:
        with sweeps("fitting", tol) as callback:
            work(self.frame, callback=callback)

    def notes_on(self, model: GeneralizedPCA) -> list[str]:
        """Notes on the kind of each column, and on columns that may be meant otherwise."""
        if self.likelihood is None:
            return self.notes
        kinds: dict[str, list[str]] = {}
        for name, likelihood in model.likelihoods_.items():
            kinds.setdefault(KINDS[likelihood].many, []).append(name)
        took = ", ".join(f"{kind} ({listed(names, NAMED)})" for kind, names in kinds.items())
        has_numbers = self.table is not None and self.table.shape[1] > 0
        other = "; --numbers-only analyses the numbers alone"
        other = other if has_numbers and not self.is_chosen else ""
        sentence = f"Columns were read as {took}: --likelihood COLUMN=KIND changes that{other}."
        notes = [sentence, *_alike(self.frame), *self.notes]
        if dates := [name for name, why in self.aside.items() if why == DATED]:
            notes.append(
                f"To analyse {listed(dates, NAMED)}, turn dates into numbers, such as days since "
                "one of them, or into categories, such as the month."
            )
        return notes


@dataclass(frozen=True)
class Choice:
    """Options that decide whether a table is analysed as numbers or with columns of all kinds.

    `instead` are the given options that only a PCA of numbers has; `labels` are columns
    that are no features.
    """

    columns: ColumnKinds
    n_components: Any = "auto"
    seed: int = 0
    instead: tuple[str, ...] = ()
    labels: Sequence[str] = ()

    def how(self, how: How) -> How:
        """Options for reading the file, with columns of text if these may be analysed."""
        return replace(how, texts=not (self.columns.numbers_only or self.instead))

    def model(self, given: MixedInput) -> GeneralizedPCA:
        return GeneralizedPCA(
            self.n_components,
            likelihood=given.likelihood,
            row_sizes=self.columns.row_sizes,
            random_state=self.seed,
        )

    def hints(self, given: Input) -> list[str]:
        """A sentence if options exclude columns that could be analysed."""
        if self.columns.numbers_only or not self.instead or given.table is None:
            return []
        found = _mixed(given, given.table, self.columns, self.labels)
        names = [] if found is None else [n for n in found.frame.columns if n in given.table.others]
        if not names:
            return []
        option = self.instead[0]
        return [f"Without {option}, {listed(names, NAMED)} would be analysed as well."]

    def read(self, given: Input, how: How) -> MixedInput | None:
        """The table with columns of all kinds; None if it is analysed as numbers."""
        columns, table = self.columns, given.table
        if columns.named() and (table is None or self.instead):
            what = self.instead[0] if self.instead else "data that are not in memory"
            raise ValueError(f"{columns.named()[0]} cannot be used with {what}: leave one out.")
        found = None
        if table is not None and not (columns.numbers_only or self.instead):
            found = _mixed(given, table, columns, self.labels)
        if found is None and table is not None and not table.shape[1]:
            # This raises an error about the missing numbers.
            open_files(given.file.path, how)
        return found


def _mixed(
    given: Input, table: Table, columns: ColumnKinds, labels: Sequence[str]
) -> MixedInput | None:
    """The table with columns of all kinds if it has texts or truth values, or if options say so."""
    is_chosen = bool(columns.named())
    if table.upright is not None and not is_chosen:
        return None
    asked = columns.by_column() | dict.fromkeys(columns.orders(), "ordinal")
    aside = set_aside(table, set(labels), asked)
    names = [name for name in names_of(table) if name not in aside]
    kinds = {str(table.types.get(name)) for name in names}
    has_others = any(name in table.others for name in names) or "bool" in kinds
    if not (is_chosen or (has_others and len(names) > 1)):
        return None
    _check_asked(table, names, columns)
    orders = {k: v for k, v in (table.levels | columns.orders()).items() if k in names}
    by_column = dict.fromkeys(orders, "ordinal") | columns.by_column()
    likelihood = columns.for_all() or by_column or "auto"
    frame = table if is_sparse(table.values) else frame_of(table, names, orders)
    return MixedInput(given.file, replace(table, aside=aside), frame, likelihood, is_chosen)


def of_saved(model: GeneralizedPCA, given: Input) -> Input:
    """The input with the columns of a saved model that uses columns of text."""
    table = given.table
    if table is None or not hasattr(model, "feature_names_in_"):
        return given
    frame, known = frame_for(model, table), set(model.feature_names_in_)
    strange = [name for name in table.features if name not in known]
    aside = {name: why for name, why in table.aside.items() if name not in known}
    aside |= dict.fromkeys(strange, "not in the model")
    return MixedInput(given.file, replace(table, aside=aside), frame)


# --- which columns take part -------------------------------------------------------------------


def set_aside(table: Table, labels: set[str], asked: Mapping[str, str]) -> dict[str, str]:
    """Columns that are not features, with the reasons; columns in `asked` stay features."""
    aside = dict(table.aside)
    for name in table.others:
        if table.aside.get(name) == TEXT or (name in asked and table.aside.get(name) != "dropped"):
            why = None if name in asked else _unfit(texts_of(table, name))
            aside[name] = why or ""
    aside = {name: why for name, why in aside.items() if why}
    features = set(table.features) | set(table.others)
    return aside | {name: "label" for name in labels & features if name not in asked}


def _unfit(texts: Iterable[str | None]) -> str | None:
    """The reason why texts are not categories; None if they are."""
    levels = Counter(text for text in texts if text is not None)
    n, k = levels.total(), len(levels)
    if not n:
        return "empty"
    if _mostly(levels, lambda text: DATES.fullmatch(text) is not None):
        return DATED
    if _mostly(levels, _is_signed_number):
        return "numbers with signs"
    if k == 1:
        return f"one level, {next(iter(levels))!r}"
    return f"{k} different texts" if k > MOST_LEVELS or k > max(2, n / 2) else None


def _mostly(levels: Counter[str], test: Callable[[str], bool]) -> bool:
    return sum(count for text, count in levels.items() if test(text)) > MOSTLY * levels.total()


def _is_signed_number(text: str) -> bool:
    """Whether a text would be a number without signs and separators."""
    return any(_is_number(bare(text, decimal).replace(decimal, ".")) for decimal in ".,")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _check_asked(table: Table, names: list[str], columns: ColumnKinds) -> None:
    """Raise for named columns that do not exist, and for invalid orders of levels."""
    orders = columns.orders()
    for name in [*columns.by_column(), *orders]:
        if name not in names:
            option = "--order" if name in orders else "--likelihood"
            raise ValueError(
                f"{option} names the column {name!r}, which is not among those that are analysed: "
                f"{listed(names)}."
            )
    for name, order in orders.items():
        if name not in table.others:
            raise ValueError(
                f"--order is for columns of text, and {name!r} holds numbers, which have an order: "
                f"use --likelihood {name}=ordinal."
            )
        if odd := [text for text in texts_of(table, name) if text and text not in order]:
            raise ValueError(
                f"column {name!r} holds {odd[0]!r}, which --order does not name among its levels: "
                "add it, or correct the cell."
            )
    for name, kind in columns.by_column().items():
        levels = {text for text in texts_of(table, name) if text} if name in table.others else ()
        if kind == "ordinal" and len(levels) > 2 and name not in {*orders, *table.levels}:
            shown = ",".join(sorted(levels)[:3])
            raise ValueError(
                f"the levels of column {name!r} are texts without an order: give it from the "
                f"lowest to the highest, as in --order {name}={shown}."
            )


def _alike(frame: Any) -> Iterator[str]:
    """Sentences on levels that differ only in case, and on levels such as "none"."""
    for series in () if isinstance(frame, Table) else frame:
        if str(series.dtype) not in ("String", "Enum"):
            continue
        forms: dict[str, set[str]] = {}
        for text in series.drop_nulls().unique().to_list():
            forms.setdefault(text.lower(), set()).add(text)
        for same in (sorted(found) for found in forms.values() if len(found) > 1):
            yield (
                f"{' and '.join(map(repr, same))} in column {series.name!r} count as different "
                "levels: write them in one way if they are the same."
            )
        for text in (text for text in series.unique().to_list() if text and text.lower() in LEVELS):
            yield f"{text!r} in column {series.name!r} is a level: --na {text} makes it a hole."
