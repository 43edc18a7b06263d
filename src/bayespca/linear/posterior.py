"""From a solution of the spectrum to the posterior of the data, and to the record of the fit."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from bayespca.arrays.namespaces import array_namespace
from bayespca.arrays.types import Array, FloatArray
from bayespca.engines.records import Decomposition
from bayespca.inference.result import Fit, extended
from bayespca.lowrank.posterior import Posterior, from_solution
from bayespca.lowrank.records import PCAFit, PCAPosterior
from bayespca.spectrum.forms import ClosedForm, differing
from bayespca.spectrum.left_out import left_out
from bayespca.spectrum.records import Solution, Spectrum

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


def described(
    bare: Fit[PCAPosterior], found: Decomposition, solution: Solution, form: ClosedForm
) -> PCAFit:
    """The fit, completed by a decomposition and a solution of its spectrum."""
    return with_solution(
        bare,
        solution,
        form,
        spectrum=found.spectrum,
        n_samples=found.n_samples,
        engine=found.engine,
        miss_probability=found.miss_probability,
    )


def with_solution(
    bare: Fit[PCAPosterior], solution: Solution, form: ClosedForm, spectrum: Spectrum, **more: Any
) -> PCAFit:
    """The fit, completed by a solution of a spectrum; keywords override the solution."""
    known = {
        "spectrum": spectrum,
        "shrunk_singular_values": solution.shrunk_singular_values,
        "free_energy_by_rank": solution.rank_free_energies,
        "threshold": solution.threshold,
        "noise_variance": solution.noise_variance,
    }
    fit = extended(bare, PCAFit, **{**known, **more})
    return counted(fit, form, solution.noise_variance) if form.counts else fit


def counted(fit: PCAFit, form: ClosedForm, noise_variance: float) -> PCAFit:
    """The fit with the probability of each rank, which is left alone if it is there already."""
    if fit.rank_posterior.size:
        return fit
    count = partial(form.ranks, fit.spectrum, noise_variance, per_component=fit.noise.per_component)
    ranks = count()
    status = fit.status + differing(ranks, fit.n_components, form)
    # A cap on the rank says what is wanted, not what the data contain.
    all_ranks = ranks if form.cap_of_ranks is None else count(capped=False)
    missed = left_out(fit.spectrum, all_ranks, fit.n_components, fit.posterior.noise_variance)
    return replace(fit, rank_posterior=ranks.probabilities, status=status, left_out=missed)
