"""How many components: the probability of each number, and the fit with the most probable one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.linear.fit import with_ranks
from bayespca.lowrank.holes_posterior import HolesPosterior
from bayespca.lowrank.noise_models import NOISES
from bayespca.lowrank.records import PCAFit
from bayespca.sources.data import Where, where_of
from bayespca.spectrum.rank_posterior import ENOUGH, log_evidence, n_sure, of_weights
from bayespca.spectrum.records import RankPosterior
from bayespca.spectrum.solving import solve
from bayespca.spectrum.strengths import log_prior

from .asked import EVB, compares
from .choosing import sides
from .complete import Complete

# Cells up to which variances are found anew for each number of components. In larger tables each is
# known from so many cells that one component more or less hardly changes it.
MOST_CELLS = 500_000
# Most cells of a table whose residuals are examined once more.
MOST_TO_LOOK = 50_000_000
# Most numbers above the first that are tried, and numbers that are evaluated without lumping the
# strongest components.
MOST_TRIED, WHOLE = 10, 24


def counted(fit: PCAFit, data: Complete, most: int | None) -> PCAFit:
    """The fit with the probability of each number of components, and with the most probable one.

    The fit has no cap on the number; `most` is that of the options.
    """
    again = partial(data.with_rank, fit)
    number = data.asked.number if data.form.method.name == "evb" else EVB
    if isinstance(fit.posterior, HolesPosterior):
        # Sweeps have counted already.
        shown = np.empty(0) if _rejected(fit, data) else fit.rank_posterior
        return numbered(replace(fit, rank_posterior=shown), number, most, again)
    ranks = ranks_of(fit, data.here if data.few is not None and data.few.are_all else data)
    end = numbered(with_ranks(fit, ranks), number, most, again)
    return with_ranks(end, replace(ranks, determined=bool(end.rank_posterior.size)))


def numbered(fit: PCAFit, number: str, most: int | None, again: Callable[[int], PCAFit]) -> PCAFit:
    """The fit with the most probable number of components.

    Without probabilities, and for "evb", the method's own number stays. There are at most `most`.
    Sweeps may not be able to keep the most probable number; then the fit contradicts the
    probabilities, and shows none.
    """
    kept, known = fit.n_components, fit.rank_posterior
    wanted = kept
    if number != EVB and known.size:
        wanted = int(known.argmax())
    wanted = wanted if most is None else min(wanted, most)
    if wanted == kept:
        return fit
    other = again(wanted)
    if other.n_components != wanted:
        return replace(fit, rank_posterior=np.empty(0))
    status, converged = fit.status + other.status, fit.converged and other.converged
    return replace(other, rank_posterior=known, status=status, converged=converged)


# --- probabilities -----------------------------------------------------------------------------


def ranks_of(fit: PCAFit, data: Complete) -> RankPosterior:
    """The probability of each number, undetermined where residuals contradict the noise model."""
    ranks = _of_spectrum(fit, data)
    if _pays(data, fit):
        ranks = _mean(_with_own_variances(fit, data), ranks)
    unknown = ranks.rank > _most(fit) or _rejected(fit, data)
    return replace(ranks, determined=False) if unknown else ranks


def _of_spectrum(fit: PCAFit, data: Complete) -> RankPosterior:
    """The probabilities at the variances of the fit, of numbers that differ from variances."""
    per_component, most = fit.noise.per_component, _most(fit)
    ranks = data.form.ranks(fit.spectrum, fit.noise_variance, per_component=per_component)
    if ranks.rank > most:
        return ranks
    number, detectable = ranks.probabilities.copy(), ranks.detectable.copy()
    number[most + 1 :] = detectable[most + 1 :] = 0.0
    return replace(
        ranks, probabilities=number / number.sum(), detectable=detectable / detectable.sum()
    )


def _mean(own: RankPosterior, fixed: RankPosterior) -> RankPosterior:
    """The mean of the probabilities with variances of each number's own, and of the fit's.

    Neither integrates over the variances. Those of the fit count what it left out as noise, and
    those found anew for each number are too sure of the largest; each way is as probable.
    """
    return replace(
        own,
        probabilities=0.5 * (own.probabilities + fixed.probabilities),
        detectable=0.5 * (own.detectable + fixed.detectable),
    )


def _pays(data: Complete, fit: PCAFit) -> bool:
    """Whether variances are found anew for each number of components."""
    noise = NOISES[fit.noise.name]
    return (
        bool(sides(noise))
        and not noise.cells
        # With a correlation that is found anew, one component too many is often certain.
        and not noise.neighbours
        and fit.noise_variance > 0
        and data.asked.errors is None
        and compares(data.form)
        and where_of(data.X) is Where.DENSE
        and math.prod(data.X.shape) <= MOST_CELLS
    )


def _with_own_variances(fit: PCAFit, data: Complete) -> RankPosterior:
    """The probabilities where each number has variances of rows and columns of its own.

    The evidence of k components is that of the whitened data, with σ², strengths and directions
    integrated out, and the part of the free energy that belongs to the variances.
    """
    k0, size = fit.n_components, fit.spectrum.singular_values.size
    most = min(_most(fit), size)
    if k0 > most:
        return replace(_of_spectrum(fit, data), determined=False)
    sure = max(min(n_sure(fit.spectrum, k0), k0 - WHOLE), 0) if most > WHOLE else 0
    weights: dict[int, tuple[float, FloatArray]] = {}
    for numbers in (range(k0, min(most, k0 + MOST_TRIED) + 1), range(k0 - 1, sure - 1, -1)):
        one = fit
        for k in numbers:
            one = one if k == k0 else data.beside(one, k)
            if one.n_components != k or not one.noise_variance:
                break
            own = solve(one.spectrum, "evb", exactly=k, other_ranks=False).free_energy
            per = one.noise.per_component
            evidence, shares = log_evidence(one.spectrum, k, sure=sure, per_component=per)
            weights[k] = evidence - (one.free_energy - own) + float(log_prior(k)), shares
            if not weights[k][0] >= max(weight for weight, _ in weights.values()) - ENOUGH:
                break
    best = max(weights, key=lambda k: weights[k][0], default=k0)
    if not weights or weights[best][0] == -np.inf:
        return _of_spectrum(fit, data)
    return of_weights(weights, size, determined=best < max(weights))


def _most(fit: PCAFit) -> int:
    """The largest number of components that differs from variances of the columns.

    With as many, the covariance of p columns has as many parameters as entries (Ledermann 1937).
    """
    L = fit.spectrum.shape[0]
    if fit.noise.features is None:
        return fit.spectrum.full_rank - 1
    return min(int((2 * L + 1 - math.sqrt(8 * L + 1)) / 2), fit.spectrum.full_rank - 1)


def _rejected(fit: PCAFit, data: Complete) -> bool:
    """Whether residuals show noise that the noise model does not have."""
    if where_of(data.X) is not Where.DENSE or math.prod(data.X.shape) > MOST_TO_LOOK:
        return False
    if not fit.noise_variance or not compares(data.form):
        return False
    seen = replace(data.look(fit), absorbed=frozenset()).seen
    return not seen <= sides(NOISES[fit.noise.name])
