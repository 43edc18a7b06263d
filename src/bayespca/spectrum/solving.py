"""`solve`: a method's full answer for a spectrum."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np

from . import noise, rank_rules
from .methods import METHODS, Method
from .moments import posterior_moments
from .priors import EmpiricalVB, GivenPrior, NoisePrior, Prior, empirical_vb
from .records import ALL_ZERO, FloatArray, Moments, Solution, Spectrum, Status
from .tolerances import EPS, LOG_2PI

# From this share of the rank bound on, EVB's noise estimate is visibly too small or too large.
NEAR_BOUND = 0.75
# Data this small relative to the standard deviation of the noise count as zero.
NEGLIGIBLE = 1e-150
NOISE_FREE = (
    "The noise is at the level of rounding errors: to that precision, the data have exactly this "
    "rank."
)


def solve(
    spectrum: Spectrum,
    method: str = "evb",
    *,
    noise_variance: float | str = "auto",
    prior_variance: float | None = None,
    max_rank: int | None = None,
    least_noise: float = 0.0,
    other_ranks: bool = True,
    exactly: int | None = None,
) -> Solution:
    """Solve Bayesian PCA of a complete matrix from its singular values, in closed form.

    >>> import numpy as np
    >>> from bayespca import spectrum
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> gamma = np.linalg.svd(X - X.mean(0), compute_uv=False)
    >>> seen = spectrum.Spectrum(gamma, shape=(12, 99))
    >>> answer = spectrum.solve(seen)
    >>> answer.rank, answer.shrunk_singular_values.round(1), gamma[:3].round(1)
    (3, array([46.3, 27. , 15.3]), array([48.5, 30.6, 20.7]))

    Parameters
    ----------
    spectrum
        Singular values, shape and sum of squares.
    method
        Prior learned: ``"evb"`` (global minimum), ``"epb"``, ``"emap"`` (local minima; their global
        ones, ``"global-epb"`` and ``"global-emap"``, are zero). Prior given: ``"vb"`` (icml2011's
        simple-VB), ``"pb"``, ``"pb-a"``, ``"pb-b"``, ``"map"``. ``"ml"``: probabilistic PCA with
        exactly `max_rank` components. ``"laplace"``: the same, with the rank of Minka's evidence.
    noise_variance
        σ²; ``"0db"`` for ‖V‖²/(2LM); ``"auto"`` for the method's own estimate: the global minimum
        of the free energy for ``"evb"``, and for ``"vb"`` with a finite prior; maximum likelihood
        for ``"ml"`` and ``"laplace"``. The free energies of the others have no usable minimum over
        the noise (aistats2014 Section 4.3, icml2011 footnote 3): they take EVB's estimate.
    prior_variance
        c² = cₐ²c_b² for the methods whose prior is given; infinite (flat) by default.
    max_rank
        The largest rank allowed; with ``"ml"`` the rank itself.
    least_noise
        The smallest noise variance that an estimate may have.
    other_ranks
        Whether to compute the free energies of other ranks, each at its own best noise; skipping
        them halves the time.
    exactly
        The rank to keep, with ``"evb"``: the solution of lowest free energy with so many
        components, or with as many as a solution can keep.
    """
    chosen = _checked_method(method, prior_variance, max_rank)
    unit = _beside(noise_variance, spectrum).at_unit_scale()
    cap = _checked_max_rank(max_rank, unit)
    c2 = np.inf if prior_variance is None else float(prior_variance) / unit.scale / unit.scale
    prior = chosen.prior(*unit.shape, c2)
    least = float(least_noise) / unit.scale / unit.scale
    problem = Problem(unit, chosen, prior, cap, least, other_ranks, exactly)
    given = _checked_noise(noise_variance, unit)
    if not unit.sum_of_squares and given is None and not least_noise:
        return _of_zeros(problem)
    return _solution(problem, _answer(problem, given))


@dataclass(frozen=True)
class Problem:
    """The problem to solve: a spectrum at unit scale, a method and the components allowed."""

    spectrum: Spectrum
    method: Method
    prior: Prior
    max_rank: int
    least_noise: float = 0.0
    other_ranks: bool = True
    exactly: int | None = None

    @property
    def gamma(self) -> FloatArray:
        return self.spectrum.singular_values[: self.max_rank]


@dataclass(frozen=True)
class Answer:
    """Noise, rank and energies 2Fₖ of the ranks (up to a constant), at unit scale.

    `free_energy` is set where it does not follow from the prior's components.
    """

    noise_variance: float
    rank: int
    rank_energies: FloatArray
    status: Status = field(default_factory=Status)
    free_energy: float | None = None


# --- checks ------------------------------------------------------------------------------------


def _checked_method(name: str, prior_variance: float | None, max_rank: int | None) -> Method:
    if name not in METHODS:
        raise ValueError(f"unknown method {name!r}; choose one of {', '.join(METHODS)}.")
    method = METHODS[name]
    if prior_variance is not None:
        if not method.takes_prior:
            raise ValueError(f"method {name!r} does not take prior_variance: leave it out.")
        if not prior_variance > 0:
            raise ValueError(f"prior_variance must be positive, got {prior_variance!r}.")
    if method.needs_rank and max_rank is None:
        raise ValueError(f"method {name!r} needs a rank: set max_rank.")
    return method


def _checked_max_rank(max_rank: int | None, spectrum: Spectrum) -> int:
    if max_rank is None:
        return spectrum.full_rank
    if not float(max_rank).is_integer() or not 0 <= max_rank <= spectrum.full_rank:
        raise ValueError(
            f"max_rank must be a whole number from 0 to {spectrum.full_rank}, got {max_rank!r}."
        )
    return int(max_rank)


def _beside(noise_variance: float | str, spectrum: Spectrum) -> Spectrum:
    """The spectrum, or zeros if the noise is so large that squares of their ratio overflow."""
    if isinstance(noise_variance, str) or not 0 < noise_variance < np.inf:
        return spectrum
    largest = float(spectrum.singular_values.max(initial=0.0))
    size = max(largest, float(np.sqrt(spectrum.sum_of_squares))) * spectrum.scale
    if np.sqrt(noise_variance) * NEGLIGIBLE <= size:
        return spectrum
    return Spectrum(np.zeros(spectrum.singular_values.size), spectrum.shape)


def _checked_noise(noise_variance: float | str, unit: Spectrum) -> float | None:
    """The noise at unit scale, or None when it is to be estimated."""
    if isinstance(noise_variance, str):
        if noise_variance not in ("auto", "0db"):
            raise ValueError(
                f"noise_variance must be a number, 'auto' or '0db', got {noise_variance!r}."
            )
        return noise.zero_db(unit) or None if noise_variance == "0db" else None
    if not (np.isfinite(noise_variance) and noise_variance > 0):
        raise ValueError(
            f"noise_variance must be positive and finite, got {noise_variance!r}: "
            "use 'auto' to estimate it."
        )
    return float(noise_variance) / unit.scale / unit.scale


# --- noise and rank ----------------------------------------------------------------------------


def _answer(problem: Problem, given: float | None) -> Answer:
    if not problem.method.chooses_rank:
        return _maximum_likelihood(problem, given)
    if given is not None:
        return _thresholded(problem, given)
    if problem.method.learns_noise and np.isfinite(_prior_variance(problem.prior)):
        return _minimised(problem, cast(NoisePrior, problem.prior))
    borrowed = _minimised(problem, empirical_vb(*problem.spectrum.shape))
    status = borrowed.status.but(*borrowed_noise(problem.method.name))
    return replace(_thresholded(problem, borrowed.noise_variance), status=status)


def borrowed_noise(method: str) -> tuple[str, str]:
    """Code and text of the advice that the noise variance is not the method's own."""
    return (
        "borrowed-noise",
        f"The free energy of {method!r} has no usable minimum over the noise: "
        "the noise variance is EVB's.",
    )


def _prior_variance(prior: Prior) -> float:
    """c² where it was given; 0 stands for a learned one."""
    return prior.prior_variance if isinstance(prior, GivenPrior) else 0.0


def _minimised(problem: Problem, prior: NoisePrior) -> Answer:
    """Noise by global minimisation, each rank's energy at its own best noise."""
    objective = noise.Objective(problem.spectrum, prior, problem.max_rank, problem.least_noise)
    found = noise.minimise(objective, other_ranks=problem.other_ranks)
    if problem.exactly is not None:
        found = noise.with_rank(objective, found, problem.exactly)
    status = Status()
    if found.noise_variance <= noise.rounding_floor(problem.spectrum) * (1 + 1e-6):
        status = status.but("noise-free", NOISE_FREE)
    answer = Answer(found.noise_variance, found.rank, found.rank_energies, status)
    return replace(answer, status=_rank_advice(prior, answer))


def _rank_advice(prior: Prior, answer: Answer) -> Status:
    """Advice on a rank found with the noise unknown."""
    if "noise-free" in answer.status:
        return answer.status
    return answer.status + near_bound(prior, answer.rank)


def near_bound(prior: Prior, rank: int) -> Status:
    """Advice for a rank so large that EVB can hardly estimate the noise."""
    if not isinstance(prior, EmpiricalVB) or not rank or rank < NEAR_BOUND * prior.rank_limit:
        return Status()
    return Status().but("near-rank-bound", _near(rank, prior.rank_limit))


def _near(rank: int, bound: int) -> str:
    return (
        f"{rank} components are nearly as many as can be distinguished from noise in a table of "
        f"this size ({bound} at most), which leaves little data to estimate the noise from, so "
        "their number is approximate. More samples help most; otherwise leave out features, or "
        "give the variance of the measurement errors if you know it (noise_variance)."
    )


def _thresholded(problem: Problem, s: float) -> Answer:
    """The rank at a given noise, and the energies of all ranks at that noise."""
    prior, x = problem.prior, problem.gamma / s * problem.gamma
    rank = int(np.count_nonzero(x > prior.threshold(s)))
    if problem.exactly is not None:
        exist = cast(NoisePrior, prior).exist_noise(problem.gamma**2)
        rank = min(problem.exactly, int(np.count_nonzero(exist > s)))
    return Answer(s, rank, _rank_energies_at(problem, rank, x, s))


def _rank_energies_at(problem: Problem, rank: int, x: FloatArray, s: float) -> FloatArray:
    """2Fₖ − 2F₀ at noise s; ∞ where a component to be kept has no such solution.

    The free energies of local empirical PB and MAP cannot be compared between ranks: switching a
    component off takes them to −∞. All weight is then on the rank found.
    """
    energies = np.full(x.size + 1, np.inf)
    if not isinstance(problem.prior, GivenPrior | EmpiricalVB):
        energies[rank] = 0.0
        return energies
    exists = int(np.count_nonzero(problem.prior.exist_noise(problem.gamma**2) > s))
    gains = problem.prior.costs(x[:exists], s) - x[:exists]
    energies[: exists + 1] = np.append(0.0, np.cumsum(gains))
    return energies


def _maximum_likelihood(problem: Problem, given: float | None) -> Answer:
    """Probabilistic PCA: a rank given or from Minka's evidence, then Tipping and Bishop's noise."""
    unit, status, free_energy = problem.spectrum, Status(), None
    energies = np.full(problem.gamma.size + 1, np.inf)
    if not problem.method.needs_rank:
        log_evidence = rank_rules.minka(unit).log_evidence[: energies.size]
        energies[: log_evidence.size] = -2 * log_evidence
        rank = int(np.argmin(energies))
        free_energy = float(-log_evidence[rank])
    else:
        rank = min(problem.max_rank, int(np.count_nonzero(problem.gamma)))
        energies[rank] = 0.0
    s = given or noise.maximum_likelihood(unit, rank)
    floor = max(noise.rounding_floor(unit), 0.0 if given else problem.least_noise)
    if s < floor:
        s = floor
        status = status.but(
            "noise-free",
            "These components explain the data completely: the noise is set to rounding level.",
        )
    return Answer(s, rank, energies, status, free_energy)


# --- the solution ------------------------------------------------------------------------------


def _solution(problem: Problem, answer: Answer) -> Solution:
    unit, prior, s, k = problem.spectrum, problem.prior, answer.noise_variance, answer.rank
    gamma, given = problem.gamma, answer.free_energy
    live = _n_live(problem, k, s)
    x = gamma[:live] / s * gamma[:live]
    shrunk = np.zeros(k)
    shrunk[:live] = gamma[:live] * (prior.strength(x, s) / x)
    return Solution(
        method=problem.method.name,
        family_name=prior.family.name,
        rank=k,
        noise_variance=s * unit.scale * unit.scale,
        threshold=_threshold(problem, k, s) * unit.scale,
        shrunk_singular_values=shrunk * unit.scale,
        moments=posterior_moments(prior, gamma, live, s).in_units(unit.scale),
        free_energy=_free_energy(problem, live, s) if given is None else given,
        rank_free_energies=_relative(answer.rank_energies),
        status=_cut_off_advice(problem, answer),
    )


def _n_live(problem: Problem, rank: int, s: float) -> int:
    """Number of kept components that are not shrunk to zero: all unless the rank was imposed."""
    if problem.method.chooses_rank:
        return rank
    x = problem.gamma[:rank] / s * problem.gamma[:rank]
    return int(np.count_nonzero(x > problem.prior.threshold(s)))


def _threshold(problem: Problem, k: int, s: float) -> float:
    """The smallest singular value kept; 0 where the rank is not found by thresholding."""
    if not problem.method.chooses_rank:
        return 0.0
    found = float(np.sqrt(problem.prior.threshold(s) * s))
    if problem.exactly is None:
        return found
    kept = np.concatenate([[np.inf], problem.gamma, [0.0]])
    return float(np.clip(found, kept[k + 1], kept[k] * (1 - EPS)))


def _free_energy(problem: Problem, k: int, s: float) -> float:
    """F with all constants (aistats2014 Eq. 16), in the units of the data."""
    unit, prior = problem.spectrum, problem.prior
    log_unit = float(np.log(unit.scale))
    x = problem.gamma[:k] / s * problem.gamma[:k]
    n_components = problem.max_rank
    total = (
        float(prior.L) * prior.M * (LOG_2PI + np.log(s) + 2 * log_unit)
        + noise.tail_sums(unit)[k] / s
        + prior.costs(x, s).sum()
        + (n_components * prior.dropped(s) if n_components else 0.0)
        + prior.point_terms(x, n_components, s, log_unit)
    )
    return float(0.5 * total)


def _relative(energies: FloatArray) -> FloatArray:
    """Free energies above the lowest."""
    return np.asarray(0.5 * (energies - energies.min()))


def _cut_off_advice(problem: Problem, answer: Answer) -> Status:
    """The answer's status, with advice if a truncated spectrum was too short to be sure of it."""
    unit, known = problem.spectrum, problem.spectrum.singular_values.size
    if unit.is_complete or problem.max_rank <= known or answer.rank < known:
        return answer.status
    return answer.status.but(
        "cut-off",
        f"All {known} known singular values are kept: more of the {unit.full_rank} are needed to "
        "find the rank and the noise.",
        exact=False,
    )


def _of_zeros(problem: Problem) -> Solution:
    """The solution for data that are zero throughout: nothing to keep, and no noise."""
    empty, n = np.zeros(0), problem.gamma.size
    zeros = np.zeros(n)
    return Solution(
        method=problem.method.name,
        family_name=problem.prior.family.name,
        rank=0,
        noise_variance=0.0,
        threshold=0.0,
        shrunk_singular_values=empty,
        moments=Moments(zeros, zeros, zeros, zeros, zeros, zeros),
        free_energy=-np.inf,
        rank_free_energies=np.where(np.arange(n + 1) == 0, 0.0, np.inf),
        status=Status().but(ALL_ZERO, "Nothing varies in the data: rank 0, no noise."),
    )
