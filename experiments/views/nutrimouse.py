"""Genes and lipids of 40 mice: factors of genotype and of diet, in which of the two tables.

Half of the mice lack the receptor PPARα, and each has one of five diets (Martin et al. 2007).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayespca import MultiViewPCA
from bayespca.displays import ViewsDisplay

from ..comparing import claim, shown
from ..data import Data, FloatArray
from ..drawing import panels
from ..records import Outcome, Run, Table
from .tables import HALF, Tables, numbers, rows, words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Parts in which mice are left out, and the share of cells that is hidden.
PARTS, QUICK_PARTS, HIDDEN = 8, 2, 0.1
# Factors from this share of either table on are in the table of results.
LARGE = 0.02
COLOURS = ("#1f5fa8", "#c8681c", "#2e8b57", "#8a4fa3", "#6b7280")
MARKERS = {"wt": "o", "ppar": "^"}


def read(data: Data) -> tuple[dict[str, FloatArray], NDArray[np.str_], NDArray[np.str_]]:
    """Genes and lipids, genotypes, diets."""
    views = {name: numbers(data, f"nutrimouse/{name[:-1]}.csv") for name in ("genes", "lipids")}
    return views, *(words(data, f"nutrimouse/{name}.csv") for name in ("genotype", "diet"))


def reproduce(run: Run) -> Outcome:
    views, genotype, diet = read(run.data)
    model = MultiViewPCA().fit(views)
    T = model.transform(views)
    by_genotype, by_diet = (
        np.array([between(T[:, h], kind) for h in range(T.shape[1])]) for kind in (genotype, diet)
    )
    left = left_out(views, run.each(range(QUICK_PARTS if run.quick else PARTS)))
    held = hidden(views)
    g, d = int(by_genotype.argmax()), int(by_diet.argmax())
    active, explained = model.active_, model.explained_variance_ratio_
    return Outcome(
        (
            claim(
                "a factor that is mostly genotype, in both tables",
                run.printed["genotype"],
                f"{by_genotype[g]:.0%} of its variance, in {_where(active[g])}",
                holds=bool(by_genotype[g] > 0.5 and active[g].all()),
            ),
            claim(
                "a factor that is mostly diet, in lipids",
                run.printed["diet"],
                f"{by_diet[d]:.0%} of its variance, in {_where(active[d])}",
                holds=bool(by_diet[d] > 0.5 and active[d, 1]),
            ),
            claim(
                "error of lipids of new mice from their genes, over that of means",
                run.printed["lipids"],
                f"{left['lipids']:.2f}",
                holds=left["lipids"] < 1,
            ),
            shown("the same of genes from lipids", f"{left['genes']:.2f}"),
            claim(
                "95 % intervals of hidden cells hold, of genes and of lipids",
                run.printed["intervals"],
                " and ".join(f"{share:.0%}" for share in held.values()),
                holds=all(0.92 <= share <= 0.98 for share in held.values()),
            ),
        ),
        setting=f"40 mice, 120 genes and 21 lipids; nothing chosen; {model.n_components_} factors.",
        seed="0, for hidden cells and mice left out",
        figures={
            "Left: share of the variance of each table that each factor explains. Right: mice "
            "along the factor of genotype and that of diet; colours are diets, triangles lack the "
            "receptor.": _figure(model, T[:, [g, d]], genotype, diet),
        },
        tables=(
            Table(
                f"Factors with {LARGE:.0%} of a table or more: shares of the tables, and how much "
                "of the factor's variance lies between genotypes and between diets.",
                ("factor", "genes", "lipids", "genotype", "diet"),
                tuple(
                    (
                        str(h + 1),
                        *(f"{share:.1%}" for share in explained[h]),
                        f"{by_genotype[h]:.0%}",
                        f"{by_diet[h]:.0%}",
                    )
                    for h in np.flatnonzero(explained.max(axis=1) >= LARGE)
                ),
            ),
        ),
        remarks=(run.printed["words"],),
    )


def between(scores: FloatArray, kind: NDArray[np.str_]) -> float:
    """The share of a factor's variance that lies between kinds of mice."""
    means = {one: scores[kind == one].mean() for one in np.unique(kind)}
    return float(np.var([means[one] for one in kind]) / np.var(scores))


def left_out(views: Tables, parts: Iterable[int]) -> dict[str, float]:
    """Errors of each table of mice that were left out, from the other one, over that of means."""
    order = np.random.default_rng(0).permutation(40)
    squares: dict[str, list[tuple[float, float]]] = {name: [] for name in views}
    for part in parts:
        new = order[part::PARTS]
        known = np.setdiff1d(order, new)
        model = MultiViewPCA().fit(rows(views, known))
        for name, other in (("genes", "lipids"), ("lipids", "genes")):
            size, mean = views[name][known].std(axis=0), views[name][known].mean(axis=0)
            found = model.predict_view({other: views[other][new]}, name)
            ours, theirs = ((views[name][new] - guess) / size for guess in (found, mean))
            squares[name].append((float((ours**2).sum()), float((theirs**2).sum())))
    return {
        name: float(np.sqrt(np.divide(*np.sum(all_, axis=0)))) for name, all_ in squares.items()
    }


def hidden(views: Tables) -> dict[str, float]:
    """How many hidden cells of each table lie in their intervals."""
    rng = np.random.default_rng(0)
    given = {name: np.where(rng.random(x.shape) < HIDDEN, np.nan, x) for name, x in views.items()}
    filled, std = MultiViewPCA().fit(given).impute(given, return_std=True)
    found = {}
    for name, x in views.items():
        gone = np.isnan(given[name])
        inside = np.abs(filled[name] - x) < HALF * std[name]
        found[name] = float(inside[gone].mean())
    return found


def _where(active: NDArray[np.bool_]) -> str:
    return " and ".join(n for n, there in zip(("genes", "lipids"), active, strict=True) if there)


def _figure(
    model: MultiViewPCA, T: FloatArray, genotype: NDArray[np.str_], diet: NDArray[np.str_]
) -> Figure:
    figure, (left, right) = panels(2, height=4.2)
    left.grid(False)
    ViewsDisplay.from_estimator(model, ax=left)
    for colour, one in zip(COLOURS, np.unique(diet), strict=True):
        for kind, marker in MARKERS.items():
            some = (diet == one) & (genotype == kind)
            label = one if kind == "wt" else None
            right.scatter(*T[some].T, color=colour, marker=marker, s=28, label=label)
    right.set_xlabel("factor of genotype")
    right.set_ylabel("factor of diet")
    right.legend(title="diet", fontsize="small", frameon=False)
    return figure
