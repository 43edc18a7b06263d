"""Choice of the functions that read a posterior: for complete rows, or for rows with holes."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import TypeVar

import numpy as np

from bayespca.arrays.namespaces import has_nan, to_numpy
from bayespca.arrays.types import Array
from bayespca.lowrank import holes_posterior
from bayespca.lowrank import posterior as complete
from bayespca.lowrank.combined import expanded, independent
from bayespca.lowrank.filtering import unfiltered
from bayespca.lowrank.holes_posterior import HolesPosterior
from bayespca.lowrank.posterior import Posterior
from bayespca.lowrank.recognising import digests_of_few
from bayespca.lowrank.records import PCAFit, PCAPosterior, VariationalFit
from bayespca.sources.data import Data

P = TypeVar("P", PCAFit, VariationalFit)


def functions(posterior: PCAPosterior, X: Array = None) -> tuple[ModuleType, PCAPosterior]:
    """A module with `scores`, `log_density` and so on, and the posterior in the form it takes.

    Rows with holes need the general form of a posterior that was found on complete data.
    """
    if isinstance(posterior, HolesPosterior):
        return holes_posterior, posterior
    if X is not None and has_nan(X):
        return holes_posterior, general(posterior)
    return complete, posterior


def general(posterior: Posterior) -> HolesPosterior:
    """A posterior of complete data in the form that rows with holes need.

    With the score's prior variance c², 1/shrinkage = 1 + L·(loading variance) + σ²/c². This form
    treats correlated noise of neighbours as independent, with the same variance.
    """
    whole, posterior = posterior, independent(posterior)
    phi = posterior.correlation
    stationary = 1 / (1 - phi * phi)
    components = to_numpy(posterior.components).astype(np.float64)
    score_variance = to_numpy(posterior.score_variance)
    # Constant columns do not count as features: their loadings are known to be 0.
    live = np.any(components != 0, axis=0)
    variance = to_numpy(posterior.loading_variance).astype(np.float64)
    shrinkage = to_numpy(posterior.shrinkage).astype(np.float64)
    found = holes_posterior.from_directions(
        mean=posterior.mean,
        scale=posterior.scale,
        components=unfiltered(posterior.components, phi),
        ridge=1 / shrinkage - 1 - live.sum() * variance,
        loading_variance=live[:, None] * variance * stationary,
        latent_variance=to_numpy(posterior.latent_variance).astype(np.float64),
        noise_variance=posterior.noise_variance * stationary,
        integrated=bool((score_variance > 0).any()) or not score_variance.size,
    )
    found = replace(found, tails=posterior.tails, learned_from=posterior.learned_from)
    return expanded(found, whole.combined) if whole.combined else found


def knowing_rows(data: Data, fit: P) -> P:
    """A fit that recognises the rows it was fitted to, if they are few and in memory."""
    if fit.posterior.learned_from.size or not data.where.in_memory:
        return fit
    known = replace(fit.posterior, learned_from=digests_of_few(data.values))
    return replace(fit, posterior=known)
