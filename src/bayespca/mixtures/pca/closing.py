"""The closed forms of clusters, all of them in one call.

Where each feature has its own noise, the closed form is that of data divided by the root of that
noise; the two are updated in turn, as in `linear.scaled`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

import numpy as np

from bayespca.arrays.types import DOUBLE, FloatArray
from bayespca.engines.gram import (
    SMALL,
    SquaredSpectrum,
    have_digits,
    is_precise,
    squares_of,
    squares_of_grams,
    squares_of_rows,
)
from bayespca.lowrank.posterior import Posterior
from bayespca.spectrum.noises import noises, noises_near
from bayespca.spectrum.records import Moments, Solution, Spectrum
from bayespca.spectrum.spectra import Spectra, closed_forms
from bayespca.spectrum.tolerances import TINY

from .cluster import Cluster, ClusterPlan
from .data import MixtureRows
from .feature_noise import best_noise
from .moments import ClusterMoments, ClusterRows, moments_of


@dataclass(frozen=True, eq=False)
class Update:
    """The free energy of an updated cluster, the entropy of the holes in its rows, and the moments
    that it was made from; no moments if it was left unchanged.

    The cluster itself is made on demand: trial updates never need it.
    """

    made: Callable[[], Cluster]
    count: float
    free_energy: float
    entropy: float = 0.0
    moments: ClusterMoments | None = None

    @cached_property
    def cluster(self) -> Cluster:
        return self.made()


def updated(rows: MixtureRows, before: Cluster | None, plan: ClusterPlan) -> Update:
    """The closed form of one cluster."""
    return updated_together([ClusterRows(rows, before, plan)])[0]


def updated_together(parts: Sequence[ClusterRows], *, nearly: bool = False) -> list[Update]:
    """The closed forms of some clusters; `nearly` finds a good noise fast, not always the best."""
    return solved_together([moments_of(part) for part in parts], nearly=nearly)


def solved_together(moments: Sequence[ClusterMoments], *, nearly: bool = False) -> list[Update]:
    """`updated_together` for clusters whose moments are known."""
    return [_update(found) for found in _decomposed(_with_best_scales(moments), nearly=nearly)]


def free_energies(moments: Sequence[ClusterMoments]) -> FloatArray:
    """F of trial closed forms, cheaper than updates: the noise is good but not always the best,
    scales of features stay as they are, and no vectors are computed.
    """
    found = _decomposed(moments, vectors=False, nearly=True)
    return np.array([_free_energy(one) for one in found])


def _with_best_scales(moments: Sequence[ClusterMoments]) -> list[ClusterMoments]:
    """Moments with the best scale of each feature, where features have their own noise.

    It follows from the closed form at the last scale, or from the variances if there is none.
    """
    found = list(moments)
    known = [i for i, one in enumerate(found) if one.plan.is_per_feature and one.has_scale]
    for i, decomposed in zip(known, _decomposed([found[i] for i in known]), strict=True):
        found[i] = found[i].with_scale(_best_scale(decomposed))
    return [
        one.with_scale(_first_scale(one)) if one.plan.is_per_feature and not one.has_scale else one
        for one in found
    ]


class _Form(Protocol):
    """The closed form of a spectrum: the singular values kept, the moments of both factors, and
    what they cost each row and the loadings.
    """

    @property
    def noise(self) -> float: ...
    @property
    def gamma(self) -> FloatArray: ...
    @property
    def shrinkage(self) -> FloatArray: ...
    @property
    def score_variance(self) -> FloatArray: ...
    @property
    def loading_variance(self) -> FloatArray: ...
    @property
    def moments(self) -> Moments: ...
    @property
    def latent_cost(self) -> float: ...
    @property
    def loading_cost(self) -> float: ...


@dataclass(frozen=True, eq=False)
class _Solved:
    """The closed form of a single spectrum, by any method."""

    solution: Solution
    values: FloatArray
    n_features: int

    @property
    def noise(self) -> float:
        return self.solution.noise_variance

    @property
    def gamma(self) -> FloatArray:
        return self.values[: self.solution.rank]

    @property
    def moments(self) -> Moments:
        return self.solution.moments

    @property
    def shrinkage(self) -> FloatArray:
        return self.solution.shrunk_singular_values / self.gamma

    @property
    def _b2(self) -> FloatArray:
        return self.moments.mean_b[: self.solution.rank] ** 2

    @property
    def score_variance(self) -> FloatArray:
        return self._b2 * self.moments.variance_a[: self.solution.rank]

    @property
    def loading_variance(self) -> FloatArray:
        return self.moments.variance_b[: self.solution.rank] / np.maximum(self._b2, TINY)

    @property
    def latent_cost(self) -> float:
        both = self.moments
        return 0.5 * _log_ratio(self.solution.rank, both.prior_variance_a, both.variance_a)

    @property
    def loading_cost(self) -> float:
        """0 for a point estimate."""
        both, p = self.moments, self.n_features
        return 0.5 * p * _log_ratio(self.solution.rank, both.prior_variance_b, both.variance_b)


@dataclass(frozen=True, eq=False)
class _Decomposed:
    """The spectrum of scaled moments and its closed form."""

    of: ClusterMoments
    right: Callable[[int], FloatArray]
    form: _Form
    free_energy: float

    @cached_property
    def components(self) -> FloatArray:
        return np.ascontiguousarray(self.right(self.form.gamma.size))


def _decomposed(
    parts: Sequence[ClusterMoments], *, vectors: bool = True, nearly: bool = False
) -> list[_Decomposed]:
    """Spectra and closed forms; EVB's are computed in one call.

    Where rounding errors of the squares reach the noise, complete rows are decomposed directly.
    """
    if not parts:
        return []
    squares = _squares(parts, vectors=vectors)
    if not all(np.isfinite(known.squares).all() for known in squares):
        raise np.linalg.LinAlgError("the spectrum of a cluster is not finite")
    solve_all = partial(_by_evb, nearly=nearly) if parts[0].plan.is_evb else _one_by_one
    found, are_precise = solve_all(parts, squares)
    pairs = enumerate(zip(parts, are_precise, strict=True))
    rough = [i for i, (part, is_fine) in pairs if part.is_complete and not is_fine]
    if rough:
        some = [parts[i] for i in rough]
        again, _ = solve_all(some, [squares_of_rows(part.rows, part.scale) for part in some])
        for i, one in zip(rough, again, strict=True):
            found[i] = one
    return found


def _squares(parts: Sequence[ClusterMoments], *, vectors: bool) -> list[SquaredSpectrum]:
    """Squared spectra: of the features' Gram matrices in one call for all narrow parts, else
    through the shorter side.
    """
    are_narrow = [part.p <= SMALL and not part.is_wide for part in parts]
    narrow = [part for part, is_so in zip(parts, are_narrow, strict=True) if is_so]
    grams = np.stack([part.scaled_gram for part in narrow]) if narrow else np.empty((0, 1, 1))
    found = iter(squares_of_grams(grams, vectors=vectors))
    pairs = zip(parts, are_narrow, strict=True)
    return [next(found) if is_so else _squares_alone(part) for part, is_so in pairs]


def _squares_alone(part: ClusterMoments) -> SquaredSpectrum:
    if part.is_complete and part.n_rows < part.p:
        return squares_of(None, part.rows, part.scale)
    return squares_of(part.gram, None, part.scale)


def _by_evb(
    parts: Sequence[ClusterMoments], squares: Sequence[SquaredSpectrum], *, nearly: bool
) -> tuple[list[_Decomposed], list[bool]]:
    """EVB's closed forms of all spectra at once, and whether each spectrum had enough digits."""
    spectra = _side_by_side(parts, squares)
    forms = closed_forms(spectra, _noises(parts, spectra, nearly=nearly))
    found = [
        _Decomposed(part, known.right, forms.of(i), float(forms.free_energy[i]))
        for i, (part, known) in enumerate(zip(parts, squares, strict=True))
    ]
    largest = np.sqrt(spectra.squares.max(axis=1, initial=0.0))
    sigma = np.sqrt(forms.noise * np.maximum(spectra.L, spectra.M))
    return found, have_digits(largest, sigma, forms.threshold).tolist()


def _noises(parts: Sequence[ClusterMoments], spectra: Spectra, *, nearly: bool) -> FloatArray:
    if parts[0].plan.is_per_feature:
        return np.ones(len(parts))
    if nearly:
        return noises_near(spectra, np.array([part.noise for part in parts]))
    return noises(spectra)


def _side_by_side(parts: Sequence[ClusterMoments], squares: Sequence[SquaredSpectrum]) -> Spectra:
    table = np.zeros((len(parts), max(known.squares.size for known in squares)))
    for row, known in zip(table, squares, strict=True):
        row[: known.squares.size] = known.squares
    np.maximum(table, 0.0, out=table)
    least = [0.0 if part.plan.is_per_feature else part.plan.least_noise for part in parts]
    return Spectra(
        parts[0].p,
        np.array([part.M for part in parts]),
        table,
        np.array([part.plan.cap(part.full_rank) for part in parts]),
        np.array(least, dtype=float),
    )


def _one_by_one(
    parts: Sequence[ClusterMoments], squares: Sequence[SquaredSpectrum]
) -> tuple[list[_Decomposed], list[bool]]:
    """`_by_evb` for the other methods, one spectrum at a time."""
    found, are_precise = [], []
    for part, known in zip(parts, squares, strict=True):
        values, shape = np.maximum(known.squares, 0.0), (part.p, part.M)
        named = np.sqrt(values[: part.full_rank])
        spectrum = Spectrum(named, shape, float(values.sum()), n_values=part.p)
        solution = part.plan.solve(spectrum)
        form = _Solved(solution, named, part.p)
        found.append(_Decomposed(part, known.right, form, solution.free_energy))
        are_precise.append(is_precise(spectrum, solution, DOUBLE))
    return found, are_precise


def _first_scale(moments: ClusterMoments) -> FloatArray:
    """Scales to begin with: half of each feature's variance is noise."""
    return np.sqrt(np.maximum(0.5 * moments.squares / moments.M, moments.plan.least_noise))


def _best_scale(found: _Decomposed) -> FloatArray:
    psi = best_noise(
        found.of.scale**2,
        found.of.squares,
        moments=found.form.moments,
        gamma=found.form.gamma,
        components=found.components,
        M=found.of.M,
    )
    return np.sqrt(found.of.plan.within(psi))


def _free_energy(found: _Decomposed) -> float:
    """F in the units of the moments before they were divided by their scale."""
    if not found.of.plan.is_per_feature:
        return found.free_energy
    return found.free_energy + found.of.M * float(np.log(found.of.scale).sum())


def _update(found: _Decomposed) -> Update:
    moments = found.of
    F = _free_energy(found)
    return Update(lambda: _cluster(found), moments.count, F, moments.entropy, moments)


def _cluster(found: _Decomposed) -> Cluster:
    form, moments = found.form, found.of
    score_variance = form.score_variance
    posterior = Posterior(
        mean=moments.mean,
        scale=moments.scale,
        components=found.components,
        shrinkage=form.shrinkage,
        score_variance=score_variance,
        loading_variance=form.loading_variance,
        latent_variance=(form.gamma * form.shrinkage) ** 2 / moments.M + score_variance,
        noise_variance=form.noise,
    )
    return Cluster(moments.count, posterior, form.latent_cost, form.loading_cost)


def _log_ratio(k: int, prior: FloatArray, variance: FloatArray) -> float:
    """Σ log(c²/σ²) over the components kept; 0 for a point estimate."""
    alive = variance[:k] > 0
    return float(np.log(prior[:k][alive] / variance[:k][alive]).sum())
