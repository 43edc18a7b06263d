"""Questionnaires: items of correlated factors, with minor factors that nobody wants counted.

Lim and Jahng, "Determining the number of factors using parallel analysis and its recent variants"
(Psychological Methods 24, 2019), Study 1, without skew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from ..comparing import Comparison, claim
from ..records import Outcome, Run
from .rules import Found, found, table

ROWS, FACTORS = (100, 300, 500, 700, 900), (1, 2, 4, 6)
ITEMS = (4, 6, 8)
LOADINGS = {"weak": (0.3, 0.5), "strong": (0.5, 0.7)}
CORRELATIONS = {"low": (0.0, 0.3), "high": (0.3, 0.6)}
# Minor factors for each factor, and the weight that those of a questionnaire share.
MINOR, WEIGHT = 3, 0.1
CONTINUOUS, FOUR, TWO = "continuous", "four categories", "two categories"
# Where answers change.
LIMITS: dict[str, tuple[float, ...]] = {CONTINUOUS: (), FOUR: (-1.5, 0.0, 1.5), TWO: (0.0,)}
SETS = 2


@dataclass(frozen=True)
class Condition:
    """A cell of the design."""

    answers: str
    n: int
    factors: int
    loadings: str
    correlations: str
    minor: bool


def conditions(*, quick: bool) -> Iterator[Condition]:
    rows, numbers = ((300,), (2,)) if quick else (ROWS, FACTORS)
    for one in product(LIMITS, rows, numbers, LOADINGS, CORRELATIONS, (False, True)):
        condition = Condition(*one)
        # A single factor has no correlations.
        if condition.factors > 1 or condition.correlations == "low":
            yield condition


def correlation(condition: Condition, rng: np.random.Generator) -> np.ndarray:
    """ΛΦΛᵀ + 0.1/K·MMᵀ with ones on the diagonal; drawn again until it is a correlation matrix."""
    k = condition.factors
    while True:
        factor = np.repeat(np.arange(k), rng.choice(ITEMS, k))
        loadings = np.eye(k)[factor] * rng.uniform(*LOADINGS[condition.loadings], (factor.size, 1))
        above = np.triu(rng.uniform(*CORRELATIONS[condition.correlations], (k, k)), 1)
        C = loadings @ (above + above.T + np.eye(k)) @ loadings.T
        if condition.minor:
            small = rng.uniform(-1, 1, (factor.size, MINOR * k))
            C += WEIGHT / k * small @ small.T
        np.fill_diagonal(C, 1)
        if np.linalg.eigvalsh(C)[0] > 0:
            return C


def drawn(condition: Condition, seed: int) -> np.ndarray:
    place = list(conditions(quick=False)).index(condition)
    rng = np.random.default_rng((seed, place))
    root = np.linalg.cholesky(correlation(condition, rng))
    X = rng.standard_normal((condition.n, len(root))) @ root.T
    return answers(X, LIMITS[condition.answers])


def answers(X: np.ndarray, limits: tuple[float, ...]) -> np.ndarray:
    """Numbers from 0 on of the categories between limits; X itself without limits."""
    return np.digitize(X, limits).astype(np.float64) if limits else X


Results = dict[Condition, list[Found]]


def reproduce(run: Run) -> Outcome:
    n = 1 if run.quick else SETS
    todo = list(conditions(quick=run.quick))
    results = {
        one: [found(drawn(one, seed), one.factors, seed) for seed in range(n)]
        for one in run.each(todo)
    }
    return Outcome(
        tuple(_lines(run, results)),
        setting=f"{n} data sets of each of {len(todo)} conditions without skew; categories are "
        "numbers from 0 on. Parallel analysis here has Pearson's correlations and the 95 % "
        "quantile.",
        seed=f"0 to {n - 1}",
        tables=(table(dict(_grouped(results))),),
        remarks=(run.printed["words"],),
    )


def _lines(run: Run, results: Results) -> Iterator[Comparison]:
    for scale, least in run.printed["right"].items():
        right = np.mean([one.right() for one in _of(results, answers=scale)])
        texts = f"at least {least:.1%}", f"{right:.1%}"
        yield claim(f"{scale}, K ≥ 2: right", *texts, holds=right >= least)


def _grouped(results: Results) -> Iterator[tuple[str, list[Found]]]:
    for scale in LIMITS:
        several = f"{scale}, K ≥ 2"
        yield several, _of(results, answers=scale)
        yield f"{several}, without minor factors", _of(results, answers=scale, minor=False)
        yield f"{several}, with minor factors", _of(results, answers=scale, minor=True)
        for n in dict.fromkeys(condition.n for condition in results):
            yield f"{several}, N = {n}", _of(results, answers=scale, n=n)
        if single := _of(results, answers=scale, factors=1):
            yield f"{scale}, K = 1", single


def _of(results: Results, **wanted: object) -> list[Found]:
    """What was found in conditions with these values; of two and more factors if not asked for."""
    return [
        one
        for condition, some in results.items()
        if (condition.factors > 1 or "factors" in wanted)
        and all(getattr(condition, name) == value for name, value in wanted.items())
        for one in some
    ]
