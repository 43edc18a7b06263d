"""How often EVB's rank is right under the noise that the evidence chooses, on data of known rank.

`claims/number` has the default's number.

The noise is white, or one of seven kinds that are not (`bayespca.datasets.noisy`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from statistics import median
from time import process_time
from typing import Any

import numpy as np

from bayespca import BayesianPCA
from bayespca.datasets import NoisyLowRank, noisy
from bayespca.spectrum import Spectrum, solve

from ..comparing import NOTHING, Comparison, claim
from ..drawing import COLOURS, REFERENCE, panels
from ..records import Outcome, Run, Table
from .peers import informed, installed, weighted_ways

KINDS = ("white", "columns", "rows", "both", "t3", "gross", "ar", "poisson")
# Samples, features, rank.
Size = tuple[int, int, int]
SMALL, LARGE, QUICK = (300, 20, 3), (500, 200, 5), (200, 60, 3)
STRONG, WEAK, NONE = 0.6, 0.2, 0.0
SEEDS, QUICK_SEEDS = 30, 1
# Data sets on which others are tried.
OTHERS, QUICK_OTHERS = 10, 1
# Kinds in the quick run, and those of pure noise.
QUICK_KINDS, QUICK_NOISE = KINDS[:-1], ("white", "columns")
# Data sets for the errors of the low-rank part.
PARTS = 5


@dataclass(frozen=True)
class Case:
    """A row of the table: data, what is done to them, and options of ours."""

    name: str
    kind: str
    size: Size
    strength: float = STRONG
    change: Callable[[np.ndarray, int], np.ndarray] = lambda X, seed: X
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def truth(self) -> int:
        return self.size[2] if self.strength else 0

    def made(self, seed: int) -> NoisyLowRank:
        return noisy(self.kind, *self.size, strength=self.strength, random_state=seed)

    def data(self, seed: int) -> np.ndarray:
        return self.change(self.made(seed).X, seed)


@dataclass(frozen=True)
class Found:
    """What came out for a case: ranks of each way, and of ours the noise and CPU seconds."""

    case: Case
    ranks: Mapping[str, list[int | None]]
    noises: Counter[str]
    seconds: list[float]

    def right(self, way: str) -> int:
        return sum(rank == self.case.truth for rank in self.ranks[way])


def large_column(X: np.ndarray, seed: int) -> np.ndarray:
    """One column in other units."""
    return X * np.where(np.arange(X.shape[1]) == 0, 1e6, 1.0)


def outlying_rows(X: np.ndarray, seed: int) -> np.ndarray:
    """Two rows at 100 standard deviations."""
    X = X.copy()
    X[:2] += 100 * X.std(axis=0) * np.random.default_rng((seed, 1)).standard_normal(X[:2].shape)
    return X


def cases(*, quick: bool) -> list[Case]:
    small = "300×20, rank 3, white"
    size = QUICK if quick else LARGE
    kinds, without = (QUICK_KINDS, QUICK_NOISE) if quick else (KINDS, KINDS[:-1])
    return [
        Case(small, "white", SMALL),
        Case(f"{small}, scale=True", "white", SMALL, options={"scale": True}),
        Case(f"{small}, one column times 1e6", "white", SMALL, change=large_column),
        Case(f"{small}, two outlying rows", "white", SMALL, change=outlying_rows),
        *_of_kinds(f"rank {size[2]}", kinds, size, STRONG),
        *(() if quick else _of_kinds(f"rank {size[2]}, weak", KINDS[:-1], size, WEAK)),
        *_of_kinds("pure noise", without, size, NONE),
    ]


def _of_kinds(words: str, kinds: Sequence[str], size: Size, strength: float) -> list[Case]:
    name = f"{size[0]}×{size[1]}, {words}"
    return [Case(f"{name}, {kind}", kind, size, strength) for kind in kinds]


def reproduce(run: Run) -> Outcome:
    n = QUICK_SEEDS if run.quick else SEEDS
    few = QUICK_OTHERS if run.quick else OTHERS
    found = [_found(run, case, n, few) for case in run.each(cases(quick=run.quick), 0.9)]
    return Outcome(
        tuple(_line(one, n, run.printed["right"]) for one in found),
        setting="bayespca.datasets.noisy; standard deviation of the loadings "
        f"{STRONG}, weak {WEAK}, pure noise 0.",
        seed=f"0 to {n - 1}",
        figures={
            "Ranks found on each kind of noise, a point for each data set: with the noise that the "
            "evidence chooses, and with one variance for all cells. The line is the truth.": (
                _figure(found)
            )
        },
        tables=(
            Table(
                f"How often the rank is right: the default and isotropic noise of {n} data sets, "
                f"others of the first {few}; in brackets the median of what is found "
                "where it is not. Seconds of CPU: medians of the default.",
                ("data", "default", "its noise", "seconds", *list(found[0].ranks)[1:]),
                tuple(_row(one) for one in found),
            ),
            _parts(QUICK, QUICK_NOISE, 1) if run.quick else _parts(LARGE, KINDS[:4], PARTS),
        ),
        remarks=(run.printed["words"],),
    )


def isotropic(X: np.ndarray, *, scale: bool = False) -> int:
    """The rank with one noise variance: that of `noise="isotropic"`, without a look at others."""
    Y = (X - X.mean(axis=0)) / (X.std(axis=0) if scale else 1.0)
    n, p = Y.shape
    gamma = np.linalg.svd(Y, compute_uv=False)[: min(p, n - 1)]
    return solve(Spectrum(gamma, (p, n - 1)), other_ranks=False).rank


def _found(run: Run, case: Case, n: int, few: int) -> Found:
    sets = [case.data(seed) for seed in range(n)]
    peers, options = installed(), case.options
    seconds: list[float] = []
    models = []
    for X in run.each(sets, 0.5):
        begin = process_time()
        models.append(BayesianPCA(n_components="evb", **options).fit(X))
        seconds.append(process_time() - begin)
    ranks: dict[str, list[int | None]] = {"default": [m.n_components_ for m in models]}
    ranks["isotropic"] = [isotropic(X, **options) for X in sets]
    some = sets[:few]
    chosen = BayesianPCA(n_components="evb", noise="per-feature", **options)
    ranks["per-feature"] = [chosen.fit(X).n_components_ for X in some]
    for name, rank in run.each(peers.items(), 0.5):
        ranks[name] = [rank(X, seed) for seed, X in enumerate(some)]
    return Found(case, ranks, Counter(model.noise_ for model in models), seconds)


def _line(found: Found, n: int, target: int) -> Comparison:
    """Pure noise has rank 0 in all data sets; other ranks are right in 28 of 30."""
    least = n if found.case.truth == 0 else ceil(target / SEEDS * n)
    right = found.right("default")
    return claim(
        found.case.name, f"at least {least} of {n}", f"{right} of {n}", holds=right >= least
    )


def _row(found: Found) -> tuple[str, ...]:
    default, *others = (_hits(found, way) for way in found.ranks)
    noises = ", ".join(
        name if len(found.noises) == 1 else f"{name} ({count})"
        for name, count in found.noises.most_common()
    )
    return found.case.name, default, noises, f"{median(found.seconds):.2f}", *others


def _hits(found: Found, way: str) -> str:
    ranks = [rank for rank in found.ranks[way] if rank is not None]
    if not ranks:
        return NOTHING
    wrong = [rank for rank in ranks if rank != found.case.truth]
    return f"{found.right(way)}" + (f" ({median(wrong):g})" if wrong else "")


# --- the low-rank part -------------------------------------------------------------------------


def _parts(size: Size, kinds: Sequence[str], n: int) -> Table:
    ways = {
        "default": lambda made: BayesianPCA().fit(made.X).denoise(made.X),
        "isotropic": lambda made: BayesianPCA(noise="isotropic").fit(made.X).denoise(made.X),
        "noise known": _knowing_errors,
        "rank and noise known": informed,
        **weighted_ways(),
    }
    rows = []
    for kind in kinds:
        sets = [noisy(kind, *size, random_state=seed) for seed in range(n)]
        errors = [np.mean([_error(one, way(one)) for one in sets]) for way in ways.values()]
        rows.append((kind, *(f"{error:.3f}" for error in errors)))
    return Table(
        f"Error of the low-rank part: root mean square in units of each cell's noise, mean of {n} "
        "data sets. With the noise known, ours is `fit(X, error_std=S)`, which finds the rank; "
        "with the rank known, too, truncated singular values of the data divided by their errors, "
        "and the package wpca.",
        ("noise", *ways),
        tuple(rows),
    )


def _knowing_errors(made: NoisyLowRank) -> np.ndarray:
    model = BayesianPCA().fit(made.X, error_std=np.sqrt(made.noise_variance))
    return model.denoise(made.X)


def _error(made: NoisyLowRank, part: np.ndarray) -> float:
    return float(np.sqrt(np.mean((part - made.signal) ** 2 / made.noise_variance)))


def _figure(found: list[Found]):
    shown = [one for one in found if one.case.strength == STRONG and one.case.size != SMALL]
    figure, (ax,) = panels(1, width=8, height=3.6)
    for place, one in enumerate(shown):
        ax.hlines(one.case.truth, place - 0.4, place + 0.4, color=REFERENCE, linewidth=1)
        for shift, way, colour in ((-0.15, "default", "evb"), (0.15, "isotropic", "epb")):
            ranks = np.array(one.ranks[way], dtype=float)
            spread = np.linspace(-0.1, 0.1, ranks.size)
            label = None if place else way
            ax.plot(place + shift + spread, ranks, ".", color=COLOURS[colour], label=label)
    ax.set_xticks(range(len(shown)), [one.case.kind for one in shown])
    ax.set(ylabel="rank found", yscale="symlog")
    ax.set_yticks([0, 1, 2, 5, 10, 20, 50, 100], ["0", "1", "2", "5", "10", "20", "50", "100"])
    ax.legend(frameon=False)
    return figure
