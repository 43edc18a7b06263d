"""What rules make of the data sets of a design, and the page's table of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from bayespca import BayesianPCA
from bayespca.spectrum import Spectrum, parallel_analysis, screenot

from ..claims.number import standardised
from ..comparing import NOTHING
from ..noise.peers import sign_flips
from ..records import Table

DEFAULT, EVB = "default", "EVB"
PARALLEL, SCREENOT, FLIPS = "parallel analysis", "ScreeNOT", "sign flips"
ER, GR = "ER", "GR"
RULES = (DEFAULT, EVB, PARALLEL, SCREENOT, FLIPS, ER, GR)
# ScreeNOT's bound of the rank, where the true one is smaller, and over the true one.
LARGEST, BOUND = 20, 1.5
# Draws of noise in parallel analysis.
DRAWS = 20
# The largest rank that ratios may have, where there are enough eigenvalues.
MOST = 8


@dataclass(frozen=True)
class Found:
    """What came out for a data set: the number of each rule that applies, and of the default its
    noise model, whether it announces a probability, and the squared error of its low-rank part:
    `loss` of all cells, `error` of one.
    """

    truth: int
    ranks: Mapping[str, int]
    noise: str
    announced: bool
    loss: float = np.nan
    error: float = np.nan

    def right(self, rule: str = DEFAULT) -> bool:
        return self.ranks[rule] == self.truth


def found(X: np.ndarray, rank: int, seed: int, signal: np.ndarray | None = None) -> Found:
    """Every rule for complete data; the default alone for data with holes.

    Where the default announces no probability, it keeps EVB's number.
    """
    model = BayesianPCA().fit(X)
    ranks, announced = {DEFAULT: model.n_components_}, model.rank_posterior_ is not None
    if not np.isnan(X).any():
        evb = BayesianPCA(n_components="evb").fit(X) if announced else model
        ranks |= {EVB: evb.n_components_, **others(X, rank, seed)}
    loss = np.nan if signal is None else float(np.sum((model.denoise(X) - signal) ** 2))
    return Found(rank, ranks, model.noise_, announced, loss, loss / X.size)


def others(X: np.ndarray, rank: int, seed: int) -> dict[str, int]:
    """Numbers of other rules. Parallel analysis sees columns of variance 1, the ratios data
    without means of columns and rows; ScreeNOT is given a bound by somebody who knows the rank.
    """
    largest = max(LARGEST, round(BOUND * rank))
    return {
        PARALLEL: parallel_analysis(spectrum(standardised(X)), n_draws=DRAWS, random_state=seed),
        SCREENOT: screenot(spectrum(X), largest),
        FLIPS: sign_flips(X, seed),
        ER: ratio_of_eigenvalues(squares(X)),
        GR: ratio_of_growth(squares(X)),
    }


def spectrum(X: np.ndarray) -> Spectrum:
    """That of the centred data."""
    n, p = X.shape
    gamma = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    return Spectrum(gamma[: min(p, n - 1)], (p, n - 1))


def squares(X: np.ndarray) -> np.ndarray:
    """μ₁ ≥ μ₂ ≥ …, the eigenvalues of XᵀX/np without means of columns and rows, and before them
    μ₀ = Σμ/log m, for which no component at all is a choice (Ahn and Horenstein 2013).
    """
    Z = X - X.mean(axis=0) - X.mean(axis=1, keepdims=True) + X.mean()
    mu = np.linalg.svd(Z, compute_uv=False) ** 2 / X.size
    return np.append(mu.sum() / np.log(mu.size), mu)


def ratio_of_eigenvalues(mu: np.ndarray) -> int:
    """ER: the k with the largest μₖ/μₖ₊₁."""
    most = _most(mu)
    return int(np.argmax(mu[: most + 1] / mu[1 : most + 2]))


def ratio_of_growth(mu: np.ndarray) -> int:
    """GR: the k with the largest log(1 + μₖ/V(k))/log(1 + μₖ₊₁/V(k + 1)), V(k) = Σ_(j>k) μⱼ."""
    most = _most(mu)
    left = np.cumsum(mu[::-1])[::-1]
    growth = np.log1p(mu[: most + 2] / left[1 : most + 3])
    return int(np.argmax(growth[:-1] / growth[1:]))


def _most(mu: np.ndarray) -> int:
    """The largest k, which needs two positive eigenvalues after its own; the last is zero, for
    means have been taken away.
    """
    return min(MOST, mu.size - 5)


CAPTION = (
    "How often the number is right, and in brackets the median error where it is not. ScreeNOT is "
    "given 1.5 times the rank as a bound, and at least 20."
)


def table(results: Mapping[str, Sequence[Found]]) -> Table:
    """How often each rule is right in each design."""
    header = ("data", "sets", *RULES, "noise of the default", "without a probability")
    return Table(CAPTION, header, tuple(_row(name, some) for name, some in results.items()))


def _row(name: str, some: Sequence[Found]) -> tuple[str, ...]:
    noises = Counter(one.noise for one in some).most_common()
    silent = sum(not one.announced for one in some)
    return (
        *(name, str(len(some)), *(_hits(rule, some) for rule in RULES)),
        ", ".join(f"{noise} ({count})" for noise, count in noises),
        str(silent),
    )


def _hits(rule: str, some: Sequence[Found]) -> str:
    """The share that is right, and the median of what is too much or too little where it is not."""
    asked = [one for one in some if rule in one.ranks]
    if not asked:
        return NOTHING
    wrong = [one.ranks[rule] - one.truth for one in asked if not one.right(rule)]
    share = f"{1 - len(wrong) / len(asked):.0%}"
    return f"{share} ({median(wrong):+g})" if wrong else share
