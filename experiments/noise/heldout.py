"""Held-out cells of eleven tables: a tenth of the cells is removed, and predicted with error bars.

Columns are in units of their standard deviations wherever figures are averaged over them. The fits
see raw columns.

    python -m experiments.noise.heldout FOLDER [TABLE …]

prints the table in Markdown, with the data sets of a folder.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import numpy as np

from bayespca import BayesianPCA
from bayespca.linear.rank_rules import bi_cross_validation
from bayespca.sources.rounding import rounding_variances

from ..comparing import Comparison, claim
from ..data import Data, Missing
from ..records import Outcome, Run, Table
from .models import fitted
from .predicting import NormalAndT, StudentT, typical

SETS = (
    *("chart", "glass", "letter", "metabolite", "oilflow", "optdigits"),
    *("satellite", "segment", "tobamovirus", "wine", "freyfaces"),
)
QUICK = ("tobamovirus",)
MODELS = ("auto", "isotropic", "per-feature", "per-sample", "both", "student-cells")
BICROSS = "bi-cross-validation"
# The first rows are taken: so many at most, and so many cells. Few cells are removed in turn: so
# often where there are no more than these.
ROWS, CELLS, SHARE = 1500, 30_000, 0.1
SPLITS, FEW = 3, 5_000
# Nats for each held-out cell by which the default may fall behind the best, and the share of the
# cells that 95 % intervals are to hold.
BEHIND, HELD = 0.01, (0.93, 0.97)
# In units of a column's standard deviation.
LEAST_STD = 1e-6
# The shape of a gamma distribution of precisions that are all equal.
NORMAL = 1e5
HEADER = (
    *("table", "noise", "log density", "in intervals", "RMSE", "median error"),
    *("rank", "sweeps", "CPU s"),
)


@dataclass(frozen=True)
class Cells:
    """A table with held-out cells, without columns that do not vary."""

    name: str
    Y: np.ndarray
    hidden: np.ndarray

    @property
    def seen(self) -> np.ndarray:
        return np.where(self.hidden, np.nan, self.Y)

    @property
    def units(self) -> np.ndarray:
        return np.nanstd(self.Y, axis=0)

    @property
    def resolution(self) -> np.ndarray:
        """The variance to which numbers are known, in these units."""
        return np.maximum(rounding_variances(self.Y) / self.units**2, LEAST_STD**2)


@dataclass(frozen=True)
class Scores:
    """How well held-out cells were predicted, one after the other, and what that took."""

    log_densities: np.ndarray
    inside: np.ndarray
    errors: np.ndarray
    ranks: tuple[int, ...] = ()
    sweeps: tuple[int, ...] = ()
    seconds: float = 0.0
    noises: tuple[str, ...] = ()

    @property
    def log_density(self) -> float:
        return float(self.log_densities.mean())

    @property
    def coverage(self) -> float:
        return float(self.inside.mean())

    @property
    def error(self) -> float:
        return float(np.sqrt(np.mean(self.errors**2)))

    @classmethod
    def joined(cls, parts: list[Scores]) -> Scores:
        """Those of several fits as one; seconds are those of a fit."""
        return cls(
            np.concatenate([part.log_densities for part in parts]),
            np.concatenate([part.inside for part in parts]),
            np.concatenate([part.errors for part in parts]),
            tuple(rank for part in parts for rank in part.ranks),
            tuple(number for part in parts for number in part.sweeps),
            sum(part.seconds for part in parts) / len(parts),
            tuple(noise for part in parts for noise in part.noises),
        )


def reproduce(run: Run) -> Outcome:
    reasons: set[str] = set()
    names = QUICK if run.quick else SETS
    found = dict(results(run.data, names, reasons))
    return Outcome(
        tuple(line for name, scores in found.items() for line in _lines(name, scores)),
        setting=f"The first {ROWS:,} rows or {CELLS:,} cells, columns that vary; {SHARE:.0%} of "
        f"the cells held out, {SPLITS} times where there are no more than {FEW:,}.",
        seed=f"0–{SPLITS - 1}",
        tables=(
            Table(
                "Held-out cells: mean log predictive density, root mean square error and median "
                "error, with columns in units of their standard deviations; share in 95 % "
                "intervals.",
                HEADER,
                tuple(row for name, scores in found.items() for row in rows_of(name, scores)),
            ),
        ),
        remarks=(run.printed["words"], *sorted(reasons)),
    )


def results(
    data: Data, names: Iterable[str], reasons: set[str]
) -> Iterator[tuple[str, dict[str, Scores]]]:
    """For each table the scores of each noise model, and of bi-cross-validation."""
    for name in names:
        try:
            splits = list(held_out(name, data))
        except Missing as reason:
            reasons.add(str(reason))
            continue
        scores: dict[str, Scores] = {}
        for noise in MODELS:
            parts = [_of_model(cells, noise) for cells in splits]
            reasons.update(part for part in parts if isinstance(part, str))
            if not any(isinstance(part, str) for part in parts):
                scores[noise] = Scores.joined([part for part in parts if isinstance(part, Scores)])
        if not np.isnan(splits[0].Y).any():
            scores[BICROSS] = Scores.joined([_of_known_rank(cells) for cells in splits])
        yield name, scores


def held_out(name: str, data: Data) -> Iterator[Cells]:
    """Metabolites have holes of their own, which are not scored."""
    X = data.table(name)
    X = X[: min(ROWS, CELLS // X.shape[1])]
    Y = X[:, np.nanmax(X, axis=0) > np.nanmin(X, axis=0)]
    for seed in range(SPLITS if X.size <= FEW else 1):
        hidden = np.random.default_rng(seed).random(Y.shape) < SHARE
        yield Cells(name, Y, hidden & ~np.isnan(Y))


def _of_model(cells: Cells, noise: str) -> Scores | str:
    """The scores, or the reason why there are none."""
    return _timed(cells, lambda: fitted(cells.seen, noise, random_state=0))


def _of_known_rank(cells: Cells) -> Scores:
    """Probabilistic PCA of scaled columns with the rank that bi-cross-validation chooses, which
    needs complete data and so sees the held-out cells.
    """

    def fit() -> BayesianPCA:
        scaled = (cells.Y - cells.Y.mean(axis=0)) / cells.units
        rank = bi_cross_validation(scaled, np.random.default_rng(0))
        return BayesianPCA("ml", n_components=rank, scale=True).fit(cells.seen)

    found = _timed(cells, fit)
    assert isinstance(found, Scores)
    return found


def _timed(cells: Cells, fit: Callable[[], BayesianPCA | str]) -> Scores | str:
    begin = process_time()
    model = fit()
    if isinstance(model, str):
        return model
    return scored(cells, model, process_time() - begin)


def scored(cells: Cells, model: BayesianPCA, seconds: float = 0.0) -> Scores:
    """Each cell under its own predictive distribution, averaged over the scale of its noise."""
    hidden = cells.hidden
    units = np.broadcast_to(cells.units, cells.Y.shape)[hidden]
    mean = np.asarray(model.impute(cells.seen))[hidden]
    errors = (mean - cells.Y[hidden]) / units
    predicted = _predicted(cells, model, units)
    return Scores(
        predicted.log_density(errors),
        predicted.inside(errors),
        errors,
        (model.n_components_,),
        (model.n_iter_,),
        seconds,
        (model.noise_,),
    )


def _predicted(cells: Cells, model: BayesianPCA, units: np.ndarray) -> StudentT | NormalAndT:
    """The other cells of a row show its noise. A cell's own noise is known by its prior alone,
    which does not scale what is uncertain of its mean. Numbers that come again and again are
    predicted no better than they are known: exactness would have a density without bound.
    """
    _, std = model.impute(cells.seen, return_std=True)
    variance, half = (np.asarray(std)[cells.hidden] / units) ** 2, 0.5 * model.degrees_of_freedom_
    least = np.broadcast_to(cells.resolution, cells.Y.shape)[cells.hidden]
    if half > NORMAL:
        return StudentT(np.maximum(variance, least), np.full_like(variance, np.inf))
    if model.noise_ == "student-cells":
        _, low = model.impute(cells.seen, return_std="mean")
        fixed = np.minimum((np.asarray(low)[cells.hidden] / units) ** 2, variance)
        more = np.maximum(least - variance, 0.0)
        return NormalAndT(fixed + more, typical(variance - fixed, half), half)
    known = (~np.isnan(cells.seen)).sum(axis=1)[:, None]
    shape = half + 0.5 * np.broadcast_to(known, cells.Y.shape)[cells.hidden]
    return StudentT(np.maximum(typical(variance, shape), least), shape)


# --- what is said of it --------------------------------------------------------------------------


def rows_of(name: str, scores: dict[str, Scores]) -> Iterator[tuple[str, ...]]:
    for noise, score in scores.items():
        chosen = ", ".join(sorted(set(score.noises)))
        yield (
            *(name, f"default ({chosen})" if noise == "auto" else noise),
            *(f"{score.log_density:.3f}", f"{score.coverage:.1%}"),
            *(f"{score.error:.3f}", f"{np.median(np.abs(score.errors)):.3f}"),
            *(_range(score.ranks), _range(score.sweeps), f"{score.seconds:.1f}"),
        )


def _range(numbers: tuple[int, ...]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}–{high}"


def _lines(name: str, scores: dict[str, Scores]) -> Iterator[Comparison]:
    """The default beside the best noise model, its intervals, and its errors."""
    default = scores["auto"]
    best = max((scores[noise] for noise in MODELS if noise in scores), key=_density)
    gaps = default.log_densities - best.log_densities
    error = float(gaps.std() / np.sqrt(gaps.size))
    yield claim(
        f"{name}: nats of a held-out cell, default less the best",
        f"above −{BEHIND}",
        f"{gaps.mean():+.3f} ± {error:.3f}",
        holds=bool(gaps.mean() >= -BEHIND),
    )
    yield claim(
        f"{name}: in 95 % intervals of the default",
        f"{HELD[0]:.0%} to {HELD[1]:.0%}",
        f"{default.coverage:.1%}",
        holds=HELD[0] <= default.coverage <= HELD[1],
    )
    if BICROSS in scores:
        other = scores[BICROSS].error
        yield claim(
            f"{name}: RMSE of the default",
            f"at most {other:.3f} ({BICROSS})",
            f"{default.error:.3f}",
            holds=default.error <= other,
        )


def _density(score: Scores) -> float:
    return score.log_density


def _printed(cells: Iterable[str]) -> None:
    print("| " + " | ".join(cells) + " |", flush=True)


def main(folder: str, *names: str) -> None:
    """Print all that `reproduce` would find."""
    reasons: set[str] = set()
    lines: list[Comparison] = []
    _printed(HEADER)
    _printed("---" for _ in HEADER)
    for name, scores in results(Data((Path(folder),), None), names or SETS, reasons):
        for row in rows_of(name, scores):
            _printed(row)
        lines += _lines(name, scores)
    print()
    for line in lines:
        _printed((line.what, line.printed, line.computed, line.verdict))
    print(*sorted(reasons), sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
