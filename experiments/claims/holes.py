"""Intervals of cells that are missing by chance, and of cells that are missing for their values.

How often the check of the holes speaks up, and how many missing cells lie within their 95 %
intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from bayespca import BayesianPCA
from bayespca.checks.holes import CODE

from ..comparing import Comparison, claim
from ..records import Outcome, Run, Table
from .kinds import SHAPES

SETS, QUICK_SETS = 1000, 30
# Sets whose holes are not by chance.
FEWER, QUICK_FEWER = 200, 20
# Components, and the standard deviation of their loadings.
RANKS, STRENGTHS = range(6), (0.3, 0.6, 1.0)
RATES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
NORMAL = 1.96

Holes = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def at_random(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.random(X.shape) < rng.choice(RATES)


def uneven(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Some rows and some columns have more holes than others."""
    n, p = X.shape
    rates = 0.15 * np.exp(0.7 * rng.standard_normal((n, 1)) + 0.7 * rng.standard_normal(p))
    return rng.random(X.shape) < np.minimum(rates, 0.7)


def block(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Half of the rows lack half of the columns."""
    n, p = X.shape
    found = np.zeros(X.shape, dtype=bool)
    found[np.ix_(rng.permutation(n)[: n // 2], np.arange(p // 2))] = True
    return found


def by_another_column(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Holes in two columns where two others, which are there, are high."""
    found = np.zeros(X.shape, dtype=bool)
    found[:, :2] = X[:, 2:4] > 0.5 * X[:, 2:4].std(axis=0)
    return found


def above_a_limit(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Holes in three columns."""
    found = np.zeros(X.shape, dtype=bool)
    found[:, :3] = X[:, :3] > 0.5 * X[:, :3].std(axis=0)
    return found


def below_a_limit(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Holes in all columns."""
    return X < -X.std(axis=0)


def more_often_where_low(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """12 % of the cells on average, 30 % of those two standard deviations below the mean."""
    return rng.random(X.shape) < 1 / (1 + np.exp(2 + X / X.std(axis=0)))


BY_CHANCE: dict[str, Holes] = {
    "at random": at_random,
    "at random, some rows and columns more": uneven,
    "half of the columns in half of the rows": block,
}
BY_VALUE: dict[str, Holes] = {
    "three columns above a limit": above_a_limit,
    "all columns below a limit": below_a_limit,
    "all columns, more often where low": more_often_where_low,
}
BY_OTHERS: dict[str, Holes] = {"two columns where two others are high": by_another_column}


@dataclass(frozen=True)
class Found:
    """For each data set whether the check spoke up, and how many missing cells are in intervals."""

    said: np.ndarray
    coverage: np.ndarray


def tried(holes: Holes, seeds: Iterable[int]) -> Found:
    found = [_one(holes, seed) for seed in seeds]
    return Found(*(np.array(column) for column in zip(*found, strict=True)))


def _one(holes: Holes, seed: int) -> tuple[bool, float]:
    rng = np.random.default_rng(seed)
    X = drawn(seed, rng)
    missing = holes(X, rng)
    model = BayesianPCA().fit(Y := np.where(missing, np.nan, X))
    filled, std = model.impute(Y, return_std=True)
    inside = np.abs(filled - X) < NORMAL * std
    return CODE in model.status_, float(inside[missing].mean()) if missing.any() else np.nan


def drawn(seed: int, rng: np.random.Generator) -> np.ndarray:
    """White noise and some components, of five shapes in turn."""
    n, p = SHAPES[seed % len(SHAPES)]
    k, strength = RANKS[seed % len(RANKS)], STRENGTHS[seed % len(STRENGTHS)]
    signal = rng.standard_normal((n, k)) @ (strength * rng.standard_normal((k, p)))
    return signal + rng.standard_normal((n, p))


def reproduce(run: Run) -> Outcome:
    many, few = (QUICK_SETS, QUICK_FEWER) if run.quick else (SETS, FEWER)
    sizes = {
        name: many if name == "at random" else few for name in BY_CHANCE | BY_OTHERS | BY_VALUE
    }
    found = {
        name: tried(holes, run.each(range(sizes[name]), 0.9 * sizes[name] / sum(sizes.values())))
        for name, holes in (BY_CHANCE | BY_OTHERS | BY_VALUE).items()
    }
    return Outcome(
        tuple(_lines(run, found)),
        setting=f"{', '.join(f'{n}×{p}' for n, p in SHAPES)}, 0 to 5 components, white noise.",
        seed=f"0 to {many - 1}",
        tables=(_table(found), _limits(run.each(range(few), 0.1))),
        remarks=(run.printed["words"],),
    )


def _lines(run: Run, found: dict[str, Found]) -> Iterator[Comparison]:
    for name in BY_CHANCE:
        said = found[name].said
        yield claim(
            f"{name}: false alarms",
            run.printed["alarms"],
            f"{said.sum()} of {said.size}",
            holds=said.sum() <= max(1, 0.01 * said.size),
        )
    for name in BY_CHANCE | BY_OTHERS:
        coverage = np.nanmean(found[name].coverage)
        yield claim(
            f"{name}: within 95 % intervals",
            run.printed["right"],
            f"{coverage:.3f}",
            holds=abs(coverage - 0.95) < run.printed["off"],
        )
    for name in BY_VALUE:
        said, coverage = found[name].said.mean(), np.nanmean(found[name].coverage)
        yield claim(
            f"{name}: noticed, and within 95 % intervals",
            run.printed["wrong"],
            f"{said:.2f} of the data sets, {coverage:.2f} of the cells",
            holds=bool(said > 0.4 and coverage < 0.95 - run.printed["off"]),
        )


def _table(found: dict[str, Found]) -> Table:
    rows = [
        (
            name,
            str(one.said.size),
            f"{one.said.mean():.3f}",
            f"{np.nanmean(one.coverage):.2f}",
            f"{np.nanquantile(one.coverage, 0.1):.2f}",
            f"{np.nanmean(one.coverage[one.said]):.2f}" if one.said.any() else "–",
        )
        for name, one in found.items()
    ]
    header = (
        *("cells are missing", "data sets", "check speaks up", "within 95 % intervals"),
        *("the worst tenth of the data sets", "where the check speaks up"),
    )
    return Table("What holes do to intervals, and what is noticed of it.", header, tuple(rows))


def _limits(seeds: Iterable[int]) -> Table:
    """Cells below a limit left empty, or the limit entered: errors of the low-rank part."""
    errors = np.array([_errors(seed) for seed in seeds])
    names = ("left empty", "the limit entered", "nothing missing")
    rows = [
        (name, f"{error:.2f}", f"{off:+.2f}")
        for name, error, off in zip(names, *errors.mean(axis=0), strict=True)
    ]
    caption = (
        "Cells of all columns below a limit: what to do with them. Errors are root mean squares."
    )
    header = ("cells below the limit", "error of the low-rank part", "components too many")
    return Table(caption, header, tuple(rows))


def _errors(seed: int) -> tuple[list[float], list[int]]:
    rng = np.random.default_rng(seed)
    n, p = SHAPES[seed % len(SHAPES)]
    k = 1 + seed % 4
    truth = rng.standard_normal((n, k)) @ (0.6 * rng.standard_normal((k, p)))
    X = truth + rng.standard_normal((n, p))
    limit = -0.7 * X.std(axis=0)
    sets = [np.where(limit > X, np.nan, X), np.maximum(X, limit), X]
    models = [BayesianPCA().fit(one) for one in sets]
    parts = [m.inverse_transform(m.transform(one)) for m, one in zip(models, sets, strict=True)]
    errors = [float(np.sqrt(((part - truth) ** 2).mean())) for part in parts]
    return errors, [model.n_components_ - k for model in models]
