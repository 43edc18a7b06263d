"""Panels of series with factors, whose errors are correlated in time and between series.

Ahn and Horenstein, "Eigenvalue ratio test for the number of factors" (Econometrica 81, 2013).
"""

from __future__ import annotations

import numpy as np

from ..comparing import claim
from ..records import Outcome, Run
from . import designs
from .rules import found, table

# Correlation with the error before, and weight of neighbouring series.
KINDS = {
    "white": (0.0, 0.0),
    "ρ = 0.7": (0.7, 0.0),
    "β = 0.5": (0.0, 0.5),
    "ρ = 0.5, β = 0.2": (0.5, 0.2),
}
SETS, QUICK_SETS = 30, 2


def drawn(kind: str, seed: int) -> designs.Drawn:
    return designs.panel(np.random.default_rng((seed, list(KINDS).index(kind))), *KINDS[kind])


def reproduce(run: Run) -> Outcome:
    n = QUICK_SETS if run.quick else SETS
    results = {
        kind: [found(drawn(kind, seed).X, designs.FACTORS, seed) for seed in run.each(range(n))]
        for kind in run.each(KINDS)
    }
    right = {kind: sum(one.right() for one in some) for kind, some in results.items()}
    return Outcome(
        tuple(
            claim(
                f"{kind}: right",
                f"{n} of {n} (printed: {run.printed['ratios']})",
                f"{count} of {n}",
                holds=count == n,
            )
            for kind, count in right.items()
        ),
        setting=f"100 times of 100 series, 3 factors, {n} data sets of each kind of errors.",
        seed=f"0 to {n - 1}",
        tables=(table(results),),
        remarks=(run.printed["words"],),
    )
