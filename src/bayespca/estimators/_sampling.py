"""`MatrixFactorization(method="gibbs")`: the model for its options, and checks of its chains."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.engines.decomposing import available_memory
from bayespca.missing.ratings.fit import RatingsFit, RatingsModel
from bayespca.missing.sampled.data import FeaturedRatings
from bayespca.missing.sampled.draws import RatingsDraws
from bayespca.missing.sampled.fit import MORE, SampledFit, SampledModel
from bayespca.missing.sampled.prior import SampledPrior
from bayespca.spectrum.records import Status

from . import _arviz

# Values that "auto" stands for.
SCHEDULE = {"n_draws": 100, "n_warmup": 20, "n_chains": 2}
# Above this, chains are in different places. Predictions average over all chains and mix sooner
# than single parameters, for whose intervals the usual limit of 1.01 is meant.
LARGEST_R_HAT = 1.2


def check_options(estimator: Any, *features: Any, times: Any = None) -> None:
    """Raise if options of the sampler, features or times are given with another method."""
    if estimator.method == "gibbs":
        return
    if any(some is not None for some in features):
        raise ValueError(
            f"features of users and items are for method='gibbs', and the method is "
            f"{estimator.method!r}."
        )
    if times is not None:
        raise ValueError(
            f"times of ratings are for method='gibbs', and the method is {estimator.method!r}."
        )
    # These values state what other methods do, so they are allowed.
    without = {"noise": "isotropic", "implicit": False}
    given = [
        name
        for name in (*SCHEDULE, *without)
        if getattr(estimator, name) not in ("auto", without.get(name))
    ]
    if given:
        raise ValueError(
            f"{given[0]}={getattr(estimator, given[0])!r} needs method='gibbs', but the method is "
            f"{estimator.method!r}: leave it at 'auto'."
        )


def model_of(estimator: Any, begun: RatingsModel, data: FeaturedRatings) -> SampledModel:
    """The model for chains that start at `begun`."""
    asked: dict[str, Any] = {
        name: default if getattr(estimator, name) == "auto" else int(getattr(estimator, name))
        for name, default in SCHEDULE.items()
    }
    is_given = begun.fixed_noise is not None
    own = estimator.noise == "both" or (estimator.noise == "auto" and not is_given)
    model = SampledModel(
        prior=SampledPrior() if own else SampledPrior(nus=()),
        biases=begun.biases,
        fixed_noise=begun.fixed_noise,
        begun=begun,
        rank=None if estimator.n_components == "auto" else int(estimator.n_components),
        **asked,
    )
    _check_size(model, data)
    return model


def _check_size(model: SampledModel, data: FeaturedRatings) -> None:
    """Raise if draws exceed memory; without a given rank they count with `MORE` components."""
    K = (MORE if model.rank is None else model.rank) + 1
    n, m = data.shape
    needed = 4.0 * model.n_chains * model.n_draws * (n + m * (1 + data.implicit)) * K
    if needed > available_memory():
        raise ValueError(
            f"the draws would need {needed / 1e9:.1f} GB: lower n_draws, n_chains or n_components."
        )


def judged(fitted: RatingsFit) -> dict[str, Any]:
    """Draws of a fit, with R-hat and effective sample sizes; empty for a fit without draws."""
    if not isinstance(fitted, SampledFit) or fitted.draws is None:
        return {}
    found = _arviz.diagnostics(quantities(fitted.draws)) or (None, None)
    return {"draws": fitted.draws, "r_hat": found[0], "ess": found[1]}


def quantities(draws: RatingsDraws) -> dict[str, FloatArray]:
    """Quantities that do not depend on the rotation of the factors, each (chain, draw)."""
    H, shape = draws.rank, (draws.n_chains, -1)
    a, b = (x[:, :, :H].astype(np.float64) for x in (draws.rows, draws.columns))
    grams = [np.matmul(np.swapaxes(x, 1, 2), x) / x.shape[1] for x in (a, b)]
    signal = np.einsum("dhk,dhk->d", *grams) * draws.unit**2
    noise = draws.unit**2 * draws.noise_variances
    return {"noise_variance": noise.reshape(shape), "signal_variance": signal.reshape(shape)}


def mixing(r_hat: dict[str, float] | None) -> Status:
    """Advice if the chains are in different places."""
    return _arviz.mixing(r_hat, LARGEST_R_HAT, "n_warmup and n_draws")
