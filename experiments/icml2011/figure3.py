"""Figure 3: thresholds against the number of samples, under a flat prior and with c_b = 1."""

from __future__ import annotations

import numpy as np

from ..comparing import claim
from ..drawing import COLOURS, panels
from ..records import Outcome, Run
from .figure2 import STYLES
from .thresholds import NAMES, largest_error, solved

SAMPLES = range(1, 61)
PRIORS = {"flat prior": np.inf, "$c_b$ = 1": 1.0}


def reproduce(run: Run) -> Outcome:
    L = run.printed["L"]
    # A flat prior under MAP has no threshold at all.
    bayesian = [m for m in NAMES if m != "map"]
    error = largest_error(
        [(m, L, M, c) for m in bayesian for M in SAMPLES for c in PRIORS.values()]
    )
    flat = {m: np.array([solved(m, L, M, np.inf) for M in SAMPLES]) for m in bayesian}
    agree = np.abs(flat["pb"] / flat["vb"] - 1).max()
    noise = np.sqrt(np.maximum(SAMPLES, L))
    turn = np.flatnonzero(np.diff(flat["pb"]) > 1e-9)[0]
    return Outcome(
        (
            claim(
                "thresholds",
                "Eq. 23, 26 and 28",
                f"largest relative difference {error:.1g}",
                holds=error < 1e-12,
            ),
            claim(
                "flat prior",
                "PB and simple-VB agree (Eq. 34 and 35)",
                f"largest relative difference {agree:.1g}",
                holds=agree < 1e-12,
            ),
            claim(
                "flat prior",
                "they make a sudden turn at M = L and are constant below",
                f"constant up to M = {SAMPLES[turn]}, L = {L}",
                holds=SAMPLES[turn] == L,
            ),
            claim(
                "flat prior",
                "the thresholds are the average contribution of noise, σ·√max(L, M)",
                f"largest relative difference {np.abs(flat['vb'] / noise - 1).max():.1g}",
                holds=bool(np.allclose(flat["vb"], noise, rtol=1e-12)),
            ),
            claim(
                "flat prior, M = 1",
                "PB-A goes down smoothly",
                f"PB-A {flat['pb-a'][0]:.3f}, PB {flat['pb'][0]:.3f}",
                holds=bool(flat["pb-a"][0] < flat["pb"][0] and np.all(np.diff(flat["pb-a"]) > 0)),
            ),
        ),
        setting=f"L = {L}, σ² = 1, M from {SAMPLES[0]} to {SAMPLES[-1]}.",
        figures={"Thresholds under a flat prior (left) and with c_b = 1 (right).": _figure(L)},
    )


def _figure(L: int):
    figure, axes = panels(2)
    for ax, (title, c) in zip(axes, PRIORS.items(), strict=True):
        for method, name in NAMES.items():
            values = [
                0.0 if method == "map" and c == np.inf else solved(method, L, M, c) for M in SAMPLES
            ]
            ax.plot(SAMPLES, values, STYLES[method], color=COLOURS[method], label=name)
        ax.set(xlabel="number of samples M", ylabel="threshold", title=f"L = {L}, {title}")
        ax.axvline(L, color="#9ca3af", linewidth=0.6)
    axes[0].legend(frameon=False)
    return figure
