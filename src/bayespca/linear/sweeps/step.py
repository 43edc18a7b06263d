"""Matrix-wise iteration on complete data: one update for every family and every prior.

The posterior is r(A)·r(B), each factor matrix normal with one covariance for all of its rows
(icml2011 Eq. 13–16; ICM of aistats2014 Section 5):

    Σ_A = σ²(⟨BᵀB⟩ + σ²C_A⁻¹)⁻¹,  Â = VᵀB̂Σ_A/σ²,  ⟨BᵀB⟩ = B̂ᵀB̂ + LΣ_B

and the same for B. A point-estimated factor differs only in that its covariance in ⟨·⟩ is 0.

All of this is invariant to orthogonal transformations of features and samples, so V is taken to be
diagonal: its singular values are sufficient, and a sweep costs K·H² for K of them, however many
samples there are. Normal draws in these coordinates are normal draws in the data's own.

After each sweep A and B are stretched and turned against each other to where the free energy is
lowest, which does not change the likelihood; without that (`settle=False`, as in the papers) the
same solutions take many times as many sweeps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray
from bayespca.inference.loop import Info
from bayespca.linear.fit import Decomposed
from bayespca.lowrank.factors import FactorMoments, Factors, inverse, rows_given
from bayespca.spectrum.families import VB
from bayespca.spectrum.noise_law import largest_singular_value
from bayespca.spectrum.records import Moments
from bayespca.spectrum.tolerances import CALM, CANCELS, LEAST_NOISE_OF_SWEEPS, VANISHED


@dataclass(frozen=True)
class SweepProblem:
    """The problem for a spectrum: factors of a family under a prior, with learned or given noise.

    The least prior variance of the factors is in units of the data, not of the noise, which may
    still change.
    """

    factors: Factors
    learns_noise: bool
    settle: bool = True


@dataclass(frozen=True, eq=False)
class SweepState:
    """Moments of A and B in the coordinates in which V is diagonal; `n_gone` components are zero.

    a and b are means (K, H), a_cov and b_cov the covariances of their rows (H, H), prior_a and
    prior_b the prior variances of their columns (H,). `energy` is the free energy, and `calm`
    whether it fell by little in the last sweep, so that components have found their places.
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
    calm: bool = False

    @property
    def rank(self) -> int:
        return int(self.prior_a.size)


# --- one sweep ---------------------------------------------------------------------------------


def step(state: SweepState, data: Decomposed, problem: SweepProblem) -> tuple[SweepState, Info]:
    """Update A, B, coordinates, priors, noise; then drop components that are gone or do not pay."""
    factors = problem.factors
    state = updated(state, data.gamma, factors)
    if problem.settle:
        state = settled(state, factors)
    state = with_best_priors(state, factors)
    state = _with_best_noise(state, data, problem)
    before = state.energy
    state = _without_gone(state, data, factors)
    energy = free_energy(state, data, factors)
    state = replace(state, energy=energy, calm=before - energy < CALM * abs(energy))
    if factors.prior.is_learned and factors.family == VB and state.rank:
        state = _without_useless(state, data, problem)
    return state, Info(state.energy, state.rank, state.noise_variance)


def updated(state: SweepState, gamma: FloatArray, factors: Factors) -> SweepState:
    """Update A given B, then B given A."""
    s2, family, (L, M) = state.noise_variance, factors.family, factors.shape
    Sbb = _second(state.b, state.b_cov, L)
    a, inner = rows_given(Sbb, gamma[:, None] * state.b, s2 / state.prior_a)
    a_cov = s2 * inner * family.integrates_a
    Saa = _second(a, a_cov, M)
    b, inner = rows_given(Saa, gamma[:, None] * a, s2 / state.prior_b)
    return replace(state, a=a, b=b, a_cov=a_cov, b_cov=s2 * inner * family.integrates_b)


def seconds(state: SweepState, factors: Factors) -> tuple[FloatArray, FloatArray]:
    """⟨AᵀA⟩ and ⟨BᵀB⟩."""
    L, M = factors.shape
    return _second(state.a, state.a_cov, M), _second(state.b, state.b_cov, L)


def _second(mean: FloatArray, cov: FloatArray, n: float) -> FloatArray:
    return np.asarray(mean.T @ mean + n * cov)


def _residual(state: SweepState, data: Decomposed, factors: Factors) -> float:
    """⟨‖V − BAᵀ‖²⟩, from ⟨AᵀA⟩ and ⟨BᵀB⟩ unless cancellation would leave hardly a digit."""
    Saa, Sbb = seconds(state, factors)
    overlap = np.einsum("k,kh,kh->", data.gamma, state.a, state.b)
    left = float(data.sum_of_squares - 2 * overlap + np.einsum("hk,hk->", Saa, Sbb))
    return left if left > CANCELS * data.sum_of_squares else _small_residual(state, data, factors)


def _small_residual(state: SweepState, data: Decomposed, factors: Factors) -> float:
    """⟨‖V − BAᵀ‖²⟩ as a sum of positive terms, at a cost of K²·H instead of K·H."""
    (L, M), of_means = factors.shape, state.b @ -state.a.T
    of_means[np.diag_indices_from(of_means)] += data.gamma
    spread = (
        M * np.einsum("hk,hk->", state.a_cov, state.b.T @ state.b)
        + L * np.einsum("hk,hk->", state.b_cov, state.a.T @ state.a)
        + L * M * np.einsum("hk,hk->", state.a_cov, state.b_cov)
    )
    return float(np.einsum("ij,ij->", of_means, of_means) + spread)


def _with_best_noise(state: SweepState, data: Decomposed, problem: SweepProblem) -> SweepState:
    """σ² = ⟨‖V − BAᵀ‖²⟩/LM, where it is learned."""
    if not problem.learns_noise:
        return state
    L, M = problem.factors.shape
    left = _residual(state, data, problem.factors)
    return replace(state, noise_variance=max(left / (L * M), LEAST_NOISE_OF_SWEEPS))


def free_energy(state: SweepState, data: Decomposed, factors: Factors) -> float:
    """½LM log 2πσ² + ⟨‖V − BAᵀ‖²⟩/2σ² + KL of integrated factors − log prior of the others.

    Each component that is gone adds a constant: its energy at the least prior variance.
    """
    L, M = factors.shape
    Saa, Sbb = seconds(state, factors)
    moments = FactorMoments(
        Sa=np.diag(Saa),
        Sb=np.diag(Sbb),
        prior_a=state.prior_a,
        prior_b=state.prior_b,
        log_det_a=M * _log_det(state.a_cov) if factors.family.integrates_a else 0.0,
        log_det_b=L * _log_det(state.b_cov) if factors.family.integrates_b else 0.0,
    )
    energy = moments.free_energy(
        factors,
        residual=_residual(state, data, factors),
        n_cells=L * M,
        noise_variance=state.noise_variance,
    )
    return energy + state.n_gone * factors.gone_energy


def _log_det(cov: FloatArray) -> float:
    return float(np.linalg.slogdet(cov)[1])


# --- coordinates of the latent space, and priors -----------------------------------------------


def settled(state: SweepState, factors: Factors) -> SweepState:
    """A·R and B·R⁻ᵀ for the R with the lowest free energy."""
    found = factors.best_turn(*seconds(state, factors))
    return state if found is None else turned(state, *found)


def turned(state: SweepState, R: FloatArray, back: FloatArray) -> SweepState:
    """A·R and B·R⁻ᵀ."""
    new = replace(state, a=state.a @ R, b=state.b @ back.T)
    if state.a_cov.any():
        new = replace(new, a_cov=R.T @ state.a_cov @ R)
    if state.b_cov.any():
        new = replace(new, b_cov=back @ state.b_cov @ back.T)
    return new


def with_best_priors(state: SweepState, factors: Factors) -> SweepState:
    if not factors.prior.is_learned:
        return state
    prior_a, prior_b = factors.priors(*map(np.diag, seconds(state, factors)))
    return replace(state, prior_a=prior_a, prior_b=prior_b)


# --- components that go ------------------------------------------------------------------------


def _without_gone(state: SweepState, data: Decomposed, factors: Factors) -> SweepState:
    """Drop components that are zero up to rounding.

    A point estimate this small is on its way to zero, and a learned prior follows it, though slowly
    where the other factor is long: its final share of the free energy is known. Under VB the
    posterior of such a component differs from the prior, so it stays.
    """
    keep = np.ones(state.rank, dtype=np.bool_)
    if factors.prior.is_learned:
        keep = state.prior_a > factors.least
    if factors.family != VB and np.isfinite(factors.prior.variance):
        product = np.einsum("kh,kh->h", state.a, state.a) * np.einsum("kh,kh->h", state.b, state.b)
        keep &= product > VANISHED**2 * data.sum_of_squares
    return state if keep.all() else _kept(state, np.flatnonzero(keep))


def _without_useless(state: SweepState, data: Decomposed, problem: SweepProblem) -> SweepState:
    """Under VB, drop the components without which the free energy is lower.

    Until the state is calm, only those are dropped that are too weak for any solution at this
    noise: γ < σ(√L + √M). All go at once if that lowers the energy, else the one that gains most.
    """
    factors = problem.factors
    gains = _gains_without(state, data, factors)
    if not state.calm:
        edge = largest_singular_value(state.noise_variance, factors.shape)
        gains = np.where(_along(state, data.gamma) < edge, gains, -np.inf)
    if not (gains > 0).any():
        return state
    for drop in (np.flatnonzero(gains > 0), np.array([int(gains.argmax())])):
        less = _kept(state, np.delete(np.arange(state.rank), drop))
        less = _with_best_noise(less, data, problem)
        lower = free_energy(less, data, factors)
        if lower < state.energy:
            return replace(less, energy=lower)
    return state


def _along(state: SweepState, gamma: FloatArray) -> FloatArray:
    """The size of the data along each component."""
    sizes = np.linalg.norm(state.a, axis=0) * np.linalg.norm(state.b, axis=0)
    cross = np.einsum("k,kh,kh->h", gamma, state.a, state.b)
    return np.asarray(np.abs(cross) / np.where(sizes > 0, sizes, 1.0))


def _gains_without(state: SweepState, data: Decomposed, factors: Factors) -> FloatArray:
    """Fall of the free energy without each component, everything else unchanged.

    |Σ₋ₕ| = |Σ|·(Σ⁻¹)ₕₕ; the noise stays.
    """
    L, M = factors.shape
    Saa, Sbb = seconds(state, factors)
    product = Saa * Sbb
    cross = np.einsum("k,kh,kh->h", data.gamma, state.a, state.b)
    less_residual = -2 * cross + 2 * product.sum(axis=0) - np.diag(product)
    kl = sum(
        np.diag(second) / prior - n + n * np.log(prior * np.diag(inverse(cov)))
        for second, prior, cov, n in (
            (Saa, state.prior_a, state.a_cov, M),
            (Sbb, state.prior_b, state.b_cov, L),
        )
    )
    return np.asarray(0.5 * (less_residual / state.noise_variance + kl))


def _kept(state: SweepState, keep: NDArray[np.intp]) -> SweepState:
    return replace(
        state,
        a=state.a[:, keep],
        b=state.b[:, keep],
        a_cov=state.a_cov[np.ix_(keep, keep)],
        b_cov=state.b_cov[np.ix_(keep, keep)],
        prior_a=state.prior_a[keep],
        prior_b=state.prior_b[keep],
        n_gone=state.n_gone + state.rank - keep.size,
    )


# --- starts ------------------------------------------------------------------------------------


def random_start(
    data: Decomposed,
    factors: Factors,
    H: int,
    noise_variance: float,
    rng: np.random.Generator,
    scale: float = 1.0,
) -> SweepState:
    """Means from N(0, scale²), covariances and priors scale²·I (aistats2014 Section 5)."""
    K = data.gamma.size
    unit = scale * scale * np.eye(H)
    prior_a, prior_b = _priors(factors, H, scale * scale)
    return SweepState(
        scale * rng.normal(size=(K, H)),
        scale * rng.normal(size=(K, H)),
        unit * factors.family.integrates_a,
        unit * factors.family.integrates_b,
        prior_a,
        prior_b,
        noise_variance,
    )


def start_at(
    data: Decomposed, factors: Factors, moments: Moments, noise_variance: float
) -> SweepState:
    """A start at the minimum of a closed form: each component along one singular vector."""
    learned = factors.prior.is_learned
    moments = moments.with_equal_priors() if learned else moments.with_unit_latent_prior()
    # Components that a learned prior has switched off are dropped, as are point estimates of 0.
    there = moments.prior_variance_a > 0
    if factors.family != VB:
        there &= moments.mean_a * moments.mean_b > 0
    kept = np.flatnonzero(there)
    shape = (data.gamma.size, kept.size)
    a, b = np.zeros(shape), np.zeros(shape)
    a[kept, range(kept.size)] = moments.mean_a[kept]
    b[kept, range(kept.size)] = moments.mean_b[kept]
    prior_a, prior_b = _priors(factors, kept.size, 1.0)
    if learned:
        prior_a = prior_b = moments.prior_variance_a[kept]
    return SweepState(
        a,
        b,
        np.diag(moments.variance_a[kept]),
        np.diag(moments.variance_b[kept]),
        prior_a,
        prior_b,
        noise_variance,
        n_gone=there.size - kept.size,
    )


def _priors(factors: Factors, H: int, learned: float) -> tuple[FloatArray, FloatArray]:
    if factors.prior.is_learned:
        return np.full(H, learned), np.full(H, learned)
    return np.ones(H), np.full(H, factors.prior.variance)
