"""Matrix-wise iteration on complete data: one update for every family and every prior.

The posterior is r(A)·r(B), each factor matrix normal with one covariance for all of its rows
(icml2011 Eq. 13–16; ICM of aistats2014 Section 5):

    Σ_A = σ²(⟨BᵀB⟩ + σ²C_A⁻¹)⁻¹,  Â = VᵀB̂Σ_A/σ²,  ⟨BᵀB⟩ = B̂ᵀB̂ + LΣ_B

and the same for B. A point-estimated factor has covariance 0 in ⟨·⟩ and nowhere else a difference.

Orthogonal changes of features and samples leave all of this alone, so V is taken to be diagonal:
its singular values are sufficient, and a sweep costs K·H² for K of them, however many samples there
are. A start from normal draws is one from normal draws in the data's own coordinates.

After each sweep A and B are stretched and turned against each other to where the free energy is
lowest, which the likelihood does not notice; without that (`settle=False`, the papers' way) the
same solutions are reached in many times as many sweeps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

# NumPy's linear algebra alone: SciPy's has threads of its own, which would compete with these.
import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray
from bayespca.inference.loop import Info
from bayespca.lowrank.factors import Factors, Prior
from bayespca.spectrum.families import VB, Family
from bayespca.spectrum.noise_law import largest_singular_value
from bayespca.spectrum.records import Moments, Spectrum
from bayespca.spectrum.tolerances import CALM, GONE, LEAST_NOISE_OF_SWEEPS, LOG_2PI, VANISHED


@dataclass(frozen=True, eq=False)
class Problem:
    """A spectrum at unit scale, with what is to be made of it."""

    gamma: FloatArray
    shape: tuple[int, float]
    sum_of_squares: float
    family: Family
    prior: Prior
    learns_noise: bool
    settle: bool = True

    @property
    def factors(self) -> Factors:
        """What does not depend on the data.

        The least prior is in units of the data, not of the noise, which may still change.
        """
        least = GONE * float(np.sqrt(self.sum_of_squares / np.prod(self.shape))) or GONE
        return Factors(self.shape, self.family, self.prior, least)

    @classmethod
    def of(
        cls,
        spectrum: Spectrum,
        family: Family,
        prior: Prior,
        *,
        learns_noise: bool,
        settle: bool = True,
    ) -> Problem:
        return cls(
            spectrum.singular_values,
            spectrum.shape,
            spectrum.sum_of_squares,
            family,
            prior,
            learns_noise,
            settle,
        )


@dataclass(frozen=True, eq=False)
class State:
    """Moments of A and B in the coordinates in which V is diagonal; `n_gone` components are zero.

    a and b are means (K, H), a_cov and b_cov the covariances of their rows (H, H), prior_a and
    prior_b the prior variances of their columns (H,). `energy` is the free energy.
    """

    a: FloatArray
    b: FloatArray
    a_cov: FloatArray
    b_cov: FloatArray
    prior_a: FloatArray
    prior_b: FloatArray
    noise_variance: float
    n_gone: int = 0
    energy: float = np.inf

    @property
    def rank(self) -> int:
        return int(self.prior_a.size)


def start(
    problem: Problem, H: int, noise_variance: float, rng: np.random.Generator, scale: float = 1.0
) -> State:
    """Means from N(0, scale²), covariances and priors scale²·I (aistats2014 Section 5)."""
    K = problem.gamma.size
    unit = scale * scale * np.eye(H)
    prior_a, prior_b = _priors(problem, H, scale * scale)
    return State(
        scale * rng.normal(size=(K, H)),
        scale * rng.normal(size=(K, H)),
        unit * problem.family.integrates_a,
        unit * problem.family.integrates_b,
        prior_a,
        prior_b,
        noise_variance,
    )


def start_at(problem: Problem, moments: Moments, noise_variance: float) -> State:
    """Where a closed form says that the minimum is: each component along one singular vector."""
    learned = problem.prior.is_learned
    moments = moments.with_equal_priors() if learned else moments.with_unit_latent_prior()
    # A component that a learned prior has switched off is not there, nor a point estimate of 0.
    there = moments.prior_variance_a > 0
    if problem.family != VB:
        there &= moments.mean_a * moments.mean_b > 0
    kept = np.flatnonzero(there)
    shape = (problem.gamma.size, kept.size)
    a, b = np.zeros(shape), np.zeros(shape)
    a[kept, range(kept.size)] = moments.mean_a[kept]
    b[kept, range(kept.size)] = moments.mean_b[kept]
    prior_a, prior_b = _priors(problem, kept.size, 1.0)
    if learned:
        prior_a = prior_b = moments.prior_variance_a[kept]
    return State(
        a,
        b,
        np.diag(moments.variance_a[kept]),
        np.diag(moments.variance_b[kept]),
        prior_a,
        prior_b,
        noise_variance,
        n_gone=there.size - kept.size,
    )


def _priors(problem: Problem, H: int, learned: float) -> tuple[FloatArray, FloatArray]:
    if problem.prior.is_learned:
        return np.full(H, learned), np.full(H, learned)
    return np.ones(H), np.full(H, problem.prior.variance)


# --- one sweep ---------------------------------------------------------------------------------


def step(state: State, problem: Problem) -> tuple[State, Info]:
    """A, B, the best coordinates, priors, noise; then drop what is gone or does not pay."""
    state = _updated(state, problem)
    if problem.settle:
        state = _settled(state, problem)
    state = _with_best_priors(state, problem)
    if problem.learns_noise:
        state = replace(state, noise_variance=_best_noise(state, problem))
    before = state.energy
    state = _without_gone(state, problem)
    state = replace(state, energy=free_energy(state, problem))
    if problem.prior.is_learned and problem.family == VB and state.rank:
        calm = before - state.energy < CALM * abs(state.energy)
        state = _without_useless(state, problem, calm=calm)
    return state, Info(state.energy, state.rank, state.noise_variance)


def _updated(state: State, problem: Problem) -> State:
    """A given B, then B given A."""
    M = problem.shape[1]
    s2, gamma, family = state.noise_variance, problem.gamma, problem.family
    Sbb = second_b(state, problem)
    inverse = _inverse(Sbb + np.diag(s2 / state.prior_a))
    a = gamma[:, None] * state.b @ inverse
    a_cov = s2 * inverse * family.integrates_a
    Saa = a.T @ a + M * a_cov
    inverse = _inverse(Saa + np.diag(s2 / state.prior_b))
    b = gamma[:, None] * a @ inverse
    return replace(state, a=a, b=b, a_cov=a_cov, b_cov=s2 * inverse * family.integrates_b)


def second_a(state: State, problem: Problem) -> FloatArray:
    """⟨AᵀA⟩"""
    return np.asarray(state.a.T @ state.a + problem.shape[1] * state.a_cov)


def second_b(state: State, problem: Problem) -> FloatArray:
    """⟨BᵀB⟩"""
    return np.asarray(state.b.T @ state.b + problem.shape[0] * state.b_cov)


def residual(state: State, problem: Problem) -> float:
    """⟨‖V − BAᵀ‖²⟩"""
    return _residual(state, problem, second_a(state, problem), second_b(state, problem))


def _residual(state: State, problem: Problem, Saa: FloatArray, Sbb: FloatArray) -> float:
    overlap = np.einsum("k,kh,kh->", problem.gamma, state.a, state.b)
    return float(problem.sum_of_squares - 2 * overlap + np.einsum("hk,hk->", Saa, Sbb))


def _inverse(matrix: FloatArray) -> FloatArray:
    """Of a positive definite matrix, symmetric to the last digit."""
    inverse = np.linalg.inv(matrix)
    return np.asarray(0.5 * (inverse + inverse.T))


# --- free energy -------------------------------------------------------------------------------


def free_energy(state: State, problem: Problem) -> float:
    """½LM log 2πσ² + ⟨‖V − BAᵀ‖²⟩/2σ² + KL of integrated factors − log prior of the others.

    Components that are gone count as what is left of them at the least prior variance: a constant.
    """
    L, M = problem.shape
    s2 = state.noise_variance
    Saa, Sbb = second_a(state, problem), second_b(state, problem)
    left = _residual(state, problem, Saa, Sbb)
    likelihood = 0.5 * (L * M * (LOG_2PI + np.log(s2)) + left / s2)
    factors = problem.factors
    log_det_a = M * _log_det(state.a_cov) if factors.family.integrates_a else 0.0
    log_det_b = L * _log_det(state.b_cov) if factors.family.integrates_b else 0.0
    of_a = factors.energy_of_a(np.diag(Saa), state.prior_a, log_det_a)
    of_b = factors.energy_of_b(np.diag(Sbb), state.prior_b, log_det_b)
    return float(likelihood + of_a + of_b + state.n_gone * factors.gone_energy)


def _log_det(cov: FloatArray) -> float:
    return float(np.linalg.slogdet(cov)[1])


# --- coordinates of the latent space -----------------------------------------------------------


def _settled(state: State, problem: Problem) -> State:
    """A·R and B·R⁻ᵀ for the R with the lowest free energy."""
    found = problem.factors.best_turn(second_a(state, problem), second_b(state, problem))
    return state if found is None else _turned(state, *found)


def _turned(state: State, R: FloatArray, back: FloatArray) -> State:
    """A·R and B·R⁻ᵀ."""
    turned = replace(state, a=state.a @ R, b=state.b @ back.T)
    if state.a_cov.any():
        turned = replace(turned, a_cov=R.T @ state.a_cov @ R)
    if state.b_cov.any():
        turned = replace(turned, b_cov=back @ state.b_cov @ back.T)
    return turned


# --- priors, and components that go ------------------------------------------------------------


def _with_best_priors(state: State, problem: Problem) -> State:
    if not problem.prior.is_learned:
        return state
    Sa, Sb = (np.diag(second(state, problem)) for second in (second_a, second_b))
    prior_a, prior_b = problem.factors.priors(Sa, Sb)
    return replace(state, prior_a=prior_a, prior_b=prior_b)


def _without_gone(state: State, problem: Problem) -> State:
    """Leave out components that are zero, but for rounding.

    A point estimate this small is on its way to zero, and a learned prior follows it, though slowly
    where the other factor is long: what it will leave in the free energy is known. VB's posterior
    of such a component differs from the prior, so that it stays.
    """
    keep = np.ones(state.rank, dtype=np.bool_)
    if problem.prior.is_learned:
        keep = state.prior_a > problem.factors.least
    if problem.family != VB and np.isfinite(problem.prior.variance):
        product = np.einsum("kh,kh->h", state.a, state.a) * np.einsum("kh,kh->h", state.b, state.b)
        keep &= product > VANISHED**2 * problem.sum_of_squares
    return state if keep.all() else _kept(state, np.flatnonzero(keep))


def _without_useless(state: State, problem: Problem, *, calm: bool) -> State:
    """Under VB: drop the components without which the free energy is lower.

    Before things have calmed down, only those so weak that no solution keeps them at this noise:
    γ < σ(√L + √M). All at once if that is lower still, else the one that gains most.
    """
    gains = _gains_without(state, problem)
    if not calm:
        edge = largest_singular_value(state.noise_variance, problem.shape)
        gains = np.where(_along(state, problem) < edge, gains, -np.inf)
    if not (gains > 0).any():
        return state
    for drop in (np.flatnonzero(gains > 0), np.array([int(gains.argmax())])):
        less = _kept(state, np.delete(np.arange(state.rank), drop))
        if problem.learns_noise:
            less = replace(less, noise_variance=_best_noise(less, problem))
        lower = free_energy(less, problem)
        if lower < state.energy:
            return replace(less, energy=lower)
    return state


def _along(state: State, problem: Problem) -> FloatArray:
    """The size of the data along each component."""
    sizes = np.linalg.norm(state.a, axis=0) * np.linalg.norm(state.b, axis=0)
    cross = np.einsum("k,kh,kh->h", problem.gamma, state.a, state.b)
    return np.asarray(np.abs(cross) / np.where(sizes > 0, sizes, 1.0))


def _gains_without(state: State, problem: Problem) -> FloatArray:
    """By how much the free energy falls without each component, everything else as it is.

    |Σ₋ₕ| = |Σ|·(Σ⁻¹)ₕₕ; the noise stays.
    """
    L, M = problem.shape
    Saa, Sbb = second_a(state, problem), second_b(state, problem)
    product = Saa * Sbb
    cross = np.einsum("k,kh,kh->h", problem.gamma, state.a, state.b)
    less_residual = -2 * cross + 2 * product.sum(axis=0) - np.diag(product)
    kl = sum(
        np.diag(second) / prior - n + n * np.log(prior * np.diag(_inverse(cov)))
        for second, prior, cov, n in (
            (Saa, state.prior_a, state.a_cov, M),
            (Sbb, state.prior_b, state.b_cov, L),
        )
    )
    return np.asarray(0.5 * (less_residual / state.noise_variance + kl))


def _best_noise(state: State, problem: Problem) -> float:
    L, M = problem.shape
    return max(residual(state, problem) / (L * M), LEAST_NOISE_OF_SWEEPS)


def _kept(state: State, keep: NDArray[np.intp]) -> State:
    return State(
        state.a[:, keep],
        state.b[:, keep],
        state.a_cov[np.ix_(keep, keep)],
        state.b_cov[np.ix_(keep, keep)],
        state.prior_a[keep],
        state.prior_b[keep],
        state.noise_variance,
        state.n_gone + state.rank - keep.size,
        state.energy,
    )
