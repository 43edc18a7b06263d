"""The closed forms of clusters, all of them in one call.

Where each feature has its own noise, the closed form is that of data divided by the root of that
noise; the two are updated in turn, as in `linear.scaled`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

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
from bayespca.spectrum.spectra import EVBForm, Spectra, closed_forms
from bayespca.spectrum.tolerances import TINY

from .cluster import Cluster, ClusterMoments, ClusterPlan, ClusterRows, moments_of
from .data import MixtureRows


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
    """`updated_together` for clusters whose moments are known.

    Where features have their own noise, their scales come first. They follow from the closed form
    at the last scales, or from the variances if there are none.
    """
    known = [one for one in moments if one.plan.is_per_feature and one.has_scale]
    best = iter([found.best_noise() for found in _decomposed(known)])
    out = []
    for one in moments:
        if not one.plan.is_per_feature:
            out.append(one)
            continue
        # To begin with, half of each feature's variance is noise.
        half = np.maximum(0.5 * one.squares / one.M, one.plan.least_noise)
        out.append(one.with_scale(np.sqrt(next(best) if one.has_scale else half)))
    return [
        Update(found.cluster, found.of.count, found.free_energy, found.of.entropy, found.of)
        for found in _decomposed(out, nearly=nearly)
    ]


def free_energies(moments: Sequence[ClusterMoments]) -> FloatArray:
    """F of trial closed forms, cheaper than updates: the noise is good but not always the best,
    scales of features stay as they are, and no vectors are computed.
    """
    found = _decomposed(moments, vectors=False, nearly=True)
    return np.array([one.free_energy for one in found])


@dataclass(frozen=True, eq=False)
class _Form:
    """The closed form of a single spectrum by any method, with the names of EVB's."""

    noise: float
    gamma: FloatArray
    shrinkage: FloatArray
    score_variance: FloatArray
    loading_variance: FloatArray
    moments: Moments
    latent_cost: float
    loading_cost: float

    @classmethod
    def of(cls, solution: Solution, values: FloatArray, n_features: int) -> _Form:
        k, both = solution.rank, solution.moments
        gamma, b2 = values[:k], both.mean_b[:k] ** 2
        # A point estimate costs nothing.
        latent = _log_ratio(k, both.prior_variance_a, both.variance_a)
        loading = _log_ratio(k, both.prior_variance_b, both.variance_b)
        return cls(
            noise=solution.noise_variance,
            gamma=gamma,
            shrinkage=solution.shrunk_singular_values / gamma,
            score_variance=b2 * both.variance_a[:k],
            loading_variance=both.variance_b[:k] / np.maximum(b2, TINY),
            moments=both,
            latent_cost=0.5 * latent,
            loading_cost=0.5 * n_features * loading,
        )


def _log_ratio(k: int, prior: FloatArray, variance: FloatArray) -> float:
    """Σ log(c²/σ²) over the components kept; 0 for a point estimate."""
    alive = variance[:k] > 0
    return float(np.log(prior[:k][alive] / variance[:k][alive]).sum())


@dataclass(frozen=True, eq=False)
class _Decomposed:
    """The spectrum of scaled moments, its closed form, and the free energy of both."""

    of: ClusterMoments
    right: Callable[[int], FloatArray]
    form: EVBForm | _Form
    scaled_energy: float

    @cached_property
    def components(self) -> FloatArray:
        return np.ascontiguousarray(self.right(self.form.gamma.size))

    @property
    def free_energy(self) -> float:
        """F in the units of the moments before they were divided by their scale."""
        if not self.of.plan.is_per_feature:
            return self.scaled_energy
        return self.scaled_energy + self.of.M * float(np.log(self.of.scale).sum())

    def best_noise(self) -> FloatArray:
        """ψ of each feature that minimises the free energy at the posterior of A and B.

        The noise also scales a feature's loadings, whose prior is that of the rescaled data. So ψⱼ
        is the mean over ⟨‖xⱼ − A bⱼ‖²⟩ of M samples and ⟨bⱼₕ²⟩/c_bₕ² of the components with a
        proper prior. Those kept come first among the moments.
        """
        moments, gamma, M = self.form.moments, self.form.gamma, self.of.M
        k, psi = gamma.size, self.of.scale**2
        along = np.zeros((moments.mean_b.size, psi.size))
        along[:k] = self.components**2
        b2 = moments.mean_b[:, None] ** 2 * along + moments.variance_b[:, None]
        a2 = moments.mean_a**2 + M * moments.variance_a
        overlap = (gamma * moments.mean_a[:k] * moments.mean_b[:k]) @ along[:k]
        residuals = self.of.squares / psi - 2 * overlap + a2 @ b2
        proper = np.isfinite(moments.prior_variance_b) & (moments.prior_variance_b > 0)
        prior = (b2[proper] / moments.prior_variance_b[proper, None]).sum(axis=0)
        best = psi * (residuals + prior) / (M + np.count_nonzero(proper))
        return self.of.plan.within(best)

    def cluster(self) -> Cluster:
        form, moments = self.form, self.of
        score_variance = form.score_variance
        posterior = Posterior(
            mean=moments.mean,
            scale=moments.scale,
            components=self.components,
            shrinkage=form.shrinkage,
            score_variance=score_variance,
            loading_variance=form.loading_variance,
            latent_variance=(form.gamma * form.shrinkage) ** 2 / moments.M + score_variance,
            noise_variance=form.noise,
        )
        return Cluster(moments.count, posterior, form.latent_cost, form.loading_cost)


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
    grams = [part.scaled_gram for part, is_so in zip(parts, are_narrow, strict=True) if is_so]
    stacked = np.stack(grams) if grams else np.empty((0, 1, 1))
    narrow, found = iter(squares_of_grams(stacked, vectors=vectors)), []
    for part, is_so in zip(parts, are_narrow, strict=True):
        if is_so:
            found.append(next(narrow))
        elif part.is_complete and part.n_rows < part.p:
            found.append(squares_of(None, part.rows, part.scale))
        else:
            found.append(squares_of(part.gram, None, part.scale))
    return found


def _by_evb(
    parts: Sequence[ClusterMoments], squares: Sequence[SquaredSpectrum], *, nearly: bool
) -> tuple[list[_Decomposed], list[bool]]:
    """EVB's closed forms of all spectra at once, and whether each spectrum had enough digits."""
    table = np.zeros((len(parts), max(known.squares.size for known in squares)))
    for row, known in zip(table, squares, strict=True):
        row[: known.squares.size] = np.maximum(known.squares, 0.0)
    is_per_feature = parts[0].plan.is_per_feature
    least = [0.0 if is_per_feature else part.plan.least_noise for part in parts]
    spectra = Spectra(
        parts[0].p,
        np.array([part.M for part in parts]),
        table,
        np.array([part.plan.cap(part.full_rank) for part in parts]),
        np.array(least, dtype=float),
    )
    if is_per_feature:
        noise = np.ones(len(parts))
    elif nearly:
        noise = noises_near(spectra, np.array([part.noise for part in parts]))
    else:
        noise = noises(spectra)
    forms = closed_forms(spectra, noise)
    found = [
        _Decomposed(part, known.right, forms.of(i), float(forms.free_energy[i]))
        for i, (part, known) in enumerate(zip(parts, squares, strict=True))
    ]
    largest = np.sqrt(spectra.squares.max(axis=1, initial=0.0))
    sigma = np.sqrt(forms.noise * np.maximum(spectra.L, spectra.M))
    return found, have_digits(largest, sigma, forms.threshold).tolist()


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
        form = _Form.of(solution, named, part.p)
        found.append(_Decomposed(part, known.right, form, solution.free_energy))
        are_precise.append(is_precise(spectrum, solution, DOUBLE))
    return found, are_precise
