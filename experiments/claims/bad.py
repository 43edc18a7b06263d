"""Data that are not what a PCA takes them for, and the sentence that each kind gets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from bayespca import BayesianPCA
from bayespca.datasets import noisy

from ..comparing import NOTHING, Comparison, claim
from ..records import Outcome, Run, Table
from .holes import drawn
from .kinds import SHAPES

SEEDS, QUICK_SEEDS = 20, 1
NAMES = ("age", "weight", "bp", "pulse", "glucose", "sodium", "iron", "lipids")
# Codes of checks of the data; others speak of the answer.
# That of the holes has its own program.
CHECKS = (
    *("dependent-columns", "ordered-rows", "dominating-row", "outlying-rows", "zero-one", "counts"),
    *("near-rank-bound", "other-noise"),
)
CLEAN, QUICK_CLEAN = 1000, 10


@dataclass(frozen=True)
class Kind:
    """Bad data: how they are made, the true number of components, and the code of the sentence."""

    made: Callable[[np.random.Generator], Any]
    truth: int | None
    code: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Seen:
    """What fits of such data found and said."""

    said: list[str]
    ranks: list[int]
    probabilities: list[float]

    @property
    def share(self) -> float:
        return float(np.mean([bool(text) for text in self.said]))


def table(rng: np.random.Generator, n: int = 120) -> pd.DataFrame:
    """A clean table with two components."""
    X = noisy("white", n, len(NAMES), 2, strength=1.0, random_state=rng).X
    return pd.DataFrame(X, columns=list(NAMES))


def with_a_row(rng: np.random.Generator) -> pd.DataFrame:
    made = table(rng)
    made.iloc[7] += 60 * rng.standard_normal(len(NAMES))
    return made


def with_a_copy(rng: np.random.Generator) -> pd.DataFrame:
    return table(rng).assign(bp2=lambda t: t.bp)


def with_a_sum(rng: np.random.Generator) -> pd.DataFrame:
    return table(rng).assign(total=lambda t: t.sodium + t.iron + t.lipids)


def walks(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((300, 30)).cumsum(axis=0)


def nearly_full(rng: np.random.Generator) -> np.ndarray:
    return noisy("white", 200, 10, 9, strength=5.0, random_state=rng).X


def counted(rng: np.random.Generator) -> np.ndarray:
    rates = np.exp(rng.normal(size=12) + 0.5 * rng.normal(size=(200, 1)))
    return rng.poisson(rates).astype(float)


def yes_or_no(rng: np.random.Generator) -> np.ndarray:
    return (table(rng) > 0.5).to_numpy(dtype=float)


def above_a_limit(rng: np.random.Generator) -> pd.DataFrame:
    made = table(rng, 200)
    own = made.corr().abs().sum().idxmax()
    return made.assign(**{own: made[own].where(made[own] < 0.5)})


def unequal(rng: np.random.Generator) -> np.ndarray:
    return noisy("columns", 200, 20, 2, random_state=rng).X


PLAIN = {"noise": "isotropic"}
KINDS = {
    "one row dominates a component": Kind(with_a_row, 2, "dominating-row", PLAIN),
    "the same, nothing chosen": Kind(with_a_row, 2, "outlying-rows"),
    "rows in order and correlated: independent random walks": Kind(walks, 0, "series"),
    "nearly every direction kept": Kind(nearly_full, 9, "not-determined", PLAIN),
    "a column that equals another": Kind(with_a_copy, 2, "dependent-columns"),
    "a column that is the sum of others": Kind(with_a_sum, 2, "dependent-columns"),
    "counts in a normal model": Kind(counted, None, "counts", PLAIN),
    "zeros and ones in a normal model": Kind(yes_or_no, None, "zero-one"),
    "cells missing above a limit": Kind(above_a_limit, 2, "not-at-random"),
    "noise of columns where equal noise was asked for": Kind(unequal, 2, "other-noise", PLAIN),
}


def reproduce(run: Run) -> Outcome:
    n = QUICK_SEEDS if run.quick else SEEDS
    found = {name: seen(kind, run.each(range(n))) for name, kind in run.each(KINDS.items(), 0.9)}
    n_clean = QUICK_CLEAN if run.quick else CLEAN
    return Outcome(
        (*_lines(run, found), *_clean(run, n_clean)),
        setting=f"{n} data sets of each kind; BayesianPCA(), or with noise='isotropic' where so "
        f"said; {n_clean} clean ones of {', '.join(f'{a}×{b}' for a, b in SHAPES)}, with 0 to 5 "
        "components and white noise, fitted both ways.",
        seed=f"0 to {n - 1}",
        tables=(_table(found),),
        remarks=(run.printed["words"],),
    )


def seen(kind: Kind, seeds: Iterable[int]) -> Seen:
    models = [
        BayesianPCA(**kind.options).fit(kind.made(np.random.default_rng(seed))) for seed in seeds
    ]
    said = [sentence(model, kind.code) for model in models]
    ranks = [model.n_components_ for model in models]
    known = [model.rank_posterior_ for model in models if model.rank_posterior_ is not None]
    return Seen(said, ranks, [float(probabilities.max()) for probabilities in known])


def sentence(model: BayesianPCA, code: str) -> str:
    return next((item.text for item in model.status_.advice if item.code == code), "")


def _lines(run: Run, found: dict[str, Seen]) -> Iterator[Comparison]:
    for name, one in found.items():
        example = next((text for text in one.said if text), NOTHING)
        yield claim(name, run.printed["said"], example, holds=one.share >= run.printed["often"])


def _clean(run: Run, n: int) -> Iterator[Comparison]:
    """A line for each check: how often it speaks of data that are what they are taken for."""
    said: Counter[str] = Counter()
    for seed in run.each(range(n), 0.1):
        X = drawn(seed, np.random.default_rng(seed))
        statuses = [BayesianPCA(**options).fit(X).status_ for options in ({}, PLAIN)]
        said.update(code for code in CHECKS if any(code in status for status in statuses))
    for code in CHECKS:
        yield claim(
            f"clean data: false alarms, {code}",
            run.printed["silence"],
            f"{said[code]} of {n}",
            holds=said[code] <= max(1, run.printed["alarms"] * n),
        )


def _table(found: dict[str, Seen]) -> Table:
    rows = []
    for name, one in found.items():
        kind = KINDS[name]
        rows.append(
            (
                name,
                ", ".join(f"{key}={value!r}" for key, value in kind.options.items()) or "default",
                NOTHING if kind.truth is None else str(kind.truth),
                f"{np.median(one.ranks):.0f}",
                f"{np.median(one.probabilities):.2f}" if one.probabilities else NOTHING,
                f"{one.share:.2f}",
            )
        )
    header = (
        *("data", "fitted with", "true number of components", "found"),
        *("probability announced", "share that gets the sentence"),
    )
    caption = "What would have been believed, and how often the sentence is there; medians."
    return Table(caption, header, tuple(rows))
