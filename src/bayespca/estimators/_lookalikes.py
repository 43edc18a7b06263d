"""How often rules for the number of components are right on tables like the data: the record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayespca.arrays.types import Numbers, Vector

from .wording import percent

# The rules that a sentence compares, as in `RankReport.ranks`.
DEFAULT, RIVAL = "kept by default", "parallel analysis"


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
