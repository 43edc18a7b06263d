"""All solutions of SC⁻¹V = V with σ² given: what they are, and which is the maximum.

σ² is below all eigenvalues, so that each of them can be in V. A solution has some of the
eigenvectors in its span, as many as one likes up to s; where these are not the first ones, the
likelihood has directions in which it rises (Tipping and Bishop, "Probabilistic principal component
analysis", 1999, Appendix A).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ..comparing import claim
from ..drawing import COLOURS, REFERENCE, panels
from ..records import Outcome, Run
from .likelihood import covariance, eigen, gradient, log_likelihood, simulated

N, D, S_ = 200, 6, 2
VARIANCES = (8.0, 4.0, 2.0)
# σ², over the smallest eigenvalue.
SHARE = 0.9
STEP = 1e-4
# Of a second derivative, over the largest one: smaller ones are those of rotations, 0 but for
# rounding and the step.
FLAT = 1e-5


@dataclass(frozen=True)
class Solution:
    """Eigenvectors that are in V, V, the likelihood, and directions in which it rises."""

    kept: tuple[int, ...]
    V: np.ndarray
    height: float
    rising: int


def solution(kept: tuple[int, ...], s2: float, S: np.ndarray) -> Solution:
    """V with these eigenvectors."""
    values, U = eigen(S)
    V = np.zeros((D, S_))
    for column, j in enumerate(kept):
        V[:, column] = np.sqrt(values[j] - s2) * U[:, j]
    curved = curvature(V, s2, S)
    rising = int(np.sum(curved < -FLAT * np.abs(curved).max()))
    return Solution(kept, V, log_likelihood(V, s2, S, N), rising)


def curvature(V: np.ndarray, s2: float, S: np.ndarray) -> np.ndarray:
    """Eigenvalues of the second derivatives of −2/n log-likelihood, by differences of gradients."""
    columns = []
    for place in np.ndindex(V.shape):
        moved = np.zeros_like(V)
        moved[place] = STEP
        change = gradient(V + moved, s2, S) - gradient(V - moved, s2, S)
        columns.append(change.ravel() / (2 * STEP))
    H = np.array(columns)
    return np.asarray(np.linalg.eigvalsh((H + H.T) / 2))


def left_over(V: np.ndarray, s2: float, S: np.ndarray) -> float:
    """The largest entry of SC⁻¹V − V."""
    C = V @ V.T + s2 * np.eye(len(S))
    return float(np.abs(S @ np.linalg.solve(C, V) - V).max())


def reproduce(run: Run) -> Outcome:
    S = covariance(simulated(N, VARIANCES, D))
    values, U = eigen(S)
    choices = [kept for size in range(S_ + 1) for kept in combinations(range(D), size)]
    s2 = SHARE * float(values[-1])
    found = [solution(kept, s2, S) for kept in choices]
    best = max(found, key=lambda one: one.height)
    some = [one for one in found if one.kept]
    whole = U[:, :-1] * np.sqrt(values[:-1] - values[-1])
    maxima = [one.kept for one in found if not one.rising]
    lines = (
        _gradient(run, S),
        claim(
            "V = 0",
            run.printed["trivial"],
            f"left over: {left_over(np.zeros((D, S_)), s2, S):.1g}",
            holds=left_over(np.zeros((D, S_)), s2, S) == 0,
        ),
        claim(
            "C = S",
            run.printed["all_of_it"],
            f"s = {D - 1} and σ² = λ_{D}: VVᵀ + σ²I is "
            f"{np.abs(whole @ whole.T + values[-1] * np.eye(D) - S).max():.1g} from S, left over: "
            f"{left_over(whole, values[-1], S):.1g}",
            holds=left_over(whole, values[-1], S) < 1e-12,
        ),
        claim(
            "C ≠ S, V ≠ 0",
            run.printed["some_of_it"],
            f"{len(some)} choices of up to {S_} of {D} eigenvectors, left over at most "
            f"{max(left_over(one.V, s2, S) for one in some):.1g}",
            holds=max(left_over(one.V, s2, S) for one in some) < 1e-12,
        ),
        claim(
            "the highest of them",
            run.printed["greatest"],
            f"eigenvectors {_named(best.kept)}; the only one without a direction in which the "
            "likelihood rises"
            if maxima == [best.kept]
            else f"eigenvectors {_named(best.kept)}; without a direction in which the likelihood "
            f"rises: {', '.join(map(_named, maxima))}",
            holds=best.kept == tuple(range(S_)) and maxima == [best.kept],
        ),
        _arbitrary(run, s2, S, some),
    )
    return Outcome(
        lines,
        setting=f"{N} rows of {D} features without a mean, variances {VARIANCES} along three "
        f"directions, and noise of variance 1; s = {S_}, σ² = {SHARE} λ_{D}.",
        seed="0",
        figures={
            "Log-likelihood of all solutions, by the eigenvectors that they have. Numbers: in how "
            "many directions the likelihood rises from there.": _figure(found, best)
        },
    )


def _gradient(run, S):
    """The note's gradient beside differences of the likelihood."""
    V = np.random.default_rng(1).normal(size=(D, S_))
    apart = 0.0
    for place in np.ndindex(V.shape):
        moved = np.zeros_like(V)
        moved[place] = STEP
        rise = log_likelihood(V + moved, 1.0, S, N) - log_likelihood(V - moved, 1.0, S, N)
        apart = max(apart, abs(-2 / N * rise / (2 * STEP) - gradient(V, 1.0, S)[place]))
    return claim(
        "gradient in V",
        run.printed["gradient"],
        f"{apart:.1g} from differences of the log-likelihood",
        holds=bool(apart < 1e-6),
    )


def _arbitrary(run, s2, S, some):
    """With l_j = 0 any direction will do for u_j: V has it with weight 0, whatever it is."""
    one = next(solution for solution in some if len(solution.kept) == 1)
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(10):
        W = np.linalg.qr(rng.normal(size=(S_, S_)))[0]
        worst = max(worst, left_over(one.V @ W.T, s2, S))
    return claim(
        "l_j = 0",
        run.printed["arbitrary"],
        f"eigenvector {_named(one.kept)} alone, ten rotations: left over at most {worst:.1g}",
        holds=worst < 1e-12,
    )


def _named(kept: tuple[int, ...]) -> str:
    return "{" + ", ".join(str(j + 1) for j in kept) + "}"


def _figure(found, best):
    figure, (ax,) = panels(1, width=7.2, height=3.6)
    ordered = sorted(found, key=lambda one: -one.height)
    places = np.arange(len(ordered))
    most = max(one.rising for one in ordered)
    for place, one in zip(places, ordered, strict=True):
        colour = COLOURS["evb"] if one is best else REFERENCE
        ax.plot(place, one.height, "o", color=colour, alpha=1 - 0.6 * one.rising / max(most, 1))
        ax.annotate(
            str(one.rising), (place, one.height), (0, 6), textcoords="offset points", ha="center"
        )
    ax.set_xticks(places, [_named(one.kept) for one in ordered], rotation=60, fontsize=8)
    ax.set(xlabel="eigenvectors in V", ylabel="log-likelihood, nats")
    ax.margins(y=0.12)
    return figure
