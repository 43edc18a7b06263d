"""Tables of numbers beside tables of categories and ranks: mice again, and wine cut into three.

The task is to predict a whole table of new samples from the others, in probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayespca import GeneralizedPCA, MultiViewPCA
from bayespca.displays import ViewsDisplay

from ..comparing import claim, shown
from ..data import Data, FloatArray
from ..drawing import panels
from ..records import Outcome, Run
from .nutrimouse import read as read_mice

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Frames = dict[str, pd.DataFrame]
PARTS, QUICK_PARTS = 8, 1
# Columns of wine that stay numbers, and into how many ranks the others are cut.
NUMBERS, RANKS = 7, 4
MICE, WINE = {"mouse": "auto"}, {"ranks": "ordinal", "kind": "categorical"}


def mice(data: Data) -> Frames:
    """Genes, lipids, and what the mouse is: genotype and diet."""
    views, genotype, diet = read_mice(data)
    found = {name: pd.DataFrame(x) for name, x in views.items()}
    return found | {"mouse": pd.DataFrame({"genotype": genotype, "diet": diet})}


def wine(data: Data) -> Frames:
    """Seven measurements as they are, six as quarters, and the kind of the wine."""
    X, kind = data.table("wine"), data.labels("wine")
    edges = np.quantile(X[:, NUMBERS:], np.arange(1, RANKS) / RANKS, axis=0)
    ranks = (X[:, None, NUMBERS:] >= edges).sum(axis=1).astype(np.float64)
    return {
        "numbers": pd.DataFrame(X[:, :NUMBERS]),
        "ranks": pd.DataFrame(ranks),
        "kind": pd.DataFrame({"kind": kind.astype(str)}),
    }


def reproduce(run: Run) -> Outcome:
    parts = range(QUICK_PARTS if run.quick else PARTS)
    of_mice, of_wine = mice(run.data), wine(run.data)
    model = MultiViewPCA(likelihood=MICE).fit(of_mice)
    whole = MultiViewPCA(likelihood=WINE).fit(of_wine)
    found = left_out(of_mice, MICE, "mouse", run.each(parts))
    kinds = left_out(of_wine, WINE, "kind", parts)
    ranks = left_out(of_wine, WINE, "ranks", parts)
    beside = by_one_table(of_wine, parts)
    genotype, diet = found["genotype"], found["diet"]
    usual = float(np.log(RANKS))
    loss, one_table = (np.mean([_loss(p) for p in some.values()]) for some in (ranks, beside))
    return Outcome(
        (
            claim(
                "genotype of new mice from genes and lipids, right",
                run.printed["genotype"],
                _right(genotype),
                holds=_share(genotype) >= 0.95,
            ),
            claim(
                "their diet, one of five",
                run.printed["diet"],
                _right(diet),
                holds=_share(diet) >= 0.75,
            ),
            shown("log loss of genotype and of diet", f"{_loss(genotype):.2f}, {_loss(diet):.2f}"),
            claim(
                "kind of new wines from numbers and ranks, right",
                run.printed["kind"],
                _right(kinds["kind"]),
                holds=_share(kinds["kind"]) >= 0.95,
            ),
            claim(
                f"log loss of ranks from numbers and kind, over that of guessing (log {RANKS})",
                run.printed["ranks"],
                f"{loss / usual:.2f}",
                holds=loss < 0.9 * usual,
            ),
            claim(
                "the same over that of GeneralizedPCA of all columns as one table",
                run.printed["one_table"],
                f"{loss / one_table:.2f}",
                holds=loss < 1.05 * one_table,
            ),
        ),
        setting="Nothing chosen but likelihoods. Mice: 120 genes, 21 lipids, genotype and diet, "
        f"{model.n_components_} factors. Wine: {NUMBERS} numbers, {13 - NUMBERS} measurements cut "
        f"into quarters, kind; {whole.n_components_} factors.",
        seed="0, for samples left out",
        figures={
            "Share of each table that each factor explains: mice on the left, wine on the "
            "right.": _figure(model, whole),
        },
        remarks=(run.printed["words"],),
    )


def left_out(
    frames: Frames, likelihood: dict[str, str], view: str, parts: Any
) -> dict[str, FloatArray]:
    """Probabilities of the levels that new samples have in each column of a view, and whether these
    are the most probable ones: (n, 2).
    """
    found: dict[str, list[FloatArray]] = {str(name): [] for name in frames[view]}
    for known, new in _folds(len(frames[view]), parts):
        model = MultiViewPCA(likelihood=likelihood).fit(_rows(frames, known))
        names = model.output_names_[view]
        p = model.predict_view(_rows(frames, new, without=view), view)
        for name, column in frames[view].items():
            found[str(name)].append(_of_truth(p, names, str(name), column.to_numpy()[new]))
    return {name: np.concatenate(some) for name, some in found.items()}


def by_one_table(frames: Frames, parts: Any) -> dict[str, FloatArray]:
    """The same of ranks by GeneralizedPCA of all columns."""
    table = pd.concat(
        [frame.rename(columns=lambda one, v=v: f"{v}{one}") for v, frame in frames.items()], axis=1
    )
    ranks = [name for name in table if str(name).startswith("ranks")]
    kinds = dict.fromkeys(table, "normal") | dict.fromkeys(ranks, "ordinal")
    kinds["kindkind"] = "categorical"
    found: dict[str, list[FloatArray]] = {str(name): [] for name in ranks}
    for known, new in _folds(len(table), parts):
        model = GeneralizedPCA(likelihood=kinds).fit(table.iloc[known])
        hidden = table.iloc[new].copy()
        hidden[ranks] = np.nan
        p = model.predict_cells(hidden)
        for name in ranks:
            truth = table[name].to_numpy()[new]
            found[str(name)].append(_of_truth(p, model.output_names_, str(name), truth))
    return {name: np.concatenate(some) for name, some in found.items()}


def _of_truth(p: FloatArray, names: Sequence[str], column: str, truth: NDArray[Any]) -> FloatArray:
    """Probability of what is true in each row, and 1.0 where nothing is more probable."""
    mine = {name.partition("=")[2]: j for j, name in enumerate(names) if _is_of(name, column)}
    every = p[:, list(mine.values())]
    if every.shape[1] == 1:  # of two levels, the second
        (second,) = mine
        of_truth = np.where(truth.astype(str) == second, every[:, 0], 1 - every[:, 0])
        return np.column_stack([of_truth, of_truth > 0.5])
    places = [list(mine).index(str(one)) for one in truth]
    of_truth = every[np.arange(len(truth)), places]
    return np.column_stack([of_truth, every.argmax(axis=1) == places])


def _is_of(name: str, column: str) -> bool:
    return name.partition("=")[0] == column


def _folds(n: int, parts: Any) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    order = np.random.default_rng(0).permutation(n)
    news = [order[part::PARTS] for part in parts]
    return [(np.setdiff1d(order, new), new) for new in news]


def _rows(frames: Frames, which: NDArray[np.intp], without: str = "") -> Frames:
    some = {name: frame for name, frame in frames.items() if name != without}
    return {name: frame.iloc[which].reset_index(drop=True) for name, frame in some.items()}


def _share(found: FloatArray) -> float:
    return float(found[:, 1].mean())


def _right(found: FloatArray) -> str:
    return f"{int(found[:, 1].sum())} of {len(found)}"


def _loss(found: FloatArray) -> float:
    return float(-np.log(np.maximum(found[:, 0], 1e-12)).mean())


def _figure(of_mice: MultiViewPCA, of_wine: MultiViewPCA) -> Figure:
    figure, axes = panels(2, height=4.2)
    for ax, model in zip(axes, (of_mice, of_wine), strict=True):
        ax.grid(False)
        ViewsDisplay.from_estimator(model, ax=ax)
    return figure
