"""The closed form of data whose mean was removed before an engine saw them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from bayespca.spectrum.records import Solution, Spectrum, n_with_room

from .data import Solve


@dataclass(frozen=True)
class InRounds:
    """A closed form for data whose mean, if `less`, was removed before an engine saw them.

    It keeps the last answer, and does not compute free energies of other ranks.
    """

    solve: Solve
    less: bool

    def plan(self, spectrum: Spectrum, *, other_ranks: bool = True) -> Solution:
        """The solution, for an engine."""
        return self.of(spectrum)[1]

    @cached_property
    def of(self) -> Callable[[Spectrum], tuple[Spectrum, Solution]]:
        """A function that returns the spectrum, with one row less if `less`, and its solution."""

        @lru_cache(maxsize=1)
        def of(spectrum: Spectrum) -> tuple[Spectrum, Solution]:
            own = one_row_less(spectrum) if self.less else spectrum
            return own, self.solve(own, other_ranks=False)

        return of


def one_row_less(spectrum: Spectrum) -> Spectrum:
    """The spectrum of rows of which one follows from the others.

    The last values of an unfinished search are too small. They may leave room for the rest of the
    squares with one more row, but not without it: such values are dropped.
    """
    L, M = spectrum.shape
    if M <= 1:
        return spectrum
    n_values = int(min(L, M - 1))
    values = spectrum.singular_values[:n_values]
    values = values[: n_with_room(values**2, spectrum.sum_of_squares, n_values)]
    return Spectrum(
        values, (L, M - 1), spectrum.sum_of_squares, spectrum.scale, spectrum.resolution
    )
