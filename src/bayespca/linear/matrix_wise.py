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

from bayespca.inference import Info
from bayespca.spectrum import VB, Family, Moments, Spectrum
from bayespca.spectrum.noise_law import largest_singular_value

FloatArray = NDArray[np.float64]

LOG_2PI = float(np.log(2 * np.pi))
# Relative to the size of the data: a component whose prior has shrunk to this is gone. A learned
# prior takes one that the data do not support there in a few sweeps, and would go on to zero.
GONE = 1e-10
# Relative to the size of the data: a point estimate this small is on its way to zero.
VANISHED = 1e-6
LEAST_NOISE = 1e-14
# Relative to the largest, a moment too small for coordinates to be whitened by it.
SINGULAR = 1e-8
# Relative fall of the free energy below which components have found their places.
CALM = 1e-4


@dataclass(frozen=True)
class Prior:
    """Prior variances of the columns of A and B.

    kind is "learned" (cₐ = c_b, which fixes the scale that the factors share) or "given": cₐ = 1,
    the latent variables of probabilistic PCA, and c_b² = `variance`; infinite for maximum
    likelihood.
    """

    kind: str
    variance: float = 1.0


@dataclass(frozen=True, eq=False)
class Problem:
    """A spectrum at unit scale, with what is to be made of it."""

    gamma: FloatArray
    shape: tuple[int, int]
    sum_of_squares: float
    family: Family
    prior: Prior
    learns_noise: bool
    settle: bool = True

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
    learned = problem.prior.kind == "learned"
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
    if problem.prior.kind == "learned":
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
    if problem.prior.kind == "learned" and problem.family == VB and state.rank:
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
    s2, family = state.noise_variance, problem.family
    Saa, Sbb = second_a(state, problem), second_b(state, problem)
    left = _residual(state, problem, Saa, Sbb)
    likelihood = 0.5 * (L * M * (LOG_2PI + np.log(s2)) + left / s2)
    of_a = _factor_energy(Saa, state.a_cov, state.prior_a, M, family.integrates_a)
    of_b = _factor_energy(Sbb, state.b_cov, state.prior_b, L, family.integrates_b)
    return float(likelihood + of_a + of_b + state.n_gone * gone_energy(problem))


def _factor_energy(
    second: FloatArray, cov: FloatArray, prior: FloatArray, n: int, integrated: bool
) -> float:
    """KL(r‖p) of a factor with n rows, or −log p of a point estimate; 0 for a flat prior's."""
    if np.isinf(prior).any():
        return 0.0
    quadratic = float((np.diag(second) / prior).sum() + n * np.log(prior).sum())
    if not integrated:
        return 0.5 * (quadratic + n * prior.size * LOG_2PI)
    return 0.5 * (quadratic - n * prior.size - n * float(np.linalg.slogdet(cov)[1]))


def gone_energy(problem: Problem) -> float:
    """What a component that is zero leaves in the free energy of point-estimated factors."""
    L, M = problem.shape
    family, least = problem.family, _least_prior(problem)
    of_a, of_b = (
        (least, least) if problem.prior.kind == "learned" else (1.0, problem.prior.variance)
    )
    total = 0.0
    if not family.integrates_a:
        total += 0.5 * M * (LOG_2PI + float(np.log(of_a)))
    if not family.integrates_b and np.isfinite(of_b):
        total += 0.5 * L * (LOG_2PI + float(np.log(of_b)))
    return total


def _least_prior(problem: Problem) -> float:
    """In units of the data, not of the noise, which may still change."""
    return GONE * float(np.sqrt(problem.sum_of_squares / np.prod(problem.shape))) or GONE


# --- coordinates of the latent space -----------------------------------------------------------


def _settled(state: State, problem: Problem) -> State:
    """A·R and B·R⁻ᵀ for the R with the lowest free energy.

    The likelihood sees neither. What is left to minimise depends on ⟨AᵀA⟩, ⟨BᵀB⟩ and, through the
    entropies, on (m − l)·log|R|; at the minimum both are diagonal (Hadamard), and what remains is
    one scale for each component.
    """
    if not state.rank:
        return state
    Saa, Sbb = second_a(state, problem), second_b(state, problem)
    staying = _staying(Saa, Sbb)
    block = np.ix_(staying, staying)
    found = _diagonalising(Saa[block], Sbb[block])
    if found is None:
        return state
    # Those that are about to go are stretched only, which takes them there.
    Sa, Sb = np.diag(Saa).copy(), np.diag(Sbb).copy()
    R, back = np.eye(state.rank), np.eye(state.rank)
    R[block], back[block] = found[0], found[1]
    Sa[staying], Sb[staying] = 1.0, found[2]
    least = _least_prior(problem)
    scales = _best_scales(np.maximum(Sa, least**2), np.maximum(Sb, least**2), problem)
    turned = _turned(state, R * scales, back / scales[:, None])
    if staying.size == state.rank:
        return turned
    # Rounding errors beside components that are about to go can cost more than the turn gains.
    before, after = (free_energy(_with_best_priors(s, problem), problem) for s in (state, turned))
    return turned if after < before else state


def _staying(Saa: FloatArray, Sbb: FloatArray) -> NDArray[np.intp]:
    """Components that are not so small beside the largest that a turn would be rounding."""
    a, b = np.diag(Saa), np.diag(Sbb)
    return np.flatnonzero((a > SINGULAR * a.max()) & (b > SINGULAR * b.max()))


def _diagonalising(
    Saa: FloatArray, Sbb: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """R with RᵀSaaR = I and R⁻¹SbbR⁻ᵀ diagonal, R⁻¹, and that diagonal, largest first."""
    try:
        root = np.linalg.cholesky(Saa)
    except np.linalg.LinAlgError:
        return None
    pivots = np.diag(root) ** 2
    if pivots.min() < SINGULAR * pivots.max():  # a component is about to go
        return None
    values, vectors = np.linalg.eigh(root.T @ Sbb @ root)
    values, vectors = values[::-1], vectors[:, ::-1]
    return np.linalg.inv(root).T @ vectors, vectors.T @ root.T, values


def _best_scales(Sa: FloatArray, Sb: FloatArray, problem: Problem) -> FloatArray:
    """f for each component, A·f and B/f: where the slope of the free energy in log f is 0.

    learned: (L + M)(f²Sa − Sb/f²)/(f²Sa + Sb/f²) = m − l;  given: f²Sa/cₐ² − Sb/(f²c_b²) = m − l.
    """
    L, M = problem.shape
    l, m = problem.family.sizes(L, M)
    if problem.prior.kind == "learned":
        ratio = (L + M + m - l) / (L + M - m + l)
        return np.asarray((ratio * Sb / Sa) ** 0.25)
    half = 0.5 * (m - l)
    return np.sqrt((half + np.sqrt(half * half + Sa * Sb / problem.prior.variance)) / Sa)


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
    """c² = (⟨‖a‖²⟩ + ⟨‖b‖²⟩)/(L + M), the same for A and B."""
    if problem.prior.kind != "learned":
        return state
    L, M = problem.shape
    both = np.einsum("kh,kh->h", state.a, state.a) + np.einsum("kh,kh->h", state.b, state.b)
    both = both + M * np.diag(state.a_cov) + L * np.diag(state.b_cov)
    prior = np.maximum(both / (L + M), _least_prior(problem))
    return replace(state, prior_a=prior, prior_b=prior)


def _without_gone(state: State, problem: Problem) -> State:
    """Leave out components that are zero, but for rounding.

    A point estimate this small is on its way to zero, and a learned prior follows it, though slowly
    where the other factor is long: what it will leave in the free energy is known. VB's posterior
    of such a component differs from the prior, so that it stays.
    """
    keep = np.ones(state.rank, dtype=np.bool_)
    if problem.prior.kind == "learned":
        keep = state.prior_a > _least_prior(problem)
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
    return max(residual(state, problem) / (L * M), LEAST_NOISE)


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
