"""Section 6: a posterior over the number of components, by sampling from the exact posterior.

Variational Q has one number of columns that are on; Gibbs sampling shows a distribution.
"""

from __future__ import annotations

from bayespca import GibbsPCA
from bayespca.displays import RankPosteriorDisplay

from ..comparing import claim, shown
from ..drawing import panels
from ..records import Outcome, Run
from .example import BROAD, SETTING, Q, points

DRAWS, QUICK_DRAWS = 2000, 250
CHAINS, QUICK_CHAINS = 4, 2


def reproduce(run: Run) -> Outcome:
    draws, chains = (QUICK_DRAWS, QUICK_CHAINS) if run.quick else (DRAWS, CHAINS)
    model = GibbsPCA(n_components=Q, n_draws=draws, n_chains=chains, random_state=0, **BROAD)
    model.fit(points(seed=0))
    posterior = model.rank_posterior_
    figure, (ax,) = panels(1)
    RankPosteriorDisplay.from_estimator(model, ax=ax)
    return Outcome(
        (
            claim(
                "most probable number",
                run.printed["number"],
                f"{model.n_components_}, with probability {posterior.max():.2f}",
                holds=model.n_components_ == 4,
            ),
            claim(
                "a range of dimensionalities",
                run.printed["range"],
                ", ".join(f"{k}: {p:.3f}" for k, p in enumerate(posterior) if p >= 0.0005),
                holds=bool(posterior.max() < 1),
            ),
            shown("noise standard deviation", f"{model.noise_variance_**0.5:.2f}"),
        ),
        setting=f"{SETTING} Gibbs sampling, {chains} chains of {draws} draws. In a draw a "
        "component is active if its variance is one that BayesianPCA would keep.",
        seed="0 (data and chains)",
        figures={"Posterior of the number of active components.": figure},
    )
