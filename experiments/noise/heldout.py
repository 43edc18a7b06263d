"""Held-out cells of fifteen tables: a tenth of the cells is removed, and predicted with error bars.

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
from bayespca.lowrank.noise_models import NOISES
from bayespca.sources.rounding import rounding_variances

from ..comparing import NOTHING, Comparison, claim
from ..data import Data, Missing
from ..records import Outcome, Run, Table
from .models import fitted
from .predicting import NormalAndT, StudentT, typical

SETS = (
    *("chart", "glass", "letter", "metabolite", "oilflow", "optdigits"),
    *("satellite", "segment", "tobamovirus", "wine", "freyfaces"),
    *("iris", "diabetes", "linnerud", "breast_cancer"),
)
QUICK = ("tobamovirus",)
MODELS = ("auto", "isotropic", "per-feature", "per-sample", "both", "student-cells")
BICROSS, ITERATIVE = "bi-cross-validation", "IterativeImputer"
# The first rows are taken: so many at most, and so many cells. Cells are removed so often, and more
# often where there are few.
ROWS, CELLS, SHARE = 1500, 30_000, 0.1
SPLITS, SPLITS_OF_FEW, FEW = 3, 10, 5_000
# Rows with so much of all rows below them, by their noise, are noisy.
NOISY = 0.9
# Nats for each held-out cell by which the default may fall behind the best, and the share of the
# cells that 95 % intervals are to hold.
BEHIND, HELD = 0.01, (0.93, 0.97)
# Largest geometric mean over tables of the default's error, over that of others, and the largest of
# a table over that of IterativeImputer.
ON_AVERAGE, AT_MOST = 1.0, 1.2
# In units of a column's standard deviation.
LEAST_STD = 1e-6
# The shape of a gamma distribution of precisions that are all equal.
NORMAL = 1e5
HEADER = (
    *("table", "noise", "log density", "in intervals", "RMSE", "median error"),
    *("rank", "sweeps", "CPU s"),
)
BESIDE = ("per-feature", BICROSS)
HEADER_OF_ROWS = (
    *("table", "default: quiet rows", "noisy rows"),
    *(f"{name}: {rows}" for name in BESIDE for rows in ("quiet rows", "noisy rows")),
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
        """The variance to which numbers are known, in these units: that of their rounding, or of
        the least gap between two of a column, for one of them cannot have more than its mass.
        """
        rounding = rounding_variances(self.Y)
        known = np.where(rounding > 0, rounding, _least_gaps(self.Y) ** 2 / 12)
        return np.maximum(known / self.units**2, LEAST_STD**2)


def _least_gaps(Y: np.ndarray) -> np.ndarray:
    gaps = np.diff(np.sort(Y, axis=0), axis=0)
    return np.asarray(np.min(gaps, axis=0, where=gaps > 0, initial=np.inf))


@dataclass(frozen=True)
class Scores:
    """How well held-out cells were predicted, one after the other, and what that took.

    `noisy` cells are in the tenth of the rows that has the most noise; None where rows are equal.
    """

    log_densities: np.ndarray
    inside: np.ndarray
    errors: np.ndarray
    ranks: tuple[int, ...] = ()
    sweeps: tuple[int, ...] = ()
    seconds: float = 0.0
    noises: tuple[str, ...] = ()
    noisy: np.ndarray | None = None

    @property
    def log_density(self) -> float:
        return float(self.log_densities.mean())

    @property
    def coverage(self) -> float:
        return float(self.inside.mean())

    @property
    def error(self) -> float:
        return self.error_in(slice(None))

    def error_in(self, cells: np.ndarray | slice) -> float:
        return float(np.sqrt(np.mean(self.errors[cells] ** 2)))

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
            _joined([part.noisy for part in parts]),
        )


def _joined(parts: list[np.ndarray | None]) -> np.ndarray | None:
    there = [part for part in parts if part is not None]
    return np.concatenate(there) if len(there) == len(parts) else None


def reproduce(run: Run) -> Outcome:
    reasons: set[str] = set()
    names = QUICK if run.quick else SETS
    found = dict(results(run, names, reasons))
    return Outcome(
        (
            *(line for name, scores in found.items() for line in _lines(name, scores)),
            *_errors(found),
        ),
        setting=f"The first {ROWS:,} rows or {CELLS:,} cells, columns that vary; {SHARE:.0%} of "
        f"the cells held out, {SPLITS} times, and {SPLITS_OF_FEW} times where there are no more "
        f"than {FEW:,}.",
        seed=f"0–{SPLITS_OF_FEW - 1}",
        tables=(
            Table(
                "Held-out cells: mean log predictive density, root mean square error and median "
                "error, with columns in units of their standard deviations; share in 95 % "
                "intervals.",
                HEADER,
                tuple(row for name, scores in found.items() for row in rows_of(name, scores)),
            ),
            Table(
                "Root mean square error in the nine tenths of the rows in which the default finds "
                "the least noise, and in the others; where it chooses noise of rows.",
                HEADER_OF_ROWS,
                tuple(row for name, scores in found.items() for row in by_rows(name, scores)),
            ),
        ),
        remarks=(run.printed["words"], *sorted(reasons)),
    )


def results(
    run: Run, names: Iterable[str], reasons: set[str]
) -> Iterator[tuple[str, dict[str, Scores]]]:
    """For each table the scores of each noise model, of scikit-learn's IterativeImputer, and of
    bi-cross-validation.
    """
    for name, splits in all_held_out(run.each(names), run.data, reasons):
        scores: dict[str, Scores] = {}
        for noise in run.each(MODELS, 0.95):
            parts = [_of_model(cells, noise) for cells in splits]
            reasons.update(part for part in parts if isinstance(part, str))
            if not any(isinstance(part, str) for part in parts):
                scores[noise] = Scores.joined([part for part in parts if isinstance(part, Scores)])
        scores[ITERATIVE] = Scores.joined([_of_regressions(cells) for cells in splits])
        if not np.isnan(splits[0].Y).any():
            scores[BICROSS] = Scores.joined([_of_known_rank(cells) for cells in splits])
        yield name, scores


def all_held_out(
    names: Iterable[str], data: Data, reasons: set[str]
) -> Iterator[tuple[str, list[Cells]]]:
    """The splits of each table that is there; reasons why others are not are added."""
    for name in names:
        try:
            yield name, list(held_out(name, data))
        except Missing as reason:
            reasons.add(str(reason))


def held_out(name: str, data: Data) -> Iterator[Cells]:
    """Metabolites have holes of their own, which are not scored."""
    X = data.table(name)
    X = X[: min(ROWS, CELLS // X.shape[1])]
    Y = X[:, np.nanmax(X, axis=0) > np.nanmin(X, axis=0)]
    for seed in range(SPLITS_OF_FEW if X.size <= FEW else SPLITS):
        hidden = np.random.default_rng(seed).random(Y.shape) < SHARE
        yield Cells(name, Y, hidden & ~np.isnan(Y))


def _of_model(cells: Cells, noise: str) -> Scores | str:
    """The scores, or the reason why there are none."""
    return _timed(cells, lambda: fitted(cells.seen, noise, random_state=0))


def _of_regressions(cells: Cells) -> Scores:
    """Each column from the others by Bayesian ridge regression, in turns; columns are scaled."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    begin, location = process_time(), np.nanmean(cells.seen, axis=0)
    imputer = IterativeImputer(random_state=0, keep_empty_features=True)
    filled = imputer.fit_transform((cells.seen - location) / cells.units)
    seconds = process_time() - begin
    errors = (filled - (cells.Y - location) / cells.units)[cells.hidden]
    unknown = np.full(errors.size, np.nan)
    return Scores(unknown, unknown, errors, seconds=seconds)


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
        _noisy(cells, model),
    )


def _noisy(cells: Cells, model: BayesianPCA) -> np.ndarray | None:
    """Which held-out cells are in the rows with the most noise."""
    if not NOISES[model.noise_].rows:
        return None
    noise = model.sample_noise_variance_
    noisy = noise > np.quantile(noise, NOISY)
    return np.asarray(noisy[np.nonzero(cells.hidden)[0]])


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
            *(_known(f"{score.log_density:.3f}"), _known(f"{score.coverage:.1%}")),
            *(f"{score.error:.3f}", f"{np.median(np.abs(score.errors)):.3f}"),
            *(_range(score.ranks), _range(score.sweeps), f"{score.seconds:.1f}"),
        )


def by_rows(name: str, scores: dict[str, Scores]) -> Iterator[tuple[str, ...]]:
    """Where the squared errors are, if the default has noise of rows."""
    noisy = scores["auto"].noisy
    if noisy is not None:
        kept = [scores.get(one) for one in ("auto", *BESIDE)]
        parts = [(one, cells) for one in kept for cells in (~noisy, noisy)]
        yield (name, *(NOTHING if one is None else f"{one.error_in(at):.3f}" for one, at in parts))


def _known(figure: str) -> str:
    return NOTHING if "nan" in figure else figure


def _range(numbers: tuple[int, ...]) -> str:
    if not numbers:
        return NOTHING
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


def _errors(found: dict[str, dict[str, Scores]]) -> Iterator[Comparison]:
    """The default's errors over those of others, and the largest of a table."""
    for other in (ITERATIVE, "per-feature"):
        ratios = {
            name: scores["auto"].error / scores[other].error
            for name, scores in found.items()
            if other in scores
        }
        mean = float(np.exp(np.mean(np.log(list(ratios.values())))))
        yield claim(
            f"RMSE of the default over that of {other}: geometric mean over tables",
            f"at most {ON_AVERAGE:.2f}",
            f"{mean:.3f}",
            holds=mean <= ON_AVERAGE,
        )
        if other == ITERATIVE:
            worst = max(ratios, key=lambda name: ratios[name])
            yield claim(
                f"RMSE of the default over that of {other}: largest",
                f"at most {AT_MOST}",
                f"{ratios[worst]:.2f} ({worst})",
                holds=ratios[worst] <= AT_MOST,
            )


def _density(score: Scores) -> float:
    return score.log_density


def _printed(cells: Iterable[str]) -> None:
    print("| " + " | ".join(cells) + " |", flush=True)


def main(folder: str, *names: str) -> None:
    """Print all that `reproduce` would find."""
    reasons: set[str] = set()
    lines: list[Comparison] = []
    of_rows: list[tuple[str, ...]] = []
    run = Run({}, Data((Path(folder),), None))
    _printed(HEADER)
    _printed("---" for _ in HEADER)
    for name, scores in results(run, names or SETS, reasons):
        for row in rows_of(name, scores):
            _printed(row)
        of_rows += by_rows(name, scores)
        lines += _lines(name, scores)
    print()
    for row in (HEADER_OF_ROWS, *of_rows):
        _printed(row)
    print()
    for line in lines:
        _printed((line.what, line.printed, line.computed, line.verdict))
    print(*sorted(reasons), sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
