"""PCA of complete data in closed form: decompose, solve, keep what the posterior needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bayespca.arrays.signs import fixed_signs
from bayespca.inference.result import Fit
from bayespca.lowrank.records import PCAFit, PCAPosterior
from bayespca.spectrum.forms import ClosedForm
from bayespca.spectrum.records import AT_LEAST

from .data import Decomposed
from .posterior import described, posterior_of


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
    if other.n_components < least:
        other, method = _better(other, likeliest(least))
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


def _better(of_evb: PCAFit, likeliest: PCAFit) -> tuple[PCAFit, str]:
    """The fit with more components, and its method."""
    if likeliest.n_components > of_evb.n_components:
        return likeliest, "ML"
    return of_evb, "EVB"
