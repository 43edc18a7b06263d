"""Section 5 over many data sets: how often the dimensionality of the generator is found."""

from __future__ import annotations

from collections import Counter

from bayespca import BayesianPCA

from ..comparing import claim, percent, shown
from ..drawing import COLOURS, panels
from ..records import Outcome, Run
from .example import SETTING, points, variational

DATA_SETS, QUICK_DATA_SETS = 300, 10


def reproduce(run: Run) -> Outcome:
    n = QUICK_DATA_SETS if run.quick else DATA_SETS
    found = Counter(variational(points(seed)).n_components_ for seed in run.each(range(n), 0.45))
    as_they_are = Counter(
        variational(points(seed, turned=False)).n_components_ for seed in run.each(range(n), 0.45)
    )
    plain = BayesianPCA(n_components="evb", noise="isotropic")
    closed = Counter(plain.fit(points(seed)).n_components_ for seed in run.each(range(n), 0.1))
    true = run.printed["dimensionality"]
    return Outcome(
        (
            claim(
                "dimensionality",
                run.printed["discovered"],
                f"{true} in {found[true]} of {n} data sets ({percent(found[true], n)})",
                holds=found[true] >= 0.95 * n,
            ),
            claim(
                "directions along the axes",
                run.printed["discovered"],
                f"{true} in {as_they_are[true]} of {n} ({percent(as_they_are[true], n)})",
                holds=as_they_are[true] >= 0.95 * n,
            ),
            shown("the closed form of BayesianPCA", f"{true} in {closed[true]} of {n}"),
        ),
        setting=f"{SETTING} {n} data sets.",
        seed=f"0 to {n - 1}",
        figures={"Columns that are not suppressed, over data sets.": _figure(found)},
    )


def _figure(found: Counter[int]):
    figure, (ax,) = panels(1)
    ax.bar(range(10), [found[k] for k in range(10)], color=COLOURS["vb"])
    ax.set(xlabel="columns that are not suppressed", ylabel="data sets", xticks=range(10))
    return figure
