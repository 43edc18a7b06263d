"""Figure 4's caption: typical samples from the posterior of W have the same columns suppressed."""

from __future__ import annotations

import numpy as np

from ..comparing import claim, shown
from ..records import Outcome, Run
from .example import SETTING, norms, points, variational
from .figure3 import hinton
from .posterior import of_fit

DRAWS = 1000


def reproduce(run: Run) -> Outcome:
    T = points(seed=0)
    model = variational(T, tol=1e-14)
    found = of_fit(model, T)
    rng = np.random.default_rng(0)
    draws = np.array([found.draw(rng) for _ in range(DRAWS)])
    sizes, on = norms(draws), model.n_components_
    largest, smallest = sizes[:, on:].max(), sizes[:, :on].min()
    deviations = np.sqrt(np.diag(found.S_w))
    return Outcome(
        (
            claim(
                "columns suppressed in samples",
                run.printed["samples"],
                f"in {DRAWS} draws the largest norm among the suppressed {largest:.2f}, the "
                f"smallest among the others {smallest:.2f}",
                holds=bool(largest < 0.25 * smallest),
            ),
            claim(
                "posterior variance of W",
                run.printed["variance"],
                f"standard deviations of entries {deviations[on:].max():.3f} in suppressed "
                f"columns and {deviations[:on].max():.2f} in the others",
                holds=bool(deviations.max() < 0.2),
            ),
            shown("mean norm of a suppressed column in samples", f"{sizes[:, on:].mean():.3f}"),
        ),
        setting=f"{SETTING} {DRAWS} draws of W from Q(W), Eq. 18.",
        seed="0 (data, start and draws)",
        figures={
            "⟨W⟩, and three draws of W from its posterior.": hinton(
                model.weights_, *draws[:3], titles=("⟨W⟩", "draw 1", "draw 2", "draw 3")
            )
        },
    )
