"""How often the most probable number of components is right, against how often it says so.

White noise, five shapes, 0 to 5 components: strengths uniform from 0 to 6 times the detection
limit, and log-uniform from 0.5 to 30 times, neither of which is the prior; then noise that is not
white.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayespca import BayesianPCA
from bayespca.datasets import noisy
from bayespca.spectrum import Spectrum, minka, posterior_of_rank, solve

from ..comparing import Comparison, claim
from ..drawing import panels
from ..records import Outcome, Run, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHAPES = ((30, 13), (60, 20), (100, 40), (200, 15), (40, 90))
SETS, QUICK_SETS = 1000, 60
KINDS = ("white", "columns", "rows", "both", "t3", "gross", "ar", "poisson")
SIZE = (200, 30, 3)
SEEDS, QUICK_SEEDS = 6, 1
LEAST = 1e-12
OURS, MINKA, ENERGY = "ours", "Minka's evidence", "exp(−F)"

Strengths = Callable[[np.random.Generator, int], np.ndarray]
FAMILIES: dict[str, Strengths] = {
    "uniform from 0 to 6": lambda rng, k: rng.uniform(0, 6, k),
    "log-uniform from 0.5 to 30": lambda rng, k: np.exp(rng.uniform(np.log(0.5), np.log(30), k)),
}


@dataclass(frozen=True)
class Announced:
    """Probabilities of ranks, a row for each data set, and the true numbers."""

    probabilities: np.ndarray
    truth: np.ndarray

    @property
    def highest(self) -> np.ndarray:
        return self.probabilities.max(axis=1)

    @property
    def right(self) -> np.ndarray:
        return self.probabilities.argmax(axis=1) == self.truth

    @property
    def bins(self) -> np.ndarray:
        return np.minimum((10 * self.highest).astype(int), 9)

    @property
    def error(self) -> float:
        """Mean difference of what is announced and what is right, over bins."""
        gaps = [
            abs(self.highest[inside].mean() - self.right[inside].mean()) * inside.mean()
            for inside in (self.bins == b for b in range(10))
            if inside.any()
        ]
        return float(sum(gaps))

    @property
    def score(self) -> float:
        own = self.probabilities[np.arange(self.truth.size), self.truth]
        return float(np.log(np.maximum(own, LEAST)).mean())


def spectra(strengths: Strengths, n_sets: int) -> Iterator[tuple[Spectrum, int]]:
    """Spectra of simulated data, and how many components are above the limit."""
    rng = np.random.default_rng(0)
    for i in range(n_sets):
        n, p = SHAPES[i % len(SHAPES)]
        k = int(rng.integers(6))
        t = strengths(rng, k)
        W = np.linalg.qr(rng.standard_normal((p, p)))[0][:k]
        scores = rng.standard_normal((n, k)) * np.sqrt(t * np.sqrt(p / (n - 1)))
        X = scores @ W + rng.standard_normal((n, p))
        gamma = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)[: min(n - 1, p)]
        yield Spectrum(gamma, (p, n - 1)), int((t > 1).sum())


def normalised(log_weights: np.ndarray) -> np.ndarray:
    weights = np.exp(log_weights - log_weights.max())
    return weights / weights.sum()


WAYS: dict[str, Callable[[Spectrum], np.ndarray]] = {
    OURS: lambda spectrum: posterior_of_rank(spectrum).probabilities,
    MINKA: lambda spectrum: normalised(minka(spectrum).log_evidence),
    ENERGY: lambda spectrum: normalised(-solve(spectrum).rank_free_energies),
}


def announced(strengths: Strengths, n_sets: int) -> dict[str, Announced]:
    drawn = list(spectra(strengths, n_sets))
    truth = np.array([k for _, k in drawn])
    found = {}
    for name, way in WAYS.items():
        probabilities = np.zeros((n_sets, 1 + max(max(shape) for shape in SHAPES)))
        for row, (spectrum, _) in zip(probabilities, drawn, strict=True):
            own = way(spectrum)
            row[: own.size] = own
        found[name] = Announced(probabilities, truth)
    return found


def reproduce(run: Run) -> Outcome:
    n_sets = QUICK_SETS if run.quick else SETS
    found = {name: announced(strengths, n_sets) for name, strengths in FAMILIES.items()}
    return Outcome(
        tuple(line for name, ways in found.items() for line in _lines(run, name, ways)),
        setting=f"{n_sets} data sets of {', '.join(f'{n}×{p}' for n, p in SHAPES)}; 0 to 5 "
        "components.",
        seed="0",
        figures={
            "Announced, and how often it is right; bars are standard errors. From left to right: "
            + "; ".join(found): _drawn(found)
        },
        tables=(_scores(found), _bins(found), _noises(QUICK_SEEDS if run.quick else SEEDS)),
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
    rows = []
    for name, ways in found.items():
        ours = ways[OURS]
        for b in np.unique(ours.bins):
            inside = ours.bins == b
            shares = (f"{x[inside].mean():.2f}" for x in (ours.highest, ours.right))
            rows.append((name, f"{b / 10:.1f}–{(b + 1) / 10:.1f}", str(inside.sum()), *shares))
    header = ("strengths", "bin", "data sets", "announced", "right")
    return Table("Ours, in ten bins.", header, tuple(rows))


def _noises(n_seeds: int) -> Table:
    """`BayesianPCA()` with nothing chosen, on each kind of noise."""
    rows = []
    for kind in KINDS:
        made = [noisy(kind, *SIZE, strength=0.3, random_state=seed) for seed in range(n_seeds)]
        models = [BayesianPCA().fit(one.X) for one in made]
        highest = np.mean([model.rank_posterior_.max() for model in models])
        probable = np.mean([model.rank_posterior_.argmax() == 3 for model in models])
        kept = np.mean([model.n_components_ == 3 for model in models])
        rows.append((kind, f"{highest:.2f}", f"{probable:.2f}", f"{kept:.2f}"))
    header = ("noise", "announced", "most probable is 3", "EVB keeps 3")
    caption = "Three components of 200×30, by kind of noise, nothing chosen."
    return Table(caption, header, tuple(rows))


def _drawn(found: dict[str, dict[str, Announced]]) -> Figure:
    figure, axes = panels(len(found))
    for ax, ways in zip(axes, found.values(), strict=True):
        ours = ways[OURS]
        used = [b for b in range(10) if (ours.bins == b).any()]
        said = [ours.highest[ours.bins == b].mean() for b in used]
        right = [ours.right[ours.bins == b].mean() for b in used]
        sizes = [(ours.bins == b).sum() for b in used]
        errors = [np.sqrt(p * (1 - p) / n) for p, n in zip(said, sizes, strict=True)]
        ax.plot([0, 1], [0, 1], color="#999999", linewidth=1)
        ax.errorbar(said, right, yerr=errors, fmt="o")
        ax.set_xlabel("announced")
        ax.set_ylabel("right")
    return figure
