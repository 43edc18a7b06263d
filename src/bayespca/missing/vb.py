"""Empirical variational Bayes for a matrix with holes: exact covariances for each row and column.

    x_ij = Σₕ a_ih b_jh + μ_j + ε,  a_ih ~ N(0, cₐₕ²),  b_jh ~ N(0, c_bₕ²),  ε ~ N(0, σ²)

for the cells that are observed, with a flat prior on μ. The posterior is r(A)·r(B, μ), each a
product over its rows (aistats2014 Eq. 13–16 with a sum over observed cells in place of all). The
mean is one more column of B whose partner in A is known to be 1.

The mean takes one row: of n complete rows the closed form sees M = n − 1, in the direction in which
all are equal nothing is known of A, and nothing is paid for it. With holes that direction is not a
row of its own, so each row pays M/n of its covariance: its share in likelihood and in KL. Where
there are no holes this is the closed form's free energy, exactly.

After each sweep the latent space is moved, turned and stretched to where the free energy is lowest:
zero mean of A, and ΣᵢaᵢaᵢᵀΣⱼbⱼbⱼᵀ both diagonal. The likelihood does not change by that; Hadamard's
inequality says that no other choice is better. It takes the place of hundreds of sweeps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from bayespca.inference import Info

from .data import Holes
from .kernels import rows_given_columns

FloatArray = NDArray[np.float64]

# Of the mean square of the data: noise below it is rounding.
LEAST_NOISE = 1e-12
# The same for maximum likelihood, which has no bound where there are fewer cells than parameters.
LEAST_NOISE_ML = 1e-6


@dataclass(frozen=True, eq=False)
class State:
    """All that the next sweep needs: A follows from it.

    `b` and `b_cov` are mean (p, H+1) and covariance (p, H+1, H+1) of the rows of (B, μ). With
    `psi`, each feature has a noise variance of its own: everything else is then of data divided by
    √ψ, whose noise variance is 1, the prior of the loadings included. With `is_ml`, B is point-
    estimated under a flat prior: the maximum likelihood of probabilistic PCA, for a given rank.
    """

    b: FloatArray
    b_cov: FloatArray
    prior_a: FloatArray
    prior_b: FloatArray
    noise_variance: float
    psi: FloatArray | None = None
    is_ml: bool = False

    @property
    def rank(self) -> int:
        return int(self.prior_a.size)


@dataclass(frozen=True, eq=False)
class Rows:
    """The posterior of A, and sums over it that columns need.

    `packed_cov` are the covariances of each pattern, `second` is Σᵢ⟨ãᵢãᵢᵀ⟩ over its rows, both
    packed, and `log_det` the sum over all rows of log |Σᵢ|.
    """

    a: FloatArray
    packed_cov: FloatArray
    second: FloatArray
    log_det: float

    @property
    def cov(self) -> FloatArray:
        """The covariances of each pattern: (m, H, H)."""
        return _unpacked(self.packed_cov, self.a.shape[1])


# --- one sweep ---------------------------------------------------------------------------------


def step(state: State, data: Holes) -> tuple[State, Info]:
    """Rows, columns, the best coordinates, prior variances, noise; then drop what does not pay."""
    values = scaled_values(state, data)
    rows = update_rows(state, data, values)
    columns = _update_columns(state, data, rows, values)
    state, energy = _settled(state, data, rows, columns, values)
    if state.psi is None:
        return state, Info(energy, state.rank, state.noise_variance)
    energy += 0.5 * float((data.column_counts - 1) @ np.log(state.psi))
    return state, Info(energy, state.rank, float(state.psi.mean()))


def scaled_values(state: State, data: Holes) -> FloatArray:
    """The data in the units of the state."""
    return data.values if state.psi is None else data.values / np.sqrt(state.psi)


def update_rows(state: State, data: Holes, values: FloatArray | None = None) -> Rows:
    """r(aᵢ) = N(Σᵢ rᵢ/σ², Σᵢ), Σᵢ = σ²(Σⱼ⟨bⱼbⱼᵀ⟩ + σ²/cₐ²)⁻¹ over the observed j of row i."""
    H, s2 = state.rank, state.noise_variance
    values = scaled_values(state, data) if values is None else values
    second_b = _second(state.b, state.b_cov)
    gram = data.patterns @ _packed(second_b[:, :H, :H])
    drift = data.patterns @ second_b[:, :H, H]
    pull = values @ state.b[:, :H] - drift[data.pattern]
    weights = data.pattern_weights
    a, cov, second, log_dets = rows_given_columns(
        gram, pull, data.order, data.starts, weights, s2 / state.prior_a, s2
    )
    return Rows(a, cov, second, float(weights @ log_dets))


def _with_one(a: FloatArray) -> FloatArray:
    return np.concatenate([a, np.ones((len(a), 1))], axis=1)


def _update_columns(
    state: State, data: Holes, rows: Rows, values: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """r(bⱼ, μⱼ), and Σᵢ⟨ãᵢãᵢᵀ⟩ over the observed rows of each column."""
    H, s2 = state.rank, state.noise_variance
    second = _unpacked(data.patterns.T @ rows.second, H + 1)
    ridge = np.append(0.0 * state.prior_b if state.is_ml else s2 / state.prior_b, 0.0)
    # A column without any value: its mean stays where it is, with an error as large as the data.
    empty = second[:, H, H] == 0
    precision = (second + np.diag(ridge)) / s2
    precision[empty, H, H] = 1.0
    b_cov, _ = _inverses(precision)
    if state.is_ml:
        b = np.einsum("jhk,jk->jh", b_cov, _pull(rows, values)) / s2
        return b, _of_the_mean(1 / precision[:, H, H], H), second
    return np.einsum("jhk,jk->jh", b_cov, _pull(rows, values)) / s2, b_cov, second


def _pull(rows: Rows, values: FloatArray) -> FloatArray:
    """Σᵢxᵢⱼãᵢ over the observed rows of each column."""
    return np.concatenate([values.T @ rows.a, values.sum(axis=0)[:, None]], axis=1)


def _of_the_mean(variance: FloatArray, H: int) -> FloatArray:
    """Covariances of (B, μ) where B is point-estimated: of μ given B alone."""
    b_cov = np.zeros((variance.size, H + 1, H + 1))
    b_cov[:, H, H] = variance
    return b_cov


def _settled(
    state: State,
    data: Holes,
    rows: Rows,
    columns: tuple[FloatArray, FloatArray, FloatArray],
    values: FloatArray,
) -> tuple[State, float]:
    """The state in the best coordinates, with the best priors and noise, and its free energy."""
    n, p = data.shape
    b, b_cov, second = columns
    H, M = state.rank, data.freedom
    mean = rows.a.mean(axis=0)
    Saa = rows.a.T @ rows.a + _unpacked((data.pattern_weights @ rows.packed_cov)[None, :], H)[0]
    Saa -= n * np.outer(mean, mean)
    b, b_cov = _moved(b, b_cov, mean)
    if state.is_ml:
        b_cov = columns[1]  # μ given B has the same variance wherever the origin is
    Sbb = b[:, :H].T @ b[:, :H] + b_cov[:, :H, :H].sum(axis=0)
    turn = _turn(Saa, Sbb, M)
    back = np.asarray(np.linalg.inv(turn), dtype=np.float64)
    b, b_cov = _turned(b, b_cov, back)
    # ⟨ããᵀ⟩ in the new coordinates: ã ↦ (turnᵀ(a − mean), 1).
    change = np.zeros((H + 1, H + 1))
    change[:H, :H], change[:H, H], change[H, H] = turn.T, -turn.T @ mean, 1.0
    second = change @ second @ change.T
    prior_a = np.diag(turn.T @ Saa @ turn) / M
    Sbb = back @ Sbb @ back.T
    prior_b = np.ones(H) if state.is_ml else np.diag(Sbb) / p
    a = (rows.a - mean) @ turn
    cross = (values.T @ _with_one(a)) * b
    overlap = _second(b, b_cov) * second
    squares = np.einsum("ij,ij->j", values, values)
    log_det_a = rows.log_det + 2 * M * np.linalg.slogdet(turn)[1]
    known = b_cov[:, H:, H:] if state.is_ml else b_cov
    log_det_b = float(np.linalg.slogdet(known)[1].sum())
    counts = data.column_counts
    fixed = None if state.psi is None else 1.0
    least = LEAST_NOISE_ML if state.is_ml else LEAST_NOISE
    parts = Parts(
        M, counts, squares, cross, overlap, prior_a, prior_b, log_det_a, log_det_b, fixed, least
    )
    best = replace(
        state,
        b=b,
        b_cov=b_cov,
        prior_a=prior_a,
        prior_b=prior_b,
        noise_variance=parts.noise_variance,
    )
    if best.is_ml:
        return best, parts.free_energy
    best, parts = _without_weakest(best, parts, state, back, data)
    if best.psi is None:
        return best, parts.free_energy
    return _with_best_psi(best, parts)


def _with_best_psi(state: State, parts: Parts) -> tuple[State, float]:
    """ψⱼ·φⱼ that minimises the free energy at the posterior of A and (B, μ), feature by feature.

    φⱼ is the mean over ⟨residual²⟩ of the nⱼ observed cells and ⟨bⱼₕ²⟩/c_bₕ² of the H loadings,
    whose prior is in units of the noise as well. Everything in units of √ψ is rescaled.
    """
    H, psi = state.rank, state.psi
    assert psi is not None
    loadings = state.b[:, :H] ** 2 + np.einsum("jhh->jh", state.b_cov[:, :H, :H])
    terms = parts.residuals + loadings @ (1 / state.prior_b)
    freedom = parts.counts + H
    phi = np.maximum(terms / freedom, LEAST_NOISE / psi)
    change = 0.5 * float((terms / phi - terms + freedom * np.log(phi)).sum())
    # log |b_cov| and the units of μ and of the data are among the terms of `freedom`; those of the
    # data and of μ are added where ψ is known, so they are taken out here.
    change -= 0.5 * float((parts.counts - 1) @ np.log(phi))
    b, b_cov = state.b / np.sqrt(phi)[:, None], state.b_cov / phi[:, None, None]
    return replace(state, b=b, b_cov=b_cov, psi=psi * phi), parts.free_energy + change


def _along(v: FloatArray, state: State, data: Holes) -> FloatArray:
    """vᵀΣᵢ⁻¹v for the covariance of each pattern under `state`."""
    H, s2 = state.rank, state.noise_variance
    second_b = _second(state.b, state.b_cov)[:, :H, :H]
    squares = np.einsum("h,jhk,k->j", v, second_b, v)
    return np.asarray((data.patterns @ squares) / s2 + v @ (v / state.prior_a))


def _without_weakest(
    state: State, parts: Parts, before: State, back: FloatArray, data: Holes
) -> tuple[State, Parts]:
    """Drop the last component if the free energy is lower without it; rows are from `before`."""
    h = state.rank - 1
    if h < 0:
        return state, parts
    # |Σ₋ₕ| = |Σ|·(Σ⁻¹)ₕₕ, for the rows of A and of (B, μ) in the new coordinates.
    along_a = _along(back[h], before, data)
    unit = np.zeros((len(state.b), h + 2, 1))
    unit[:, h] = 1.0
    along_b = np.linalg.solve(state.b_cov, unit)[:, h, 0]
    keep = _others(h, h + 2)
    less = replace(
        parts,
        cross=parts.cross[:, keep],
        overlap=parts.overlap[:, keep[:, None], keep],
        prior_a=parts.prior_a[:h],
        prior_b=parts.prior_b[:h],
        log_det_a=parts.log_det_a + float(data.pattern_weights @ np.log(along_a)),
        log_det_b=parts.log_det_b + float(np.log(along_b).sum()),
    )
    if less.free_energy >= parts.free_energy:
        return state, parts
    return replace(without_component(state, h), noise_variance=less.noise_variance), less


def without_component(state: State, h: int) -> State:
    """The state with one component less."""
    keep = _others(h, state.rank + 1)
    return replace(
        state,
        b=state.b[:, keep],
        b_cov=state.b_cov[:, keep[:, None], keep],
        prior_a=np.delete(state.prior_a, h),
        prior_b=np.delete(state.prior_b, h),
    )


def _others(h: int, count: int) -> NDArray[np.intp]:
    return np.delete(np.arange(count), h)


@dataclass(frozen=True, eq=False)
class Parts:
    """What the free energy is made of, once priors are at their best.

    Of each column: counts are the observed cells, squares is Σx², cross Σ x·ã·b̃ by component,
    overlap Σ⟨b̃b̃ᵀ⟩⟨ããᵀ⟩ by pairs of components. `fixed_noise` is None where the noise is learned.
    """

    M: int
    counts: FloatArray
    squares: FloatArray
    cross: FloatArray
    overlap: FloatArray
    prior_a: FloatArray
    prior_b: FloatArray
    log_det_a: float
    log_det_b: float
    fixed_noise: float | None = None
    least_noise: float = LEAST_NOISE

    @property
    def residuals(self) -> FloatArray:
        """Σ⟨(x − b̃ᵀã)²⟩ over the observed cells of each column."""
        overlap = self.overlap.sum(axis=(1, 2))
        return np.asarray(self.squares - 2 * self.cross.sum(axis=1) + overlap)

    @property
    def residual(self) -> float:
        return float(self.residuals.sum())

    @property
    def noise_variance(self) -> float:
        if self.fixed_noise is not None:
            return self.fixed_noise
        return max(self.residual / float(self.counts.sum()), self.least_noise)

    @property
    def free_energy(self) -> float:
        """½N log 2πσ² + ⟨residual⟩/2σ² + KL(A) + KL(B, μ).

        The flat prior of μⱼ has density √nⱼ, so that complete data have the free energy of M rows
        without a mean.
        """
        s2, N, p = self.noise_variance, float(self.counts.sum()), self.counts.size
        likelihood = 0.5 * N * np.log(2 * np.pi * s2) + 0.5 * self.residual / s2
        kl_a = 0.5 * (self.M * np.log(self.prior_a).sum() - self.log_det_a)
        kl_b = 0.5 * (p * (np.log(self.prior_b).sum() - 1 - np.log(2 * np.pi)) - self.log_det_b)
        flat = 0.5 * float(np.log(np.maximum(self.counts, 1)).sum())
        return float(likelihood + kl_a + kl_b - flat)


# --- coordinates of the latent space -----------------------------------------------------------


def _turn(Saa: FloatArray, Sbb: FloatArray, M: int) -> FloatArray:
    """R with RᵀSaaR = M·I and R⁻¹SbbR⁻ᵀ diagonal, its largest entry first."""
    if not len(Saa):
        return Saa
    root = np.linalg.cholesky(Saa / M)
    _, vectors = scipy.linalg.eigh(root.T @ Sbb @ root)
    return np.asarray(scipy.linalg.solve_triangular(root, vectors[:, ::-1], lower=True, trans="T"))


def _moved(b: FloatArray, b_cov: FloatArray, mean: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A less its mean: μ takes over B·mean."""
    H = mean.size
    change = np.eye(H + 1)
    change[H, :H] = mean
    return b @ change.T, change @ b_cov @ change.T


def _turned(b: FloatArray, b_cov: FloatArray, back: FloatArray) -> tuple[FloatArray, FloatArray]:
    """B for A·R: B·R⁻ᵀ."""
    H = back.shape[0]
    change = np.eye(H + 1)
    change[:H, :H] = back
    return b @ change.T, change @ b_cov @ change.T


# --- small matrices, many of them --------------------------------------------------------------


def _second(mean: FloatArray, cov: FloatArray) -> FloatArray:
    return cov + mean[:, :, None] * mean[:, None, :]


def _packed(matrices: FloatArray) -> FloatArray:
    """The upper triangles, one row each."""
    i, j = np.triu_indices(matrices.shape[-1])
    return matrices[:, i, j]


def _unpacked(triangles: FloatArray, size: int) -> FloatArray:
    i, j = np.triu_indices(size)
    out = np.empty((len(triangles), size, size))
    out[:, i, j] = triangles
    out[:, j, i] = triangles
    return out


def _inverses(precision: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Covariances, and the logarithms of their determinants."""
    root = np.linalg.cholesky(precision)
    log_dets = -2 * np.log(np.einsum("mhh->mh", root)).sum(axis=1)
    inverse_root = np.linalg.inv(root)
    return np.swapaxes(inverse_root, 1, 2) @ inverse_root, log_dets
