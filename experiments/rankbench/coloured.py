"""Noise that is not white: alike along rows, unequal in cells, alike both ways.

Donoho, Gavish and Romanov, "ScreeNOT" (Annals of Statistics 51, 2023); Landa and Kluger, "The Dyson
equalizer" (2023); Su and Wu, "Data-driven optimal shrinkage of singular values under
high-dimensional noise with separable covariance structure" (2022).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import mean

import numpy as np

from ..comparing import Comparison, claim
from ..records import Outcome, Run
from . import designs
from .rules import Found, found, table

RHO = 0.4
TEN, FORTY = 1 + 0.15 * np.arange(10), 1 + 0.04 * np.arange(40)


@dataclass(frozen=True)
class Case:
    """A design, the number of its data sets, and what is printed of it: the squared error of the
    low-rank part or of a cell of it ("loss", "error"), how often the number is right ("right").
    """

    name: str
    draw: Callable[[np.random.Generator], designs.Drawn]
    sets: int
    printed: tuple[str, ...]

    def found(self, seed: int) -> Found:
        drawn = self.draw(np.random.default_rng((seed, len(self.name))))
        return found(drawn.X, drawn.rank, seed, drawn.signal)


def cases(*, quick: bool) -> Iterator[Case]:
    """The quick run has fewer rows; errors of cells are printed of the full size."""
    n, large, sets = (200, 400, 1) if quick else (1000, 1000, 2)
    for name, values in (("10 values", TEN), ("40 values", FORTY)):
        along = partial(designs.alike_along_rows, values=values, n=n, rho=RHO)
        yield Case(f"alike along rows, {name}", along, sets, ("loss",))
    for name, draw in (("unequal cells", designs.unequal_cells), ("bad lines", designs.bad_lines)):
        printed = ("right",) if quick else ("right", "error")
        yield Case(name, partial(draw, n=large, p=2 * large), sets, printed)
    for n in (200,) if quick else (200, 400):
        both = partial(designs.alike_both_ways, n=n)
        yield Case(f"alike both ways, n = {n}", both, 1 if quick else 5, ("right",))


def reproduce(run: Run) -> Outcome:
    todo = list(cases(quick=run.quick))
    results = {
        case: [case.found(seed) for seed in run.each(range(case.sets))] for case in run.each(todo)
    }
    return Outcome(
        tuple(line for case, some in results.items() for line in _lines(run, case, some)),
        setting="; ".join(f"{case.name}: {case.sets} data sets" for case in todo) + ".",
        seed="from 0 on",
        tables=(table({case.name: some for case, some in results.items()}),),
        remarks=(run.printed["words"],),
    )


def _lines(run: Run, case: Case, some: list[Found]) -> Iterator[Comparison]:
    if "right" in case.printed:
        least, right = run.printed["right"][case.name], [one.right() for one in some]
        yield claim(
            f"{case.name}: right",
            f"at least {least['to_reach']:.0%} (printed: {least['printed']})",
            f"{sum(right)} of {len(right)}",
            holds=mean(right) >= least["to_reach"],
        )
    for name, words, digits in (("loss", "squared error", 1), ("error", "error of a cell", 4)):
        if name in case.printed:
            most, error = run.printed[name][case.name], mean(getattr(one, name) for one in some)
            texts = f"at most {most:.{digits}f}", f"{error:.{digits}f}"
            yield claim(f"{case.name}: {words}", *texts, holds=error <= most)
