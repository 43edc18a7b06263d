"""Figure 7: ranks over iterations where 99 % of the cells are missing.

The model is Eq. 36: no means, no biases. ArtificialCF has known noise; for MovieLens it is set by
0 dB, half the mean square of the ratings. The paper says nothing of H: here it is 16.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import islice

import numpy as np
from scipy import sparse

from bayespca import MatrixFactorization

from ..comparing import Comparison, claim, skipped
from ..data import Missing
from ..drawing import COLOURS, REFERENCE, panels
from ..records import Outcome, Run
from . import artificial
from .formulas import METHODS
from .holes import ranks

COMPONENTS = 16
STARTS, QUICK_STARTS = 10, 1
SWEEPS, QUICK_SWEEPS = 250, 60
EARLY = 50


@dataclass(frozen=True)
class Cells:
    """Observed cells, and the noise that is taken for known."""

    name: str
    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    shape: tuple[int, int]
    noise: float

    @property
    def missing(self) -> float:
        return 1 - self.values.size / np.prod(self.shape)


@dataclass(frozen=True)
class Found:
    """Ranks after each sweep, of each start: by the package's sweeps, and by the paper's."""

    turned: dict[str, list[np.ndarray]]
    plain: dict[str, np.ndarray]

    def at_the_end(self, method: str) -> int:
        """The commonest of the starts."""
        return Counter(int(trial[-1]) for trial in self.turned[method]).most_common(1)[0][0]


def artificial_cf(run: Run) -> Cells:
    L, M, rank, missing = (
        run.printed["ArtificialCF"][key] for key in ("L", "M", "rank", "missing")
    )
    if run.quick:
        # As many cells for each row and column, of a matrix half as large.
        L, M, missing = L // 2, M // 2, 1 - 2 * (1 - missing)
    cells = artificial.cells(L, M, rank, 1 - missing, seed=0)
    return Cells("ArtificialCF", *cells, (L, M), noise=1.0)


def movielens(run: Run) -> Cells:
    L, M, missing = (run.printed["MovieLens"][key] for key in ("L", "M", "missing"))
    table = run.data.ratings()
    kept = np.random.default_rng(0).permutation(len(table))[: round((1 - missing) * L * M)]
    users, items, ratings = table[kept].T
    noise = float(np.mean(ratings**2)) / 2
    return Cells("MovieLens", users.astype(int) - 1, items.astype(int) - 1, ratings, (L, M), noise)


def turned(cells: Cells, method: str, seed: int) -> np.ndarray:
    """By the package's sweeps."""
    model = MatrixFactorization(
        method,
        biases=False,
        bounds=None,
        n_components=COMPONENTS,
        noise_variance=cells.noise,
        init="random",
        tol=1e-8,
        random_state=seed,
    )
    return model.fit_ratings(cells.rows, cells.columns, cells.values).trace_.rank


def plain(cells: Cells, method: str, n_sweeps: int) -> np.ndarray:
    """By the paper's iteration."""
    V = sparse.csr_array((cells.values, (cells.rows, cells.columns)), shape=cells.shape)
    run = ranks(V, method, noise=cells.noise, n_components=COMPONENTS)
    return np.fromiter(islice(run, n_sweeps), dtype=int)


def reproduce(run: Run) -> Outcome:
    n_starts = QUICK_STARTS if run.quick else STARTS
    n_sweeps = QUICK_SWEEPS if run.quick else SWEEPS
    lines: list[Comparison] = []
    found: dict[str, Found] = {}
    settings = []
    for read in run.each((artificial_cf, movielens)):
        try:
            cells = read(run)
        except Missing as reason:
            lines.append(skipped("MovieLens", run.printed["same"], reason))
            continue
        one = Found(
            {
                m: [turned(cells, m, seed) for seed in run.each(range(n_starts))]
                for m in run.each(METHODS, 0.5)
            },
            {m: plain(cells, m, n_sweeps) for m in run.each(METHODS, 0.5)},
        )
        found[cells.name] = one
        settings.append(
            f"{cells.name}, L = {cells.shape[0]}, M = {cells.shape[1]}, {cells.missing:.0%} "
            f"missing, σ² = {cells.noise:.3g}"
        )
        lines += _compared(run, cells.name, one)
    return Outcome(
        tuple(lines),
        setting=f"{'; '.join(settings)}. H = {COMPONENTS}. {n_starts} starts by the package's "
        f"sweeps, one of {n_sweeps} sweeps by the paper's iteration.",
        seed=f"0 (data), 0 to {n_starts - 1} (starts)",
        figures={
            "Rank over sweeps: thick by the paper's iteration, thin by the package's sweeps, a "
            "line for each start. Dashed: the true rank.": _figure(
                found, run.printed["ArtificialCF"]["rank"]
            )
        },
    )


def _compared(run: Run, name: str, found: Found) -> list[Comparison]:
    ends = {m: found.at_the_end(m) for m in METHODS}
    early = {m: int(found.plain[m][EARLY - 1]) for m in METHODS}
    lines = [
        claim(
            f"{name}, where sweeps end",
            run.printed["same"],
            _listed(ends),
            holds=len(set(ends.values())) == 1,
        ),
        claim(
            f"{name}, where sweeps end: EPB",
            run.printed["larger"],
            _listed(ends),
            holds=_larger(ends),
        ),
        claim(
            f"{name}, after {EARLY} sweeps of the paper's iteration: EPB",
            run.printed["larger"],
            _listed(early),
            holds=_larger(early),
        ),
    ]
    if not run.quick:
        last = {m: int(found.plain[m][-1]) for m in METHODS}
        what = f"{name}, after {SWEEPS} sweeps of the paper's iteration"
        lines.append(
            claim(what, run.printed["same"], _listed(last), holds=len(set(last.values())) == 1)
        )
    return lines


def _larger(found: dict[str, int]) -> bool:
    return found["epb"] > max(found["evb"], found["emap"])


def _listed(found: dict[str, int]) -> str:
    return ", ".join(f"{METHODS[method]} {rank}" for method, rank in found.items())


def _figure(found: dict[str, Found], true_rank: int):
    figure, axes = panels(len(found))
    for ax, (name, one) in zip(axes, found.items(), strict=True):
        for method, title in METHODS.items():
            for trial in one.turned[method]:
                ax.semilogx(np.arange(trial.size) + 1, trial, color=COLOURS[method], linewidth=0.5)
            ax.semilogx(
                np.arange(one.plain[method].size) + 1,
                one.plain[method],
                color=COLOURS[method],
                linewidth=2,
                label=title,
            )
        if name == "ArtificialCF":
            ax.axhline(true_rank, color=REFERENCE, linestyle="--", linewidth=1)
        ax.set(xlabel="sweeps", ylabel="estimated rank", title=name, ylim=(0, COMPONENTS + 1))
    axes[0].legend(frameon=False)
    return figure
