"""The number of components that is announced for real tables, and when one of their cells is lost.

Nobody knows the true numbers. What is announced should be probable, or go without a percentage; and
a number that changes with one cell should not have been announced as nearly certain.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import numpy as np

from bayespca import BayesianPCA
from bayespca.estimators.summary import summarize

from ..comparing import NOTHING, Comparison, claim
from ..data import SHIPPED, Data, Missing
from ..noise.unfoldings import unfolded
from ..records import Run, Table

TABLES = (
    *SHIPPED,
    *("tobamovirus", "glass", "oilflow", "metabolite", "chart", "segment", "satellite", "letter"),
    *("optdigits", "freyfaces"),
)
TENSORS = {"amino": 3, "kinetic_fluorescence": 4}
QUICK_TABLES = ("iris", "diabetes", "linnerud")
# Tables of which single cells are removed have at most so many cells. Fits of larger ones take
# seconds each, so fewer are removed.
MOST_CELLS, FEW_CELLS = 20_000, 5_000
REMOVED, REMOVED_OF_LARGER, QUICK_REMOVED = 20, 5, 1
# A number announced with less may change.
SURE = 0.9
SETTING = (
    f"Real tables as they are; {REMOVED} times one random cell of those with up to {MOST_CELLS:,} "
    f"cells is removed, {REMOVED_OF_LARGER} times with more than {FEW_CELLS:,}."
)


@dataclass(frozen=True)
class Announcement:
    """What the default says of a table, and EVB's number.

    Without probabilities, `at_least`, `exactly` and `most_probable` are None.
    """

    name: str
    shape: tuple[int, int]
    kept: int
    at_least: float | None
    exactly: float | None
    most_probable: int | None
    words: str
    noise: str
    seconds: float
    evb: int

    @classmethod
    def of(cls, name: str, X: np.ndarray) -> Announcement:
        begin = perf_counter()
        model = BayesianPCA().fit(X)
        seconds = perf_counter() - begin
        said = summarize(model)
        return cls(
            *(name, X.shape, said.rank, said.at_least, said.exactly, said.most_probable),
            *(said.how_sure, model.noise_, seconds),
            evb=said.rank if said.exactly is None else evb(X),
        )

    @property
    def probability(self) -> float | None:
        """Number named by a sentence: that of the number, or of the range that is named instead."""
        found = re.search(r"probability of (?:over |under )?([0-9.]+) %", self.words)
        return None if found is None else float(found[1]) / 100

    @property
    def sure(self) -> bool:
        return self.exactly is not None and self.exactly >= SURE


@dataclass(frozen=True)
class Stability:
    """The first announcement, and the numbers when one cell is missing."""

    first: Announcement
    numbers: tuple[int, ...]

    @property
    def same(self) -> int:
        return self.numbers.count(self.first.kept)


def evb(X: np.ndarray) -> int:
    """EVB's number, which is also the default's where there is no probability."""
    return BayesianPCA(n_components="evb").fit(X).n_components_


# --- data --------------------------------------------------------------------------------------


def all_tables(data: Data, *, quick: bool, reasons: set[str]) -> Iterator[tuple[str, np.ndarray]]:
    """Tables and unfoldings that are there; reasons why others are not are added."""
    makers = {name: partial(data.table, name) for name in (QUICK_TABLES if quick else TABLES)}
    for name, n_modes in {} if quick else TENSORS.items():
        for mode in range(n_modes):
            makers[f"{name}, mode {mode + 1}"] = partial(_unfolding, data, name, mode)
    for name, make in makers.items():
        try:
            yield name, make()
        except Missing as reason:
            reasons.add(str(reason))


def _unfolding(data: Data, name: str, mode: int) -> np.ndarray:
    return unfolded(data.tensor(name), mode)


# --- results -----------------------------------------------------------------------------------


def results(
    run: Run, share: float, reasons: set[str]
) -> tuple[list[Announcement], list[Stability]]:
    """What is announced for each table, and the numbers of the smaller ones with one cell less."""
    said, changed = [], []
    todo = list(all_tables(run.data, quick=run.quick, reasons=reasons))
    for name, X in run.each(todo, share):
        said.append(Announcement.of(name, X))
        if X.size <= MOST_CELLS:
            n = REMOVED if X.size <= FEW_CELLS else REMOVED_OF_LARGER
            changed.append(Stability(said[-1], without_cells(X, QUICK_REMOVED if run.quick else n)))
    return said, changed


def without_cells(X: np.ndarray, n: int) -> tuple[int, ...]:
    """The default's number with one random cell less, for as many cells."""
    seen = np.argwhere(~np.isnan(X))
    numbers = []
    for i, j in np.random.default_rng(0).choice(seen, n, replace=False):
        less = X.copy()
        less[i, j] = np.nan
        numbers.append(BayesianPCA().fit(less).n_components_)
    return tuple(numbers)


# --- the page ----------------------------------------------------------------------------------


def lines(
    run: Run, said: Sequence[Announcement], changed: Sequence[Stability]
) -> Iterator[Comparison]:
    least = run.printed["least"]
    improbable = [one.name for one in said if (one.probability or 1.0) < least]
    yield claim(
        "real tables whose number is announced with less than one half",
        "none",
        ", ".join(improbable) or "none",
        holds=not improbable,
    )
    surprising = [
        one.first.name for one in changed if one.first.sure and one.same < len(one.numbers)
    ]
    yield claim(
        f"real tables whose number changes with one cell, although announced with {SURE:.0%}",
        "none",
        ", ".join(surprising) or "none",
        holds=not surprising,
    )


def tables(said: Sequence[Announcement], changed: Sequence[Stability]) -> tuple[Table, ...]:
    return (
        Table(
            "Real tables: what is announced.",
            ("table", "rows × columns", "kept", "EVB", "announced", "noise", "seconds"),
            tuple(
                (
                    *(one.name, f"{one.shape[0]}×{one.shape[1]:,}", str(one.kept), str(one.evb)),
                    *(one.words, one.noise, f"{one.seconds:.1f}"),
                )
                for one in said
            ),
        ),
        Table(
            "Real tables with one random cell less: how often the number stays. It may change "
            f"where nothing is announced, or the number kept with less than {SURE:.0%}.",
            ("table", "kept", "P(= kept)", "may change", "stays", "numbers"),
            tuple(_stays(one) for one in changed),
        ),
    )


def _stays(one: Stability) -> tuple[str, ...]:
    first, counts = one.first, sorted(Counter(one.numbers).items())
    return (
        *(first.name, str(first.kept)),
        NOTHING if first.exactly is None else f"{first.exactly:.2f}",
        "no" if first.sure else "yes",
        f"{one.same} of {len(one.numbers)}",
        ", ".join(f"{number} ({count})" for number, count in counts),
    )
