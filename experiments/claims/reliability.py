"""The probability of a number of components under each kind of noise, with nothing chosen.

As in `ranks`, but data are fitted by `BayesianPCA()`, which finds its noise as well.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayespca import BayesianPCA
from bayespca.spectrum import Spectrum, posterior_of_rank

from ..comparing import NOTHING, Comparison, claim
from ..drawing import panels
from ..records import Outcome, Run, Table
from .announced import Announced, minkas
from .kinds import KINDS, MOST, SHAPES, STRONGEST, Made, made

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETS, QUICK_SETS = 150, 16
OURS, MINKA, WHITE = "ours", "Minka's evidence", "Minka's evidence, our noise"


@dataclass(frozen=True)
class Fitted:
    """What came out for the data sets of a kind: probabilities by each way, ranks, noises.

    `known` are probabilities for one who knows the noise, where it can be made white.
    """

    ways: dict[str, Announced]
    known: Announced | None
    kept: np.ndarray
    noises: Counter[str]


def plain(X: np.ndarray) -> Spectrum:
    """Singular values of centred data, as they are."""
    n, p = X.shape
    gamma = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    return Spectrum(gamma[: min(n - 1, p)], (p, n - 1))


def fitted(run: Run, sets: list[Made]) -> Fitted:
    # Sets that do not determine a number have no probabilities to judge.
    every = [(BayesianPCA().fit(one.X), one) for one in run.each(sets)]
    known = [pair for pair in every if pair[0].rank_posterior_ is not None]
    models, sets = [model for model, _ in known], [one for _, one in known]
    ways = {
        OURS: [model.rank_posterior_ for model in models],
        MINKA: [minkas(plain(one.X)) for one in sets],
        WHITE: [minkas(model.spectrum_) for model in models],
    }
    truth = [one.truth for one in sets]
    white = [
        posterior_of_rank(plain(one.white)).probabilities for one in sets if one.white is not None
    ]
    return Fitted(
        {name: Announced.of(found, truth) for name, found in ways.items()},
        Announced.of(white, truth) if white else None,
        np.array([model.n_components_ for model in models]),
        Counter(model.noise_ for model in models),
    )


def reproduce(run: Run) -> Outcome:
    n_sets = QUICK_SETS if run.quick else SETS
    found = {kind: fitted(run, list(made(kind, n_sets))) for kind in run.each(KINDS)}
    return Outcome(
        tuple(line for kind, one in found.items() for line in _lines(run, kind, one)),
        setting=f"{n_sets} data sets of each kind, of {', '.join(f'{n}×{p}' for n, p in SHAPES)}; "
        f"0 to {MOST} components, strengths uniform from 0 to {STRONGEST:.0f} times the limit; "
        "BayesianPCA().",
        seed=f"0 to {n_sets - 1}",
        figures={
            "Announced, and how often it is right; bars are standard errors. From left to right: "
            + ", ".join(found): _drawn(found)
        },
        tables=(_scores(found), _bins(found)),
        remarks=(run.printed["words"],),
    )


def _lines(run: Run, kind: str, found: Fitted) -> list[Comparison]:
    ours, other = found.ways[OURS], found.ways[MINKA]
    most = run.printed["error"] + ours.chance()
    error = claim(
        f"{kind}: calibration error",
        f"at most {run.printed['error']}, and what sampling gives: {most:.2f}",
        f"{ours.error:.2f}",
        holds=ours.error <= most,
    )
    score = claim(
        f"{kind}: log score, and that of Minka's evidence",
        run.printed["minka"],
        f"{ours.score:.2f} and {other.score:.2f}",
        holds=ours.score > other.score,
    )
    # Sixteen data sets say nothing of calibration.
    return [score] if run.quick else [error, score]


def _scores(found: dict[str, Fitted]) -> Table:
    rows = []
    for kind, one in found.items():
        ours = one.ways[OURS]
        truth = ours.truth
        rows.append(
            (
                kind,
                _listed(one.noises),
                f"{ours.highest.mean():.2f}",
                f"{ours.right.mean():.2f}",
                f"{one.known.right.mean():.2f}" if one.known else NOTHING,
                f"{(one.kept == truth).mean():.2f}",
                f"{(ours.probabilities.argmax(axis=1) - truth).mean():+.2f}",
                f"{ours.error:.2f}",
                f"{ours.chance():.2f}",
                *(f"{way.score:.2f}" for way in one.ways.values()),
            )
        )
    header = (
        *("noise", "model chosen", "announced", "right", "right if the noise were known"),
        *("EVB right", "too many by", "error"),
        *("sampling gives up to", *(f"log score: {name}" for name in (OURS, MINKA, WHITE))),
    )
    return Table("By kind of noise.", header, tuple(rows))


def _listed(noises: Counter[str]) -> str:
    return ", ".join(
        f"{name} {count / noises.total():.0%}" for name, count in noises.most_common(3)
    )


def _bins(found: dict[str, Fitted]) -> Table:
    rows = [(kind, *row) for kind, one in found.items() for row in one.ways[OURS].rows()]
    header = ("noise", "bin", "data sets", "announced", "right")
    return Table("In ten bins.", header, tuple(rows))


def _drawn(found: dict[str, Fitted]) -> Figure:
    figure, axes = panels(len(found), width=2.6, height=2.8)
    for ax, (kind, one) in zip(axes, found.items(), strict=True):
        one.ways[OURS].draw(ax)
        ax.set_title(kind)
    return figure
