"""Figure 2: thresholds of simple-VB, PB, PB-A and MAP against c_b, for M > L and M < L."""

from __future__ import annotations

import numpy as np

from ..comparing import claim
from ..drawing import COLOURS, panels
from ..records import Outcome, Run
from .thresholds import NAMES, largest_error, solved

DEVIATIONS = np.geomspace(0.05, 100, 60)
ALMOST_FLAT = 1e6
STYLES = {"vb": "-", "pb": "--", "pb-a": ":", "map": "-."}


def reproduce(run: Run) -> Outcome:
    L, (many, few) = run.printed["L"], run.printed["M"]
    error = largest_error([(m, L, M, c) for m in NAMES for M in (many, few) for c in DEVIATIONS])
    flat = {(m, M): solved(m, L, M, ALMOST_FLAT) for m in NAMES for M in (many, few)}
    together = max(
        abs(solved("pb", L, many, c) / solved("pb-a", L, many, c) - 1) for c in DEVIATIONS
    )
    apart = max(abs(solved("pb", L, few, c) / solved("vb", L, few, c) - 1) for c in DEVIATIONS)
    return Outcome(
        (
            claim(
                "thresholds",
                "Eq. 23, 26, 28 and 33",
                f"largest relative difference {error:.1g}",
                holds=error < 1e-12,
            ),
            claim(
                f"M = {many}",
                "PB and PB-A coincide",
                f"largest relative difference {together:.1g}",
                holds=together < 1e-12,
            ),
            claim(
                f"M = {few}",
                "PB and simple-VB behave almost identically",
                f"largest relative difference {apart:.2g}",
                holds=apart < 0.1,
            ),
            claim(
                f"M = {few}, almost flat prior",
                "PB-A differs significantly from PB and simple-VB, but does not go to zero",
                f"PB-A {flat['pb-a', few]:.3f}, PB {flat['pb', few]:.3f}, "
                f"simple-VB {flat['vb', few]:.3f}",
                holds=0 < flat["pb-a", few] < 0.8 * flat["vb", few],
            ),
            claim(
                "MAP, almost flat prior",
                "no regularization",
                f"{flat['map', many]:.0e}",
                holds=flat["map", many] < 1e-5,
            ),
        ),
        setting=f"L = {L}, M = {many} and {few}, σ² = 1, c_b from {DEVIATIONS[0]:g} to "
        f"{DEVIATIONS[-1]:g}.",
        figures={f"Thresholds, M = {many} (left) and M = {few} (right).": _figure(L, (many, few))},
    )


def _figure(L: int, samples: tuple[int, int]):
    figure, axes = panels(2)
    for ax, M in zip(axes, samples, strict=True):
        for method, name in NAMES.items():
            values = [solved(method, L, M, c) for c in DEVIATIONS]
            ax.semilogx(DEVIATIONS, values, STYLES[method], color=COLOURS[method], label=name)
        ax.set(xlabel="$c_b$", ylabel="threshold", ylim=(0, 20), title=f"L = {L}, M = {M}")
    axes[0].legend(frameon=False)
    return figure
