"""Rules for the number of components, side by side, and the probabilities that are announced.

Four groups of data whose number is known: kinds that differ from what a PCA assumes; wine drawn
again with 3 to 6 factors; other tables drawn again with their own residuals; and the kinds of noise
of `bayespca.datasets.noisy`. Then what is announced for real tables (`real`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from math import ceil

import numpy as np

from bayespca import BayesianPCA
from bayespca.datasets import noisy
from bayespca.spectrum import minka

from ..comparing import NOTHING, Comparison, claim, shown
from ..data import Data, Missing
from ..noise.ranks import KINDS as NOISES
from ..noise.ranks import LARGE, SEEDS
from ..records import Outcome, Run, Table
from . import real, structures
from .announced import Announced
from .reliability import plain

SETS, QUICK_SETS = 20, 1
STRUCTURES, WINE, RESIDUALS, NOISE = "structures", "wine", "residuals", "noise"
QUICK_KINDS = ("white", "clusters", "batches", "twenty-rows")
FACTORS, QUICK_FACTORS = (3, 4, 5, 6), (3,)
# Tables, their factors, the array in their file, and which of their rows are taken: one of so many.
TABLES = {
    "breast_cancer": (4, "X", 1),
    "diabetes": (2, "X", 1),
    "glass": (3, "X", 1),
    "satellite": (4, "X", 8),
    "metabolite": (5, "X_complete", 1),
    "oilflow": (3, "X", 1),
}
QUICK_TABLES = ("diabetes",)
QUICK_NOISES = ("white", "both")
# Parallel analysis: permutations, and the quantile of their singular values that is to be exceeded.
PERMUTATIONS, QUANTILE = 20, 0.95

DEFAULT, EVB, PARALLEL = "default", "EVB", "parallel analysis"
# Minka's evidence of data as they are, and with columns of variance 1.
MINKA, SCALED = "Minka", "Minka, scaled"
BOUNDS = (0.9, 0.75)


def of_bound(bound: float) -> str:
    return f"≥ {bound:.0%}"


RULES = (DEFAULT, EVB, *map(of_bound, BOUNDS), PARALLEL, MINKA, SCALED)


@dataclass(frozen=True)
class Case:
    """A kind of data in a group, and how a seed draws them."""

    group: str
    kind: str
    draw: Callable[[int], structures.Sample]


@dataclass(frozen=True)
class Numbers:
    """What came out for data sets: true numbers, those of each rule, and probabilities.

    There are no probabilities where the data do not determine the number.
    """

    truth: np.ndarray
    rules: dict[str, np.ndarray]
    posteriors: tuple[np.ndarray | None, ...]

    @classmethod
    def joined(cls, several: Iterable[Numbers]) -> Numbers:
        some = list(several)
        return cls(
            np.concatenate([one.truth for one in some]),
            {rule: np.concatenate([one.rules[rule] for one in some]) for rule in RULES},
            tuple(p for one in some for p in one.posteriors),
        )

    def right(self, rule: str) -> float:
        return float((self.rules[rule] == self.truth).mean())

    @property
    def determined(self) -> np.ndarray:
        return np.array([p is not None for p in self.posteriors])

    @property
    def announced(self) -> Announced | None:
        known = [p for p in self.posteriors if p is not None]
        return Announced.of(known, self.truth[self.determined]) if known else None

    def kept(self) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities of the number kept, and of at least that number, where there are any."""
        pairs = [
            (float(p[k : k + 1].sum()), float(p[k:].sum()))
            for k, p in zip(self.rules[DEFAULT], self.posteriors, strict=True)
            if p is not None
        ]
        exactly, at_least = np.array(pairs).reshape(-1, 2).T
        return exactly, at_least


# --- rules -------------------------------------------------------------------------------------


def numbers(case: Case, seeds: Iterable[int]) -> Numbers:
    truth: list[int] = []
    rules: dict[str, list[int]] = {rule: [] for rule in RULES}
    posteriors = []
    for seed in seeds:
        X, rank = case.draw(seed)
        truth.append(rank)
        model = BayesianPCA().fit(X)
        known = model.rank_posterior_
        posteriors.append(known)
        evb = model.n_components_ if known is None else real.evb(X)
        rules[DEFAULT].append(model.n_components_)
        rules[EVB].append(evb)
        for bound in BOUNDS:
            rules[of_bound(bound)].append(evb if known is None else at_least(known, bound))
        rules[PARALLEL].append(parallel_analysis(X, seed))
        rules[MINKA].append(minka(plain(X)).rank)
        rules[SCALED].append(minka(plain(standardised(X))).rank)
    return Numbers(
        np.array(truth),
        {rule: np.array(values) for rule, values in rules.items()},
        tuple(posteriors),
    )


def at_least(probabilities: np.ndarray, bound: float) -> int:
    """The largest number of which there are at least as many with this probability."""
    return int(np.flatnonzero(probabilities[::-1].cumsum()[::-1] >= bound - 1e-9).max())


def standardised(X: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and variance 1, without constant ones."""
    varying = X[:, np.ptp(X, axis=0) > 0]
    return (varying - varying.mean(axis=0)) / varying.std(axis=0)


def parallel_analysis(X: np.ndarray, seed: int) -> int:
    """Number of leading singular values above those of data whose columns are permuted (Horn 1965).

    Columns are standardised and permuted each on its own (Buja and Eyuboglu 1992).
    """
    Z, rng = standardised(X), np.random.default_rng((seed, 3))
    null = [np.linalg.svd(rng.permuted(Z, axis=0), compute_uv=False) for _ in range(PERMUTATIONS)]
    above = np.linalg.svd(Z, compute_uv=False) > np.quantile(null, QUANTILE, axis=0)
    return int(np.logical_and.accumulate(above).sum())


# --- data --------------------------------------------------------------------------------------


def cases(data: Data, *, quick: bool, reasons: set[str]) -> Iterator[Case]:
    """All kinds of data; reasons why some are left out are added."""
    for kind in QUICK_KINDS if quick else structures.KINDS:
        yield Case(STRUCTURES, kind, partial(structures.sample, kind))
    wine = data.table("wine")
    for k in QUICK_FACTORS if quick else FACTORS:
        factors = structures.Factors.of(wine, k)
        for rows in structures.ROWS:
            yield Case(WINE, f"{k}, {rows}", partial(factors.drawn, rows))
    for name in QUICK_TABLES if quick else TABLES:
        k, key, step = TABLES[name]
        try:
            table = data.table(name, key)[::step]
        except Missing as reason:
            reasons.add(str(reason))
            continue
        yield Case(
            RESIDUALS, f"{name}, {k}", partial(structures.Factors.of(table, k).drawn, "residuals")
        )
    for kind in QUICK_NOISES if quick else NOISES:
        yield Case(NOISE, kind, partial(with_noise, kind))


def with_noise(kind: str, seed: int) -> structures.Sample:
    return noisy(kind, *LARGE, random_state=seed).X, LARGE[-1]


# --- the page ----------------------------------------------------------------------------------


def reproduce(run: Run) -> Outcome:
    n = QUICK_SETS if run.quick else SETS
    reasons: set[str] = set()
    todo = list(cases(run.data, quick=run.quick, reasons=reasons))
    results = {case: numbers(case, run.each(range(n))) for case in run.each(todo, 0.6)}
    said, changed = real.results(run, 0.4, reasons)
    return Outcome(
        (*_lines(run, results, n), *real.lines(run, said, changed)),
        setting=f"{n} data sets of each kind; BayesianPCA(), and BayesianPCA(n_components='evb'). "
        f"Parallel analysis ({PERMUTATIONS} permutations, {QUANTILE:.0%} quantile) sees columns of "
        "variance 1, Minka's evidence also data as they are. " + real.SETTING,
        seed=f"0 to {n - 1}",
        tables=(_rules(results), _probabilities(results), *real.tables(said, changed)),
        remarks=(run.printed["words"], *sorted(reasons)),
    )


def grouped(results: dict[Case, Numbers]) -> dict[str, Numbers]:
    groups = dict.fromkeys(case.group for case in results)
    return {
        group: Numbers.joined(one for case, one in results.items() if case.group == group)
        for group in groups
    }


def _lines(run: Run, results: dict[Case, Numbers], n: int) -> Iterator[Comparison]:
    groups = grouped(results)
    for group, one in groups.items():
        if group in run.printed["right"]:
            least, right = run.printed["right"][group], one.right(DEFAULT)
            yield claim(
                f"{group}: right", f"at least {least:.2f}", f"{right:.3f}", holds=right >= least
            )
    for case, one in results.items():
        right = round(one.right(DEFAULT) * n)
        least = {STRUCTURES: 1, NOISE: ceil(run.printed["noise"] / SEEDS * n)}.get(case.group)
        if least is not None:
            yield claim(
                f"{case.group}: {case.kind}",
                f"right in at least {least} of {n}",
                f"{right} of {n}",
                holds=right >= least,
            )
    for group, one in groups.items():
        if (announced := one.announced) is not None and not run.quick:
            yield claim(
                f"{group}: calibration error",
                f"at most {run.printed['error']}",
                f"{announced.error:.3f}",
                holds=announced.error <= run.printed["error"],
            )
    whole = Numbers.joined(results.values())
    yield shown("data sets without a probability", f"{(~whole.determined).mean():.0%}")


def _rows(results: dict[Case, Numbers]) -> Iterator[tuple[str, str, Numbers]]:
    """Group, kind and results, with a row for all kinds after those of each group."""
    for group, whole in grouped(results).items():
        yield from ((group, case.kind, one) for case, one in results.items() if case.group == group)
        yield group, "all", whole


def _rules(results: dict[Case, Numbers]) -> Table:
    rows = [
        (
            *(group, kind, "/".join(map(str, np.unique(one.truth))) if kind != "all" else NOTHING),
            *(f"{one.right(rule):.2f}" for rule in RULES),
            f"{(one.rules[DEFAULT] - one.truth).mean():+.2f}",
        )
        for group, kind, one in _rows(results)
    ]
    header = ("group", "data", "true number", *RULES, "default: too many by")
    caption = (
        "How often each rule is right. Where no probability is announced, the default and the "
        "bounds are EVB's number."
    )
    return Table(caption, header, tuple(rows))


def _probabilities(results: dict[Case, Numbers]) -> Table:
    rows = [
        (group, kind, f"{(~one.determined).mean():.2f}", *_announced(one))
        for group, kind, one in _rows(results)
    ]
    header = (
        *("group", "data", "not determined", "P(= kept)", "right", "P(≥ kept)", "at least as many"),
        *("announced", "right", "calibration error", "sampling gives up to"),
        "log score",
    )
    caption = (
        "What is announced, and how often it is true; means over the data sets with a probability."
    )
    return Table(caption, header, tuple(rows))


def _announced(one: Numbers) -> tuple[str, ...]:
    announced = one.announced
    if announced is None:
        return (NOTHING,) * 9
    kept, truth = one.rules[DEFAULT][one.determined], announced.truth
    exactly, least = one.kept()
    means = (
        *(exactly.mean(), (kept == truth).mean(), least.mean(), (kept <= truth).mean()),
        *(announced.highest.mean(), announced.right.mean(), announced.error),
        *(announced.chance(), announced.score),
    )
    return tuple(f"{value:.2f}" for value in means)
