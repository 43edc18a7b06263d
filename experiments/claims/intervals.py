"""How often 95 % intervals hold the truth: every standard deviation that the package returns.

    python -m experiments.claims.intervals [MODEL …]

prints the tables in Markdown.
"""

from __future__ import annotations

import sys
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np
from scipy.stats import t as student

from ..comparing import NOTHING, Comparison, claim
from ..records import Outcome, Run, Table
from .simulated import PARTS, Errors, Study, studies

SETS, QUICK_SETS = 20, 2
NORMAL = 1.959964
# The margin of a share: it is exceeded by chance in 1 of 100 cases.
CHANCE = 0.01
# How far a share may be outside the range: sampling.
ALLOWED = 0.01

Found = dict[str, list[np.ndarray]]


def reproduce(run: Run) -> Outcome:
    n_sets = QUICK_SETS if run.quick else SETS
    found = {study: drawn(study, n_sets) for study in run.each(_chosen(quick=run.quick))}
    return Outcome(
        tuple(_lines(found, *run.printed["held"], quick=run.quick)),
        setting=f"{n_sets} data sets of each kind, up to 18 times as many of small tables, fewer "
        "of models that take long; noise of variance 1, means of the columns unknown.",
        seed="from 0 on",
        tables=tuple(tables(found)),
        remarks=(run.printed["words"],),
    )


def _chosen(*, quick: bool) -> list[Study]:
    """In the quick run the first of each model."""
    first = {study.model: study for study in reversed(studies())}
    return list(first.values()) if quick else studies()


def drawn(study: Study, n_sets: int) -> Found:
    """Errors of each part, an array for each data set in which there are any."""
    found: Found = defaultdict(list)
    for seed in range(max(int(study.share * n_sets), 2)):
        errors: Errors = study.errors(seed)
        for part, values in errors.items():
            if values.size:
                found[part].append(values)
    return dict(found)


def coverage(errors: list[np.ndarray]) -> tuple[float, float]:
    """Share of the errors within 1.96 standard deviations, and what sampling may change in it.

    Errors of one data set go together: the margin is that of a mean over data sets.
    """
    inside = np.array([np.count_nonzero(np.abs(one) <= NORMAL) for one in errors])
    sizes = np.array([one.size for one in errors])
    share, n = inside.sum() / sizes.sum(), sizes.size
    if n == 1:
        return share, 1.0
    error = np.sqrt(((inside - share * sizes) ** 2).sum() * n / (n - 1)) / sizes.sum()
    return share, float(error * student.ppf(1 - CHANCE / 2, n - 1))


def _lines(
    found: dict[Study, Found], low: float, high: float, *, quick: bool
) -> Iterator[Comparison]:
    """A line for each standard deviation of each model: the least and the largest share.

    Few data sets tell nothing: in the quick run all of them hold.
    """
    shares: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for study, parts in found.items():
        for part, errors in parts.items():
            shares[f"{study.model}: {part}"].append(coverage(errors))
    for what, pairs in shares.items():
        first, last = min(pairs)[0], max(pairs)[0]
        holds = quick or low - ALLOWED <= first <= last <= high + ALLOWED
        yield claim(what, f"{low:.0%} to {high:.0%}", f"{first:.1%} to {last:.1%}", holds=holds)


def tables(found: dict[Study, Found]) -> Iterator[Table]:
    """One for each model, with a column for each of its standard deviations."""
    for model in dict.fromkeys(study.model for study in found):
        of_model = {study: parts for study, parts in found.items() if study.model == model}
        names = {name: None for parts in of_model.values() for name in parts}
        order = [name for name in PARTS if name in names]
        order += [name for name in names if name not in PARTS]
        rows = tuple(
            (study.data, *(_share(parts.get(name, [])) for name in order))
            for study, parts in of_model.items()
        )
        yield Table(f"{model}: share of the truth in 95 % intervals.", ("data", *order), rows)


def _share(errors: list[np.ndarray]) -> str:
    return f"{100 * coverage(errors)[0]:.1f}" if errors else NOTHING


def _printed(names: Iterable[str]) -> None:
    warnings.simplefilter("ignore")
    chosen = [study for study in studies() if not names or study.model in names]
    for table in tables({study: drawn(study, SETS) for study in chosen}):
        print(f"\n{table.caption}\n")
        print("| " + " | ".join(table.header) + " |")
        print("|---" * len(table.header) + "|")
        for row in table.rows:
            print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    _printed(sys.argv[1:])
