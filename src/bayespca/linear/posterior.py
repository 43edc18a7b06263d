"""From a solution of the spectrum to the posterior of the data, and to the record of the fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import array_namespace
from bayespca.arrays.types import Array, FloatArray
from bayespca.engines.records import Decomposition
from bayespca.inference.result import Fit, extended
from bayespca.lowrank.posterior import Posterior, from_solution
from bayespca.lowrank.records import PCAFit, PCAPosterior
from bayespca.spectrum.left_out import left_out
from bayespca.spectrum.records import RankPosterior, Solution, Spectrum

from .data import Decomposed


def posterior_of(
    data: Decomposed, solution: Solution, components: Array, gamma: FloatArray
) -> Posterior:
    """The posterior with given directions, along which the data have the sizes `gamma`."""
    xp = array_namespace(components)
    scale, mean = data.scale, data.found.mean
    if scale is None:
        scale = xp.ones(components.shape[1], dtype=components.dtype, device=components.device)
    return from_solution(
        solution,
        components=components,
        gamma=gamma,
        mean=mean * xp.astype(scale, mean.dtype),
        scale=scale,
        M=data.found.spectrum.shape[1],
    )


def described(bare: Fit[PCAPosterior], found: Decomposition, solution: Solution) -> PCAFit:
    """The fit, completed by a decomposition and a solution of its spectrum."""
    return with_solution(
        bare,
        solution,
        spectrum=found.spectrum,
        n_samples=found.n_samples,
        engine=found.engine,
        miss_probability=found.miss_probability,
    )


def with_solution(
    bare: Fit[PCAPosterior], solution: Solution, spectrum: Spectrum, **more: Any
) -> PCAFit:
    """The fit, completed by a solution of a spectrum; keywords override the solution."""
    known = {
        "spectrum": spectrum,
        "shrunk_singular_values": solution.shrunk_singular_values,
        "free_energy_by_rank": solution.rank_free_energies,
        "threshold": solution.threshold,
        "noise_variance": solution.noise_variance,
    }
    return extended(bare, PCAFit, **{**known, **more})


def with_ranks(fit: PCAFit, ranks: RankPosterior) -> PCAFit:
    """The fit with the probability of each number of components; with none if undetermined."""
    known = ranks.probabilities if ranks.determined else np.empty(0)
    missed = left_out(fit.spectrum, ranks, fit.n_components, fit.posterior.noise_variance)
    return replace(fit, rank_posterior=known, left_out=missed)
