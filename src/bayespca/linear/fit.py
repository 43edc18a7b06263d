"""PCA of complete data in closed form: decompose, solve, keep what the posterior needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import array_namespace
from bayespca.arrays.signs import fixed_signs
from bayespca.arrays.types import Array, FloatArray
from bayespca.engines.decomposing import decompose
from bayespca.engines.records import Decomposition
from bayespca.inference.result import Fit, extended
from bayespca.lowrank.posterior import Posterior, from_solution
from bayespca.lowrank.records import PCAFit, PCAPosterior
from bayespca.sources.columns import column_scales, rescaled_columns
from bayespca.spectrum.forms import ClosedForm
from bayespca.spectrum.left_out import left_out
from bayespca.spectrum.records import AT_LEAST, RankPosterior, Solution, Spectrum


@dataclass(frozen=True, eq=False)
class Decomposed:
    """A decomposition, and the divisors of columns before it; None if they were not divided."""

    found: Decomposition
    scale: Array = None

    @cached_property
    def spectrum(self) -> Spectrum:
        """The spectrum at unit scale."""
        return self.found.spectrum.at_unit_scale()

    @property
    def gamma(self) -> FloatArray:
        """Singular values at unit scale."""
        return self.spectrum.singular_values

    @property
    def sum_of_squares(self) -> float:
        """‖V‖² at unit scale."""
        return self.spectrum.sum_of_squares

    @property
    def mean_square(self) -> float:
        """Mean square of the entries of V, at unit scale."""
        L, M = self.spectrum.shape
        return self.sum_of_squares / (L * M)

    @property
    def unit(self) -> float:
        """Factor that takes numbers at unit scale to the units of the data."""
        return self.spectrum.scale

    @property
    def log_scale(self) -> float:
        """Σ log of the divisors of the columns."""
        if self.scale is None:
            return 0.0
        xp = array_namespace(self.scale)
        return float(xp.sum(xp.log(self.scale)))

    def in_units(self, energy: float) -> float:
        """The free energy of the data before their columns were divided."""
        return energy + self.found.spectrum.shape[1] * self.log_scale


def decomposed(
    X: Any,
    form: ClosedForm,
    *,
    n_needed: int,
    center: bool,
    scale: bool,
    engine: str,
    random_state: int | np.random.Generator | None,
) -> Decomposed:
    """Decompose an array, a sparse matrix, a source of blocks or partitions."""
    scales = column_scales(X, center=center) if scale else None
    found = decompose(
        X if scales is None else rescaled_columns(X, scales),
        plan=form,
        center=center,
        engine=engine,
        n_needed=n_needed,
        random_state=random_state,
        dead_rows=form.sets_rows_aside,
    )
    if scales is not None:
        scales = array_namespace(scales).astype(scales, X.dtype)
    return Decomposed(found, scales)


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


def from_decomposition(data: Decomposed, form: ClosedForm) -> PCAFit:
    """The fit of data that have been decomposed already."""
    found = data.found
    solution = form(found.spectrum)
    components = fixed_signs(found.right(solution.rank))
    gamma = found.spectrum.singular_values * found.spectrum.scale
    bare: Fit[PCAPosterior] = Fit(
        posterior_of(data, solution, components, gamma),
        data.in_units(solution.free_energy),
        status=found.status + solution.status,
    )
    return described(bare, found, solution)


def with_at_least(
    found: PCAFit,
    least: int,
    again: Callable[[int], PCAFit],
    likeliest: Callable[[int], PCAFit],
) -> PCAFit:
    """A fit with at least `least` components.

    EVB has no solution with components that are too weak for its noise; solutions of maximum
    likelihood always exist, unless the data have no variance.
    """
    kept = found.n_components
    if kept >= least:
        return found
    other, method = again(least), "EVB"
    if other.n_components < least and (ml := likeliest(least)).n_components > other.n_components:
        other, method = ml, "ML"
    k = other.n_components
    if k <= kept:
        words = f"EVB keeps {kept}; the data have no more, so min_components={least} cannot be met."
        return replace(found, status=found.status.but("no-more", words))
    words = f"EVB keeps {kept}; min_components={least} raises this to {k}"
    words += "." if method == "EVB" else ", by maximum likelihood: EVB has no such solution."
    # A given number says nothing about its probability.
    return replace(
        other, rank_posterior=found.rank_posterior, status=other.status.but(AT_LEAST, words)
    )
