"""Held-out cells of eleven tables: a tenth of the cells is removed, and predicted with error bars.

Columns are in units of their standard deviations wherever figures are averaged over them. The fits
see raw columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import numpy as np
from scipy import stats

from bayespca import BayesianPCA

from ..comparing import NOTHING, Comparison, claim
from ..data import Missing
from ..records import Outcome, Run, Table
from .bicross import chosen_rank
from .models import fitted

SETS = (
    *("chart", "glass", "letter", "metabolite", "oilflow", "optdigits"),
    *("satellite", "segment", "tobamovirus", "wine", "freyfaces"),
)
QUICK = ("tobamovirus",)
MODELS = ("auto", "isotropic", "per-feature", "per-sample", "both", "student-cells")
ROWS, SHARE, SEED = 1500, 0.1, 0
# Nats for each held-out cell by which the default may fall behind isotropic noise.
BEHIND = 0.01
# In units of a column's standard deviation.
LEAST_STD = 1e-6


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


@dataclass(frozen=True)
class Score:
    """How well held-out cells were predicted."""

    log_density: float
    coverage: float
    error: float


def reproduce(run: Run) -> Outcome:
    lines: list[Comparison] = []
    rows: list[tuple[str, ...]] = []
    reasons: set[str] = set()
    for name in QUICK if run.quick else SETS:
        try:
            cells = held_out(name, run)
        except Missing as reason:
            reasons.add(str(reason))
            continue
        scores: dict[str, Score] = {}
        for noise in MODELS:
            found = _of_model(cells, noise)
            if isinstance(found, str):
                reasons.add(found)
            else:
                scores[noise], row = found
                rows.append(row)
        rows.append(_of_known_rank(cells))
        lines.append(_line(name, scores["auto"], scores["isotropic"]))
    return Outcome(
        tuple(lines),
        setting=f"The first {ROWS:,} rows, columns that vary; {SHARE:.0%} of the cells held out.",
        seed=str(SEED),
        tables=(
            Table(
                "Held-out cells: mean log predictive density and root mean square error, with "
                "columns in units of their standard deviations; share in 95 % intervals.",
                ("table", "noise", "log density", "in intervals", "RMSE", "rank", "sweeps", "s"),
                tuple(rows),
            ),
        ),
        remarks=(run.printed["words"], *sorted(reasons)),
    )


def held_out(name: str, run: Run) -> Cells:
    """Metabolites have holes of their own, which are not scored."""
    X = run.data.table(name)[:ROWS]
    Y = X[:, np.nanmax(X, axis=0) > np.nanmin(X, axis=0)]
    hidden = np.random.default_rng(SEED).random(Y.shape) < SHARE
    return Cells(name, Y, hidden & ~np.isnan(Y))


def _of_model(cells: Cells, noise: str) -> tuple[Score, tuple[str, ...]] | str:
    """The score and its row, or the reason why there is none."""
    begin = perf_counter()
    model = fitted(cells.seen, noise, random_state=0)
    if isinstance(model, str):
        return model
    seconds = perf_counter() - begin
    score = scored(cells, model)
    name = f"default ({model.noise_})" if noise == "auto" else noise
    return score, _row(cells.name, name, score, model, seconds)


def scored(cells: Cells, model: BayesianPCA) -> Score:
    mean, std = model.impute(cells.seen, return_std=True)
    units = np.broadcast_to(cells.units, mean.shape)[cells.hidden]
    error = (np.asarray(mean) - cells.Y)[cells.hidden] / units
    std = np.maximum(np.asarray(std)[cells.hidden] / units, LEAST_STD)
    predicted = stats.t(_freedom(cells, model), scale=std)
    inside = np.abs(error) <= predicted.ppf(0.975)
    return Score(
        float(predicted.logpdf(error).mean()),
        float(inside.mean()),
        float(np.sqrt(np.mean(error**2))),
    )


def _freedom(cells: Cells, model: BayesianPCA) -> np.ndarray:
    """Degrees of freedom of each held-out cell, infinite for normal noise.

    The other cells of a row show its noise; a hidden cell's own noise has only its prior.
    """
    known = np.broadcast_to((~np.isnan(cells.seen)).sum(axis=1)[:, None], cells.Y.shape)
    seen = 0 if model.noise_ == "student-cells" else known[cells.hidden]
    return np.full(int(cells.hidden.sum()), model.degrees_of_freedom_) + seen


def _of_known_rank(cells: Cells) -> tuple[str, ...]:
    """Probabilistic PCA of scaled columns with the rank that bi-cross-validation chooses, which
    needs complete data and so sees the held-out cells.
    """
    if np.isnan(cells.Y).any():
        return (cells.name, "bi-cross-validation: holes of its own", *[NOTHING] * 6)
    begin = perf_counter()
    rank = chosen_rank((cells.Y - cells.Y.mean(axis=0)) / cells.units, SEED)
    model = BayesianPCA("ml", n_components=rank, scale=True).fit(cells.seen)
    seconds = perf_counter() - begin
    name = "bi-cross-validation, scaled"
    return _row(cells.name, name, scored(cells, model), model, seconds)


def _row(
    table: str, name: str, score: Score, model: BayesianPCA, seconds: float
) -> tuple[str, ...]:
    return (
        *(table, name, f"{score.log_density:.3f}", f"{score.coverage:.1%}", f"{score.error:.4f}"),
        *(str(model.n_components_), str(model.n_iter_), f"{seconds:.1f}"),
    )


def _line(name: str, default: Score, plain: Score) -> Comparison:
    gain = default.log_density - plain.log_density
    return claim(
        f"{name}: log density of a held-out cell, default over isotropic",
        "not below 0",
        f"{gain:+.2f} nats",
        holds=gain >= -BEHIND,
    )
