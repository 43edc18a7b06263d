"""Table 2: the size of the core of a Tucker factorization, from ten random starts.

The noise is at 0 dB for all. ARD-Tucker is empirical MAP by gradients instead of sweeps.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from bayespca import BayesianTucker
from bayespca.datasets import low_rank_tensor

from ..comparing import Comparison, frequencies, percent, shown, skipped
from ..data import Missing
from ..records import Outcome, Run

METHODS = {"EVB": "evb", "local-EPB": "epb", "local-EMAP": "emap"}
GRADIENT = "ARD-Tucker"
STARTS, QUICK_STARTS = 10, 3
# Of gradients, each start a few seconds: a quick run is without them.
STEPS = 2000


def core_size(T: np.ndarray, name: str, seed: int) -> tuple[int, ...]:
    options = {"noise_variance": "0db", "init": "random", "random_state": seed}
    if name == GRADIENT:
        model = BayesianTucker("emap", solver="gradient", max_iter=STEPS, **options)
    else:
        model = BayesianTucker(METHODS[name], **options)
    return tuple(model.fit(T).ranks_)


def reproduce(run: Run) -> Outcome:
    n_starts = QUICK_STARTS if run.quick else STARTS
    lines: list[Comparison] = []
    for row in run.each((_artificial, _fia, _not_in_the_paper)):
        lines += row(run, n_starts)
    return Outcome(
        tuple(lines),
        setting=f"Noise at 0 dB; {n_starts} starts from normal draws; ARD-Tucker by {STEPS} steps "
        "of gradients" + (", left out of a quick run." if run.quick else "."),
        seed=f"0 (tensor), 0 to {n_starts - 1} (starts)",
    )


def _artificial(run: Run, n_starts: int) -> list[Comparison]:
    size, core = (tuple(run.printed["ArtificialTF"][key]) for key in ("size", "core"))
    return _row(run, "ArtificialTF", low_rank_tensor(size, core, random_state=0).T, n_starts)


def _fia(run: Run, n_starts: int) -> list[Comparison]:
    try:
        return _row(run, "FIA", run.data.tensor("fia"), n_starts)
    except Missing as reason:
        return [skipped("FIA", "(3, 5, 3) by EVB and local-EPB", reason)]


def _row(run: Run, name: str, T: np.ndarray, n_starts: int) -> list[Comparison]:
    lines = []
    for method in run.each(METHODS if run.quick else (*METHODS, GRADIENT)):
        printed = {_tuple(size): n for size, n in run.printed[name][method].items()}
        found = [core_size(T, method, seed) for seed in run.each(range(n_starts))]
        lines.append(frequencies(f"{name}, {method}", printed, found))
    return lines


def _not_in_the_paper(run: Run, n_starts: int) -> list[Comparison]:
    """Amino acids, whose core is known to be (3, 3, 3): a real tensor where FIA is not there."""
    what = "amino acids (not in the paper; core (3, 3, 3) by chemistry)"
    try:
        T = run.data.tensor("amino")
    except Missing as reason:
        return [skipped(what, "–", reason)]
    lines = []
    for method in run.each(METHODS):
        found = Counter(core_size(T, method, seed) for seed in run.each(range(n_starts)))
        label = ", ".join(f"{size} ({percent(n, n_starts)})" for size, n in found.most_common())
        lines.append(shown(f"{what}, {method}", label))
    return lines


def _tuple(text: str) -> tuple[int, ...]:
    """(3, 4, 5) of "3, 4, 5"."""
    return tuple(int(one) for one in text.split(","))
