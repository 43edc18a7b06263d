"""Tables drawn like the data, and how often rules find their number of components."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayespca import inference
from bayespca.arrays.namespaces import on_host
from bayespca.arrays.types import FloatArray, Numbers, Vector
from bayespca.lowrank.combined import inside
from bayespca.lowrank.filtering import innovations
from bayespca.lowrank.noise_models import NOISES, PER_FEATURE
from bayespca.lowrank.records import PCAFit
from bayespca.noise.asked import Asked
from bayespca.noise.complete import Complete
from bayespca.noise.lookalikes import likeness
from bayespca.sources.data import Data
from bayespca.spectrum.forms import ClosedForm

from . import _input
from ._redundant import means_of_rows
from .wording import percent

# The rules that a sentence compares, as in `RankReport.ranks`.
DEFAULT, RIVAL = "kept by default", "parallel analysis"
# Numbers of components that are drawn: those with at least this probability, and at most so many.
PLAUSIBLE, MOST = 0.05, 5
# Fewest tables of each number, if there are enough; and fewest rows.
FEWEST, FEWEST_ROWS = 5, 4


@dataclass(frozen=True, eq=False)
class Lookalikes:
    """How often each rule found the number of components of tables like the data; prints as a
    table.

    Tables are drawn from fits with each plausible number of components. `truth` is the number of
    components of each that can be recovered, `weights` its probability, and `found` maps each rule
    to the numbers that it found.
    """

    truth: Numbers
    weights: Vector
    found: dict[str, Numbers]

    @property
    def right(self) -> dict[str, float]:
        """Share of the tables in which each rule was right, weighted by their probabilities."""
        hits = {name: numbers == self.truth for name, numbers in self.found.items()}
        return {name: float(np.average(hit, weights=self.weights)) for name, hit in hits.items()}

    def right_by_number(self, name: str = DEFAULT) -> dict[int, float]:
        """Share of the tables with each number of components in which a rule found it."""
        found = self.found[name]
        return {k: float((found[self.truth == k] == k).mean()) for k in self.n_tables}

    @property
    def n_tables(self) -> dict[int, int]:
        """How many tables have each number of components."""
        numbers, counts = np.unique(self.truth, return_counts=True)
        return dict(zip(numbers.tolist(), counts.tolist(), strict=True))

    @property
    def in_words(self) -> str:
        """How often the default is right, and parallel analysis."""
        right = self.right
        others = f", {RIVAL} in {percent(right[RIVAL])}" if RIVAL in right else ""
        return f"On tables like this one the default is right in {percent(right[DEFAULT])}{others}."

    @property
    def numbers_in_words(self) -> str:
        """How often the default found each number."""
        shares, tables = self.right_by_number(), self.n_tables
        each = [f"{k} in {percent(shares[k])} of {tables[k]}" for k in tables]
        return f"Of {self.truth.size} drawn tables, the default found {', '.join(each)}."

    def as_dict(self) -> dict[str, Any]:
        """The shares as plain Python values, which JSON can hold."""
        by_number = {name: self.right_by_number(name) for name in self.found}
        return {"n_tables": self.n_tables, "right": self.right, "right_by_number": by_number}

    def __str__(self) -> str:
        numbers = self.n_tables
        head = "".join(f"{k:>9d}" for k in numbers)
        lines = [f"{'right on tables with so many:':28s}{'all':>9s}{head}"]
        for name, share in self.right.items():
            each = [share, *self.right_by_number(name).values()]
            lines.append(f"{name:28s}" + "".join(f"{percent(one):>9s}" for one in each))
        tables = "".join(f"{count:9d}" for count in (self.truth.size, *numbers.values()))
        return "\n".join([self.in_words, *lines, f"{'tables':28s}{tables}"])


def of_fit(
    fit: PCAFit,
    data: Data,
    ranks: Callable[[FloatArray], Mapping[str, int]],
    asked: Asked,
    *,
    n_tables: int,
    rng: np.random.Generator,
) -> Lookalikes:
    """Draw tables like the data of a fit, and count with all the rules of `ranks`.

    Noise of single cells is replaced by noise of columns, and rows in a series by what is new in
    each.
    """
    _, X = inside(fit.posterior, np.asarray(on_host(data.values), dtype=np.float64))
    X = means_of_rows(X, fit.first_rows) if fit.first_rows.size else X
    X = innovations(X, fit.noise.series)
    noise = PER_FEATURE if NOISES[fit.noise.name].cells else NOISES[fit.noise.name]
    again = Complete(X, ClosedForm(), inference.Looping(), asked)
    first = again.fit(noise)
    if not first.noise_variance:
        raise ValueError("the data have no noise: every table like them is a rotation of them.")
    plausible = _plausible(fit)
    sizes = _sizes(np.array(list(plausible.values())), n_tables)
    truth, weights, found = [], [], []
    for (k, probability), size in zip(plausible.items(), sizes.tolist(), strict=True):
        like = likeness(X, again.with_rank(first, k), center=asked.center)
        for _ in range(size):
            strengths = like.likely_strengths(rng)
            truth.append(like.number(strengths))
            weights.append(probability / size)
            table = like.table(strengths, rng)
            if combined := fit.posterior.combined:
                table = combined.completed(table, offset=True)
            if (rows := fit.first_rows).size:
                table = table[np.searchsorted(np.unique(rows), rows)]
            found.append(ranks(table))
    columns = {name: np.array([each[name] for each in found]) for name in found[0]}
    return Lookalikes(np.array(truth), np.array(weights), columns)


def _plausible(fit: PCAFit) -> dict[int, float]:
    """The numbers of components to draw tables with, and their probabilities, which sum to 1.

    Without probabilities, these are the number that was kept and its neighbours.
    """
    known, k, most = fit.rank_posterior, fit.n_components, fit.spectrum.full_rank - 1
    if not known.size:
        numbers = [h for h in (k - 1, k, k + 1) if 0 <= h <= most] or [k]
        return dict.fromkeys(numbers, 1 / len(numbers))
    probable = np.argsort(-known[: most + 1])[:MOST].tolist()
    likely = sorted(h for h in probable if known[h] >= PLAUSIBLE) or [k]
    return {h: float(known[h] / known[likely].sum()) for h in likely}


def _sizes(shares: FloatArray, total: int) -> Numbers:
    """How many of all tables each number gets: a few for each, the rest in proportion."""
    least = min(FEWEST, total // shares.size)
    rest = np.rint(np.cumsum(shares) * (total - least * shares.size))
    return least + np.diff(rest, prepend=0).astype(int)


def check_lookalikes(data: Data, n_tables: int) -> None:
    """Raise ValueError unless tables like the data can be drawn, `n_tables` of them."""
    if n_tables < 1:
        raise ValueError(f"lookalikes must be at least 1, or 0 for none, got {n_tables!r}.")
    _input.check_resampled(
        data,
        "look-alikes",
        "look-alikes are drawn from complete data. Fill the holes with BayesianPCAImputer first, "
        "or leave out the look-alikes.",
    )
    if data.values.shape[0] < FEWEST_ROWS:
        raise ValueError(f"{data.values.shape[0]} rows are too few to draw tables like them.")
