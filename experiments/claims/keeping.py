"""How many components to keep: EVB's number, or the most probable one.

On data of known rank under each noise: how often each is right, how well each predicts cells that
were held out, and how often two halves of the rows have the same number. Held-out cells of tables
as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from bayespca import BayesianPCA

from ..comparing import Comparison, claim
from ..data import Data
from ..noise.heldout import Cells, Scores, all_held_out, scored
from ..records import Outcome, Run, Table
from .kinds import KINDS, SHAPES, Made, made

WAYS = ("evb", "probable")
# Complete data whose cells have noise of their own keep EVB's number in both ways.
USED = tuple(kind for kind in KINDS if kind not in ("t3", "gross"))
SETS, QUICK_SETS = 20, 5
QUICK_KINDS = ("white", "columns")
TABLES, QUICK_TABLES = ("tobamovirus", "wine", "glass", "metabolite"), ()
SHARE = 0.1


@dataclass(frozen=True)
class Way:
    """What one way of choosing came to on the data sets of a kind."""

    off: np.ndarray
    errors: np.ndarray
    same: np.ndarray

    @property
    def right(self) -> float:
        return float((self.off == 0).mean())

    @property
    def rmse(self) -> float:
        """RMSE of held-out cells, in units of what predicting the mean would give."""
        return float(np.sqrt((self.errors**2).mean()))


def tried(run: Run, sets: list[Made], way: str) -> Way:
    off = [rank(one.X, way) - one.truth for one in run.each(sets, 0.2)]
    errors = [held_out_error(one.X, seed, way) for seed, one in run.each(enumerate(sets), 0.5)]
    same = [halves_agree(one.X, seed, way) for seed, one in run.each(enumerate(sets), 0.3)]
    return Way(*map(np.array, (off, errors, same)))


def rank(X: np.ndarray, way: str) -> int:
    return BayesianPCA(n_components=way).fit(X).n_components_


def held_out_error(X: np.ndarray, seed: int, way: str) -> float:
    hidden = np.random.default_rng((seed, 1)).random(X.shape) < SHARE
    seen = np.where(hidden, np.nan, X)
    filled = BayesianPCA(n_components=way).fit(seen).impute(seen)
    units = np.broadcast_to(X.std(axis=0), X.shape)[hidden]
    return float(np.sqrt((((filled - X)[hidden] / units) ** 2).mean()))


def halves_agree(X: np.ndarray, seed: int, way: str) -> bool:
    order = np.random.default_rng((seed, 2)).permutation(len(X))
    one, other = (rank(X[rows], way) for rows in np.array_split(order, 2))
    return one == other


def reproduce(run: Run) -> Outcome:
    n, kinds = (QUICK_SETS, QUICK_KINDS) if run.quick else (SETS, USED)
    found = {
        kind: {way: tried(run, list(made(kind, n)), way) for way in run.each(WAYS)}
        for kind in run.each(kinds, 0.7)
    }
    reasons: set[str] = set()
    tables = dict(_tables(run.data, run.each(QUICK_TABLES if run.quick else TABLES, 0.3), reasons))
    return Outcome(
        tuple(_lines(run, found)),
        setting=f"{n} data sets of each kind, of {', '.join(f'{a}×{b}' for a, b in SHAPES)}, 0 to "
        f"5 components; {SHARE:.0%} of the cells held out; tables as in the section on noise.",
        seed=f"0 to {n - 1}",
        tables=(_simulated(found), _of_tables(tables)),
        remarks=(run.printed["words"], *sorted(reasons)),
    )


def _tables(
    data: Data, names: Iterable[str], reasons: set[str]
) -> Iterator[tuple[str, dict[str, Scores]]]:
    for name, splits in all_held_out(names, data, reasons):
        yield name, {way: Scores.joined([_scored(cells, way) for cells in splits]) for way in WAYS}


def _scored(cells: Cells, way: str) -> Scores:
    return scored(cells, BayesianPCA(n_components=way).fit(cells.seen))


def _lines(run: Run, found: dict[str, dict[str, Way]]) -> Iterator[Comparison]:
    ways = {way: [one[way] for one in found.values()] for way in WAYS}
    figures = {
        "right": [np.mean([one.right for one in ways[way]]) for way in WAYS],
        "error": [np.mean([one.rmse for one in ways[way]]) for way in WAYS],
        "same": [np.mean([one.same.mean() for one in ways[way]]) for way in WAYS],
    }
    right, error, same = figures["right"], figures["error"], figures["same"]
    words = run.printed
    yield claim(
        "right numbers, over all kinds", words["right"], _both(right), holds=right[1] > right[0]
    )
    yield claim(
        "errors of held-out cells, over all kinds",
        words["error"],
        _both(error, 3),
        holds=error[1] <= error[0] * (1 + words["worse"]),
    )
    yield claim(
        "the same number in two halves, over all kinds",
        words["same"],
        _both(same),
        holds=same[0] > same[1],
    )


def _both(values: list[float], digits: int = 2) -> str:
    return " and ".join(
        f"{way} {value:.{digits}f}" for way, value in zip(WAYS, values, strict=True)
    )


def _simulated(found: dict[str, dict[str, Way]]) -> Table:
    rows = [
        (
            kind,
            *(f"{ways[way].right:.2f}" for way in WAYS),
            *(f"{ways[way].off.mean():+.2f}" for way in WAYS),
            *(f"{ways[way].rmse:.3f}" for way in WAYS),
            *(f"{ways[way].same.mean():.2f}" for way in WAYS),
        )
        for kind, ways in found.items()
    ]
    names = ("right", "too many by", "held-out error", "same in two halves")
    header = ("noise", *(f"{name}: {way}" for name in names for way in WAYS))
    caption = "Simulated data; errors are in units of the columns' standard deviations."
    return Table(caption, header, tuple(rows))


def _of_tables(found: dict[str, dict[str, Scores]]) -> Table:
    rows = [
        (
            name,
            way,
            "/".join(map(str, one.ranks)),
            f"{one.log_density:.3f}",
            f"{one.error:.3f}",
            f"{one.coverage:.3f}",
        )
        for name, ways in found.items()
        for way, one in ways.items()
    ]
    header = ("table", "n_components", "rank", "log density", "RMSE", "in 95 % intervals")
    return Table("Held-out cells of tables.", header, tuple(rows))
