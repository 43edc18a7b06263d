"""Figures 4 to 6: free energy and rank over iterations, by EVB, local-EPB and local-EMAP.

Two ways of local search: the paper's iteration, equation by equation, and the package's, which
turns and stretches the factors against each other after every sweep.

Under local-EPB and local-EMAP the free energy of a component that dies falls without bound
(Propositions 2 and 3). Here it falls no further once the component is dead, and what dead
components leave at the end is taken off: then it is that of the components which are there, as in
the analytic level.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import numpy as np

from bayespca import BayesianPCA

from ..comparing import claim, frequencies, number, shown
from ..drawing import COLOURS, REFERENCE, panels
from ..iteration import sweeps
from ..records import Outcome, Run
from .artificial import matrix
from .formulas import METHODS

STARTS, QUICK_STARTS = 10, 2
SWEEPS, QUICK_SWEEPS = 1500, 1000
# How near, relatively, counts as the analytic solution.
NEAR = 5e-3


@dataclass(frozen=True)
class Trial:
    """What one start led to: at these sweeps this free energy; ranks after every sweep."""

    at: np.ndarray
    energies: np.ndarray
    ranks: np.ndarray

    @property
    def settled(self) -> int:
        """The sweep from which the rank is what it is at the end."""
        return int(np.max(np.flatnonzero(self.ranks != self.ranks[-1]), initial=-1)) + 2


def plain(V: np.ndarray, method: str, seed: int, n_sweeps: int) -> Trial:
    """By the paper's iteration."""
    at = np.unique(np.geomspace(1, n_sweeps, 60).round().astype(int))
    kept, ranks = [], []
    run = islice(sweeps(V, method, noise=1.0, seed=seed), n_sweeps)
    for n, sweep in enumerate(run, start=1):
        ranks.append(sweep.rank)
        if n in at:
            kept.append(sweep)
    energies = np.array([sweep.free_energy for sweep in kept])
    if method != "evb":
        energies -= energies[-1] - kept[-1].free_energy_of(kept[-1].alive)
    return Trial(at, energies, np.array(ranks))


def turned(V: np.ndarray, method: str, seed: int) -> Trial:
    """By the package's own sweeps."""
    model = fitted(V, method, solver="iterative", random_state=seed)
    energies, ranks = model.trace_.free_energy, model.trace_.rank
    return Trial(np.arange(energies.size) + 1, energies, ranks)


def fitted(V: np.ndarray, method: str, **options) -> BayesianPCA:
    number = {"n_components": "evb"} if method == "evb" and not options else {}
    model = BayesianPCA(method, center=False, noise_variance=1.0, **number, **options)
    return model.fit(V.T)


def outcome(run: Run, method: str) -> Outcome:
    L, M, rank = run.printed["L"], run.printed["M"], run.printed["rank"]
    starts = range(QUICK_STARTS if run.quick else STARTS)
    n_sweeps = QUICK_SWEEPS if run.quick else SWEEPS
    V = matrix(L, M, rank, seed=0)
    closed = fitted(V, method)
    trials = {
        "paper's iteration": [plain(V, method, seed, n_sweeps) for seed in run.each(starts, 0.8)],
        "package's sweeps": [turned(V, method, seed) for seed in run.each(starts, 0.2)],
    }
    lines = [number(f"{METHODS[method]}: analytic rank", rank, closed.n_components_)]
    for way, some in trials.items():
        ends = [int(trial.ranks[-1]) for trial in some]
        lines.append(frequencies(f"rank by the {way}", {rank: STARTS}, ends))
        lines.append(_nearness(way, some, closed.free_energy_))
        lines.append(shown(f"sweeps until the rank is found, {way}", _range(_settled(some))))
    return Outcome(
        tuple(lines),
        setting=f"Artificial1, L = {L}, M = {M}, H* = {rank}, σ² = 1 known; {len(starts)} starts; "
        f"{n_sweeps} sweeps of the paper's iteration.",
        seed=f"0 (data), 0 to {len(starts) - 1} (starts)",
        figures={
            f"{METHODS[method]} on Artificial1: free energy (left) and rank (right) over sweeps, "
            "a line for each start; dashed grey: the analytic solution.": _figure(
                method, trials, closed, L * M
            )
        },
        remarks=() if method == "evb" else (BOUNDLESS,),
    )


BOUNDLESS = (
    "The free energy of a component that dies falls without bound (Propositions 2 and 3). Here it "
    "falls no further once the component is dead (a prior variance of 1e-4, or in the package's "
    "sweeps of 1e-10 of the data), and what dead components leave at the end is taken off."
)


def _nearness(way: str, trials: Iterable[Trial], level: float):
    above = [float(trial.energies[-1] - level) / abs(level) for trial in trials]
    near = sum(abs(one) < NEAR for one in above)
    return claim(
        f"free energy by the {way}",
        "tends to find the analytic solution",
        f"{near} of {len(above)} starts within {100 * NEAR:g} % of its free energy; at most "
        f"{max(above):.1g} of it above",
        holds=near == len(above),
    )


def _settled(trials: Iterable[Trial]) -> list[int]:
    return [trial.settled for trial in trials]


def _range(values: list[int]) -> str:
    return f"{min(values)} to {max(values)}" if min(values) < max(values) else str(values[0])


def _figure(method, trials, closed, n_cells):
    figure, (left, right) = panels(2)
    colours = dict(zip(trials, (COLOURS[method], "#111827"), strict=True))
    for way, some in trials.items():
        for number_, trial in enumerate(some):
            style = {"color": colours[way], "linewidth": 0.9, "alpha": 0.75}
            label = way if number_ == 0 else None
            left.semilogx(trial.at, trial.energies / n_cells, **style, label=label)
            right.semilogx(np.arange(trial.ranks.size) + 1, trial.ranks, **style)
    left.axhline(closed.free_energy_ / n_cells, color=REFERENCE, linestyle="--", linewidth=1)
    right.axhline(closed.n_components_, color=REFERENCE, linestyle="--", linewidth=1)
    level = closed.free_energy_ / n_cells
    first = max(trial.energies[0] for some in trials.values() for trial in some) / n_cells
    top = min(first, level + 6)
    left.set(xlabel="sweeps", ylabel="F / (LM), nats", ylim=(level - 0.1 * (top - level), top))
    right.set(xlabel="sweeps", ylabel="estimated rank", ylim=(0, None))
    left.legend(frameon=False)
    return figure
