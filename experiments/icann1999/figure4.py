"""Figure 4: a Hinton diagram of ⟨W⟩ from variational Bayesian PCA, on the data of Figure 3."""

from __future__ import annotations

import numpy as np

from ..comparing import claim, number, shown
from ..records import Outcome, Run
from .example import SETTING, norms, points, variational
from .figure3 import hinton


def reproduce(run: Run) -> Outcome:
    T = points(seed=0)
    model = variational(T)
    sizes = norms(model.weights_)
    on = model.n_components_
    return Outcome(
        (
            number("columns that are not suppressed", run.printed["columns"], on),
            claim(
                "the other columns",
                run.printed["suppressed"],
                f"norms at most {sizes[on:].max():.1g}, of the four at least {sizes[on - 1]:.2f}",
                holds=bool(sizes[on:].max() < 1e-6 * sizes[on - 1]),
            ),
            shown(
                "noise standard deviation, of six directions with 1",
                f"{np.sqrt(model.noise_variance_):.2f}",
            ),
        ),
        setting=f"{SETTING} VariationalPCA with all constants of the priors 10⁻³.",
        seed="0 (data and start)",
        figures={"⟨W⟩: columns that are switched off are empty.": hinton(model.weights_)},
    )
