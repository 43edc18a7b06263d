"""How often the most probable number of components is right, against how often it says so.

White noise, five shapes, 0 to 5 components: strengths uniform from 0 to 6 times the detection
limit, and log-uniform from 0.5 to 30 times, neither of which is the prior. Noise that is not white
is in `reliability`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from bayespca.spectrum import Spectrum, posterior_of_rank, recoverable_strength, solve

from ..comparing import Comparison, claim
from ..drawing import panels
from ..records import Outcome, Run, Table
from .announced import Announced, minkas, normalised
from .kinds import SHAPES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETS, QUICK_SETS = 1000, 30
OURS, MINKA, ENERGY = "ours", "Minka's evidence", "exp(−F)"

Strengths = Callable[[np.random.Generator, int], np.ndarray]
FAMILIES: dict[str, Strengths] = {
    "uniform from 0 to 6": lambda rng, k: rng.uniform(0, 6, k),
    "log-uniform from 0.5 to 30": lambda rng, k: np.exp(rng.uniform(np.log(0.5), np.log(30), k)),
}


def spectra(strengths: Strengths, n_sets: int) -> Iterator[tuple[Spectrum, int]]:
    """Spectra of simulated data, and how many components can be recovered."""
    rng = np.random.default_rng(0)
    for i in range(n_sets):
        n, p = SHAPES[i % len(SHAPES)]
        k = int(rng.integers(6))
        t = strengths(rng, k)
        W = np.linalg.qr(rng.standard_normal((p, p)))[0][:k]
        scores = rng.standard_normal((n, k)) * np.sqrt(t * np.sqrt(p / (n - 1)))
        X = scores @ W + rng.standard_normal((n, p))
        gamma = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)[: min(n - 1, p)]
        least = recoverable_strength(p, n - 1) / np.sqrt(p / (n - 1))
        yield Spectrum(gamma, (p, n - 1)), int((t > least).sum())


WAYS: dict[str, Callable[[Spectrum], np.ndarray]] = {
    OURS: lambda spectrum: posterior_of_rank(spectrum).probabilities,
    MINKA: minkas,
    ENERGY: lambda spectrum: normalised(-solve(spectrum).rank_free_energies),
}


def announced(run: Run, strengths: Strengths, n_sets: int) -> dict[str, Announced]:
    drawn = list(spectra(strengths, n_sets))
    truth = [k for _, k in drawn]
    return {
        name: Announced.of([way(spectrum) for spectrum, _ in run.each(drawn)], truth)
        for name, way in run.each(WAYS.items())
    }


def reproduce(run: Run) -> Outcome:
    n_sets = QUICK_SETS if run.quick else SETS
    found = {
        name: announced(run, strengths, n_sets) for name, strengths in run.each(FAMILIES.items())
    }
    return Outcome(
        tuple(line for name, ways in found.items() for line in _lines(run, name, ways)),
        setting=f"{n_sets} data sets of {', '.join(f'{n}×{p}' for n, p in SHAPES)}; 0 to 5 "
        "components.",
        seed="0",
        figures={
            "Announced, and how often it is right; bars are standard errors. From left to right: "
            + "; ".join(found): _drawn(found)
        },
        tables=(_scores(found), _bins(found)),
        remarks=(run.printed["words"],),
    )


def _lines(run: Run, name: str, ways: dict[str, Announced]) -> Iterator[Comparison]:
    ours, most = ways[OURS], run.printed["error"]
    # Of ten bins with n sets in all, sampling alone gives about this.
    chance = 0.8 * np.sqrt(10 * 0.2 / ours.truth.size)
    yield claim(
        f"{name}: calibration error",
        f"at most {most}, and what sampling gives",
        f"{ours.error:.3f}",
        holds=ours.error <= most + chance,
    )
    for other, words in ((MINKA, "minka"), (ENERGY, "energy")):
        yield claim(
            f"{name}: log score, and that of {other}",
            run.printed[words],
            f"{ours.score:.2f} and {ways[other].score:.2f}",
            holds=ours.score > ways[other].score,
        )


def _scores(found: dict[str, dict[str, Announced]]) -> Table:
    rows = [
        (
            name,
            way,
            f"{one.error:.3f}",
            f"{one.score:.2f}",
            f"{one.highest.mean():.2f}",
            f"{one.right.mean():.2f}",
        )
        for name, ways in found.items()
        for way, one in ways.items()
    ]
    header = ("strengths", "by", "calibration error", "log score", "announced", "right")
    return Table("Probabilities of ranks.", header, tuple(rows))


def _bins(found: dict[str, dict[str, Announced]]) -> Table:
    rows = [(name, *row) for name, ways in found.items() for row in ways[OURS].rows()]
    header = ("strengths", "bin", "data sets", "announced", "right")
    return Table("Ours, in ten bins.", header, tuple(rows))


def _drawn(found: dict[str, dict[str, Announced]]) -> Figure:
    figure, axes = panels(len(found))
    for ax, ways in zip(axes, found.values(), strict=True):
        ways[OURS].draw(ax)
    return figure
