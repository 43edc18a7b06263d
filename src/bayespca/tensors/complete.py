"""A sweep over a tensor without holes: all rows of a factor share one covariance.

    Aₙ:  Σₙ = σ²(⟨G₍ₙ₎(⊗_{m≠n}⟨AₘᵀAₘ⟩)G₍ₙ₎ᵀ⟩ + σ²Cₙ⁻¹)⁻¹,  Âₙ = Y₍ₙ₎(⊗_{m≠n}Âₘ)Ĝ₍ₙ₎ᵀΣₙ/σ²
    G:   Σ_G = σ²(⊗ₙ⟨AₙᵀAₙ⟩ + σ²⊗ₙCₙ⁻¹)⁻¹,  vec Ĝ = Σ_G vec(Y ×₁ Â₁ᵀ ×₂ Â₂ᵀ …)/σ²

With RₙᵀRₙ = ⟨AₙᵀAₙ⟩, the SVD RₙCₙ^½ = UₙΛₙ^½Vₙᵀ and Qₙ = Cₙ^½Vₙ the second becomes

    Σ_G = (⊗Qₙ)·diag(1/(1 + ∏λₙ/σ²))·(⊗Qₙ)ᵀ

Where holes are filled, their values and the core are solved for jointly. Given the factors, the
mean of the core is linear in the values y of the holes, and its prediction for them is P·y + …,
with P = B·diag(w)·Bᵀ, Bₙ = ÂₙQₙ and w = spread/σ². If the core has nearly as many entries as there
are cells, P is nearly 1: holes filled with the last prediction hardly move in a sweep. So (1 − P)·y
= … is solved by conjugate gradients, each step of which lowers the free energy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.linalg.lapack import dgejsv

from bayespca.arrays.namespaces import array_namespace, to_numpy
from bayespca.arrays.places import at
from bayespca.arrays.types import Array, FloatArray
from bayespca.spectrum.families import VB

from .data import TuckerCells
from .modes import in_turn, mode_product, outer, times, unfolded
from .records import Index, KroneckerCore
from .state import TuckerProblem, TuckerState, settled, with_core, with_updated_rows

# How often a factor and the core are solved for in turn before the next mode. With 0, the core is
# solved for at the end of the sweep.
TURNS = 2
# Most gradient steps, and the share of their total gain that one more has to add.
MOST_GRADIENTS = 50
WORTHWHILE = 1e-3


@dataclass(frozen=True, eq=False)
class Projected:
    """Equations of the core: Y ×₁ Â₁ᵀ ×₂ Â₂ᵀ …, and a root of ⟨AₙᵀAₙ⟩ for each mode."""

    cross: FloatArray
    roots: tuple[FloatArray, ...]

    @property
    def seconds(self) -> tuple[FloatArray, ...]:
        """⟨AₙᵀAₙ⟩ of each mode."""
        return tuple(root.T @ root for root in self.roots)

    def solved(
        self, priors: tuple[FloatArray, ...], variance: float, s2: float, *, integrated: bool
    ) -> KroneckerCore:
        """The core under a prior of covariance variance·⊗ₙCₙ."""
        stds = [np.sqrt(prior) for prior in priors]
        found = [_graded_svd(root * std) for root, std in zip(self.roots, stds, strict=True)]
        bases = tuple(std[:, None] * V for std, (_, V) in zip(stds, found, strict=True))
        values = outer([sizes**2 for sizes, _ in found])
        spread = variance * s2 / (s2 + variance * values)
        mean = times(times(self.cross, [Q.T for Q in bases]) * spread / s2, bases)
        return KroneckerCore(mean, bases, spread if integrated else np.zeros_like(spread))

    def residual(self, core: KroneckerCore, squares: float) -> float:
        """⟨‖Y − G ×₁ A₁ …‖²⟩"""
        seconds = self.seconds
        second = np.vdot(core.second_along(0, seconds), seconds[0])
        return float(squares - 2 * np.vdot(self.cross, core.mean) + second)

    def kept(self, n: int, keep: Index) -> Self:
        roots = list(self.roots)
        roots[n] = roots[n][:, keep]
        return replace(self, cross=np.take(self.cross, keep, axis=n), roots=tuple(roots))


def swept(
    state: TuckerState, data: TuckerCells, problem: TuckerProblem
) -> tuple[TuckerState, Projected]:
    """Update every factor, and return the equations of the core that result.

    If both are integrated out, each factor and the core are updated in turn, `TURNS` times, in
    their best coordinates: once the other modes are contracted, all matrices are small.
    """

    def update(state: TuckerState, T: Array, n: int) -> TuckerState:
        if problem.family != VB or not TURNS:
            return _with_factor(state, T, n, problem)
        for _ in range(TURNS):
            state = _with_factor(state, T, n, problem)
            cross = to_numpy(mode_product(T, at(T, state.rows[n].mean.T), n))
            state = with_core(state, Projected(cross, _roots(state)), problem)
            state = settled(state, n, problem)
        return state

    N = len(data.shape)
    state, last = in_turn(state, data.values, range(N), contract=_contracted, update=update)
    return state, Projected(to_numpy(_contracted(state, last, [N - 1])), _roots(state))


def _with_factor(state: TuckerState, T: Array, n: int, problem: TuckerProblem) -> TuckerState:
    """Update a factor, given the tensor contracted along the other modes."""
    second = state.core.second_along(n, state.seconds)
    cross = to_numpy(unfolded(T, n)) @ unfolded(state.core.mean, n).T
    return with_updated_rows(state, n, cross, second[None], problem)


def projected(state: TuckerState, data: TuckerCells) -> Projected:
    """Equations of the core, given the factors."""
    cross = _contracted(state, data.values, range(len(data.shape)))
    return Projected(to_numpy(cross), _roots(state))


def _contracted(state: TuckerState, T: Array, modes: Iterable[int]) -> Array:
    for m in sorted(modes, reverse=True):
        T = mode_product(T, at(T, state.rows[m].mean.T), m)
    return T


def _roots(state: TuckerState) -> tuple[FloatArray, ...]:
    return tuple(rows.root for rows in state.rows)


def _graded_svd(B: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Singular values and right vectors, each with a small relative error.

    Components on their way to zero have columns smaller than the others by ten orders of magnitude
    and more; as eigenvalues of BᵀB they would be rounding errors of the largest. LAPACK's gejsv
    uses Jacobi's method.
    """
    if not B.shape[1]:
        return np.empty(0), np.empty((0, 0))
    sizes, _, V, work, _, _ = dgejsv(B, joba=0, jobu=3, jobr=0)
    return sizes * (work[0] / work[1]), V


# --- holes that are filled -----------------------------------------------------------------------


def refilled(
    state: TuckerState, equations: Projected, data: TuckerCells, problem: TuckerProblem
) -> tuple[Projected, TuckerCells]:
    """Fill the holes with the predictions of the core that they lead to, the factors fixed.

    `data` are already filled in some way. Return the equations of the core, and the filled data.
    """
    s2 = state.noise_variance
    core = equations.solved(state.priors, problem.core_variance, s2, integrated=True)
    xp, means = array_namespace(data.values), [rows.mean for rows in state.rows]
    hole = xp.ones_like(data.values) - data.seen
    weights, bases = core.spread / s2, [A @ Q for A, Q in zip(means, core.bases, strict=True)]
    expected = times(at(data.values, core.mean), means)

    def apart(y: Array) -> Array:
        """(1 − P)·y"""
        along = times(y, [B.T for B in bases]) * at(y, weights)
        return y - times(along, bases) * hole

    change = _solved(apart, (expected - data.values) * hole)
    cross = equations.cross + to_numpy(times(change, [A.T for A in means]))
    return replace(equations, cross=cross), data.with_values(data.values + change)


def _solved(matrix: Callable[[Array], Array], right: Array) -> Array:
    """x with matrix·x = right for a positive definite matrix, as precisely as pays, from x = 0."""
    xp = array_namespace(right)
    x, left, along = xp.zeros_like(right), right, right
    size, gained = float(xp.sum(left * left)), 0.0
    for _ in range(MOST_GRADIENTS):
        if not size:
            break
        image = matrix(along)
        step = size / float(xp.sum(along * image))
        x, left = x + step * along, left - step * image
        gained += step * size
        if step * size < WORTHWHILE * gained:
            break
        before, size = size, float(xp.sum(left * left))
        along = left + (size / before) * along
    return x
