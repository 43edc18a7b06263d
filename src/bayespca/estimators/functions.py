"""Functions for one job each: factorize, denoise, compare rank rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayespca import arrays, engines, sources
from bayespca.arrays.namespaces import array_namespace
from bayespca.arrays.signs import fixed_signs
from bayespca.arrays.types import Array, Input, RandomState
from bayespca.spectrum.forms import EVERYTHING, ClosedForm
from bayespca.spectrum.methods import METHODS
from bayespca.spectrum.rank_posterior import posterior_of_rank
from bayespca.spectrum.rank_rules import gavish_donoho, marchenko_pastur, minka, parallel_analysis
from bayespca.spectrum.records import Solution, Spectrum
from bayespca.spectrum.solving import solve

from . import _input, _validation
from .pca import BayesianPCA

Factors = tuple[Array, Array, Array, dict[str, Any]]


def evbmf(Y: Input, sigma2: float | None = None, H: int | None = None) -> Factors:
    """Empirical variational Bayes matrix factorization: Y ≈ U S Vᵀ, with the rank found.

    Parameters
    ----------
    Y
        An L×M matrix of any shape and scale; it is not centred.
    sigma2
        Noise variance; estimated by minimising the free energy if not given.
    H
        The largest rank allowed.

    Returns
    -------
    U, S, V
        L×k, k×k diagonal and M×k: the posterior mean of the low-rank matrix is ``U @ S @ V.T``.
        k = 0 is a legal answer.
    post
        ``ma``, ``mb``, ``sa2``, ``sb2`` (moments of the k components with cₐ = c_b, aistats2014
        Eq. 15), ``cacb`` (learned prior scales cₐc_b), ``sigma2`` and ``F`` (free energy, nats).
    """
    return _factorize(Y, ClosedForm(METHODS["evb"], H, _noise(sigma2)))


def vbmf(Y: Input, cacb: float, sigma2: float | None = None, H: int | None = None) -> Factors:
    """Variational Bayes matrix factorization with given prior scales `cacb` = cₐc_b.

    Otherwise as `evbmf` (icml2011 Theorem 3).
    """
    if not cacb > 0:
        raise ValueError(f"cacb must be positive, got {cacb!r}.")
    return _factorize(Y, ClosedForm(METHODS["vb"], H, _noise(sigma2), float(cacb) ** 2))


def _noise(sigma2: float | None) -> float | str:
    return "auto" if sigma2 is None else sigma2


def _factorize(Y: Input, form: ClosedForm) -> Factors:
    Y = _input.read_matrix(Y)
    xp = array_namespace(Y)
    found = engines.decompose(Y.T, plan=form, center=False, n_needed=form.n_needed)
    solution = form(found.spectrum)
    k = solution.rank
    U = fixed_signs(found.right(k)).T
    gamma = found.spectrum.singular_values[:k] * found.spectrum.scale
    V = xp.matmul(Y.T, U) / arrays.to_namespace(gamma, Y)
    S = xp.zeros((k, k), dtype=Y.dtype, device=Y.device)
    for h, value in enumerate(solution.shrunk_singular_values):
        S[h, h] = float(value)
    return U, S, V, _post(solution)


def _post(solution: Solution) -> dict[str, Any]:
    k, moments = solution.rank, solution.moments.with_equal_priors()
    return {
        "ma": moments.mean_a[:k],
        "mb": moments.mean_b[:k],
        "sa2": moments.variance_a[:k],
        "sb2": moments.variance_b[:k],
        "cacb": np.sqrt(moments.prior_variance_a[:k] * moments.prior_variance_b[:k]),
        "sigma2": solution.noise_variance,
        "F": solution.free_energy,
    }


def denoise(X: Input, **options: Any) -> Array:
    """The data without their noise: the posterior mean of the low-rank matrix, plus the mean.

    Options are those of `BayesianPCA`.
    """
    model = BayesianPCA(**options).fit(X)
    return model.denoise(X)


@dataclass(frozen=True)
class RankReport:
    """The rank by each rule; prints as a table."""

    evb: int
    minka: int
    marchenko_pastur: int
    gavish_donoho: int
    parallel_analysis: int
    evb_probability: float
    noise_variance: float
    threshold: float

    def ranks(self) -> dict[str, int]:
        """Rank by name of rule."""
        return {
            "EVB": self.evb,
            "Minka": self.minka,
            "Marchenko–Pastur edge": self.marchenko_pastur,
            "Gavish–Donoho": self.gavish_donoho,
            "parallel analysis": self.parallel_analysis,
        }

    def __str__(self) -> str:
        lines = [f"{name:22s}{rank:6d}" for name, rank in self.ranks().items()]
        lines[0] += f"   probability {self.evb_probability:.3f}"
        return "\n".join(["rule                    rank", *lines])


def rank_report(
    X: Input, *, center: bool = True, scale: bool = False, random_state: RandomState = 0
) -> RankReport:
    """How many components: EVB beside four other rules, from one decomposition of X.

    `random_state` seeds the simulated noise of parallel analysis.
    """
    return rank_rules(_whole_spectrum(X, center=center, scale=scale), random_state=random_state)


def rank_rules(spectrum: Spectrum, *, random_state: RandomState = 0) -> RankReport:
    """`rank_report` of data that have been decomposed already, with every singular value."""
    solution = solve(spectrum)
    return RankReport(
        evb=solution.rank,
        minka=minka(spectrum).rank,
        marchenko_pastur=marchenko_pastur(spectrum),
        gavish_donoho=gavish_donoho(spectrum),
        parallel_analysis=parallel_analysis(
            spectrum, random_state=_validation.generator(random_state)
        ),
        evb_probability=float(posterior_of_rank(spectrum).probabilities[solution.rank]),
        noise_variance=solution.noise_variance,
        threshold=solution.threshold,
    )


def _whole_spectrum(X: Input, *, center: bool, scale: bool) -> Spectrum:
    data = _input.read(BayesianPCA(), X, dask=True, twice=scale)
    if data.holes:
        raise ValueError(
            "Input X contains NaN: rank rules need complete data. BayesianPCA finds the rank of "
            "data with holes."
        )
    values = data.values
    if scale:
        values = sources.rescaled_columns(values, sources.column_scales(values, center=center))
    found = engines.decompose(values, plan=solve, center=center, n_needed=EVERYTHING)
    return found.spectrum
