"""One sweep of Bayesian Tucker factorization, for every family and prior, with and without holes.

The posterior is r(G)·∏ₙ r(Aₙ) under the priors of aistats2014 Eq. 38–39, C_G⁽ⁿ⁾ = C_A⁽ⁿ⁾ = Cₙ
diagonal and learned, or given. Seen along one mode, the factor Aₙ (Mₙ rows) and the core (∏_{m≠n}Hₘ
rows, divided by the root of the other modes' priors) are the two factors of a matrix:
`Factors` knows their best coordinates and priors. EVB integrates both, EPB the core
alone, EMAP none.

Modes can exchange a scale: Aₙ·tₙ and Cₙ·tₙ² with ∏tₙ = 1 leave the core, its prior and the tensor
as they are. Under VB the free energy is then the same. With point-estimated factors it changes by
ΣMₙHₙ·log tₙ, falls without bound, and there is not even a local minimum: iteration drifts along it
until everything is zero. Here priors of all modes have the same geometric mean, which fixes the
scale. The free energy on that surface is the one in which every factor counts MₙHₙ as their mean
over modes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.namespaces import array_namespace
from bayespca.arrays.packing import inverses
from bayespca.arrays.places import at
from bayespca.arrays.types import FloatArray
from bayespca.inference.loop import Info
from bayespca.lowrank.factors import Factors, Prior, factor_energy
from bayespca.spectrum.families import VB, Family
from bayespca.spectrum.tolerances import (
    CALM,
    CANCELS,
    GONE,
    JITTER,
    LEAST_NOISE_OF_TENSORS,
    LEAST_PRIOR,
    LOG_2PI,
    VANISHED,
)

from .data import Cells
from .modes import outer, size_without, times, unfolded
from .records import Core, Index, Rows, spread_in_all, spread_of_cells

T = TypeVar("T")


@dataclass(frozen=True)
class Model:
    """A family (A the factors, B the core), their prior, and which modes may lose components.

    `learns_noise` tells whether σ² is found with the rest.
    """

    family: Family
    prior: Prior
    sizes: tuple[int, ...]
    free: tuple[bool, ...]
    learns_noise: bool

    def factors(self, n: int, ranks: tuple[int, ...]) -> Factors:
        """A factor and the core as two factors of a matrix."""
        rows = self.sizes[n] if self.family.integrates_a else self._rows_alike(n, ranks)
        return Factors((size_without(ranks, n), rows), self.family, self.prior, LEAST_PRIOR)

    def _rows_alike(self, n: int, ranks: tuple[int, ...]) -> float:
        """Rows that a point-estimated factor counts for, so that all have as many entries."""
        entries = [size * rank for size, rank in zip(self.sizes, ranks, strict=True)]
        return sum(entries) / len(entries) / max(ranks[n], 1)

    @property
    def free_modes(self) -> tuple[int, ...]:
        return tuple(n for n, is_free in enumerate(self.free) if is_free)

    @property
    def core_variance(self) -> float:
        """What the prior of the core has beyond those of the modes."""
        return 1.0 if self.prior.is_learned else self.prior.variance

    @property
    def prunes(self) -> bool:
        """Whether components are dropped where the free energy is lower without them."""
        return self.prior.is_learned and self.family == VB


@dataclass(frozen=True, eq=False)
class State:
    """Posterior and priors. `gone` is what components that went have left in the free energy of
    point estimates, so that it can be compared from step to step.
    """

    rows: tuple[Rows, ...]
    core: Core
    priors: tuple[FloatArray, ...]
    noise_variance: float
    # What the mean of the slices has moved by, where there are holes.
    shift: FloatArray = field(default_factory=lambda: np.zeros(()))
    gone: float = 0.0
    energy: float = np.inf

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(rows.rank for rows in self.rows)

    def with_rows(self, n: int, rows: Rows) -> State:
        return replace(self, rows=replaced(self.rows, n, rows))


class Equations(Protocol):
    """What the data say of the core, given the factors."""

    def solved(
        self, priors: tuple[FloatArray, ...], variance: float, s2: float, *, integrated: bool
    ) -> Core: ...
    def residual(self, core: Any, squares: float) -> float: ...
    def kept(self, n: int, keep: Index) -> Self: ...


def with_updated_rows(
    state: State, n: int, cross: FloatArray, second: FloatArray, model: Model
) -> State:
    """Σᵢ = σ²(⟨xxᵀ⟩ᵢ + σ²Cₙ⁻¹)⁻¹ and âᵢ = Σᵢ⟨xy⟩ᵢ/σ² for the rows of Aₙ.

    `second` is (1 or M, H, H): one for all rows, or one for each; `cross` is (M, H).
    """
    s2 = state.noise_variance
    inverse, _ = graded_inverses(second + np.diag(s2 / state.priors[n]))
    mean = (cross[:, None, :] @ inverse)[:, 0, :] if len(inverse) > 1 else cross @ inverse[0]
    rows = Rows(mean, s2 * inverse * model.family.integrates_a, float(model.sizes[n]))
    return state.with_rows(n, rows)


def graded_inverses(precision: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Of positive definite matrices (…, H, H) whose entries may differ by many orders, and log|·|.

    They are scaled to unit diagonals first. Where rounding has left one that is none, because
    cells say nothing of a direction and the prior next to it, that direction gets a little more.
    """
    root = np.sqrt(np.diagonal(precision, axis1=-2, axis2=-1))
    scale = root[..., :, None] * root[..., None, :]
    try:
        inverse, log_dets = inverses(precision / scale)
    except np.linalg.LinAlgError:
        inverse, log_dets = inverses(precision / scale + JITTER * np.eye(precision.shape[-1]))
    return inverse / scale, log_dets - 2 * np.log(root).sum(axis=-1)


def finished(state: State, equations: Equations, data: Cells, model: Model) -> tuple[State, Info]:
    """The core, without what is gone or does not pay; the best coordinates, priors and noise."""
    state = with_core(state, equations, model)
    state, equations = without_gone(state, equations, data, model)
    now = _energy(state, equations, data, model)
    # Before components have found their places, one that will be needed may look useless.
    if model.prunes and state.energy - now < CALM * abs(now):
        state, equations = _without_useless(state, equations, data, model)
    residual = residual_of(state, equations, data)
    for n in range(len(state.rows)):
        state = _settled(state, n, model)
    if model.prior.is_learned:
        state = balanced(state)
    if model.learns_noise:
        noise = residual / max(data.n_cells, 1.0)
        state = replace(state, noise_variance=max(noise, LEAST_NOISE_OF_TENSORS))
    state = replace(state, energy=free_energy(state, residual, data, model))
    return state, Info(state.energy, math.prod(state.ranks), state.noise_variance)


def with_core(state: State, equations: Equations, model: Model) -> State:
    core = equations.solved(
        state.priors,
        model.core_variance,
        state.noise_variance,
        integrated=model.family.integrates_b,
    )
    return replace(state, core=core)


# --- coordinates and priors --------------------------------------------------------------------


def _settled(state: State, n: int, model: Model) -> State:
    """Aₙ·R and G ×ₙ R⁻¹ for the R with the lowest free energy, and then the prior of mode n."""
    factors, of_core = model.factors(n, state.ranks), state.core.second_along(n, _whitening(state))
    found = factors.best_turn(state.rows[n].second, of_core)
    if found is not None:
        state = replace(state, core=state.core.turned(n, found[1]))
        state = state.with_rows(n, state.rows[n].turned(found[0]))
    return settled_prior(state, n, model)


def settled_prior(state: State, n: int, model: Model) -> State:
    """A learned prior: c² = (⟨‖a‖²⟩ + ⟨‖g‖²⟩/∏cₘ²)/(Mₙ + ∏Hₘ), products over the other modes."""
    if not model.prior.is_learned:
        return state
    of_core = np.diag(state.core.second_along(n, _whitening(state)))
    prior, _ = model.factors(n, state.ranks).priors(np.diag(state.rows[n].second), of_core)
    return replace(state, priors=replaced(state.priors, n, prior))


def balanced(state: State) -> State:
    """The largest prior of all modes the same.

    Modes can exchange a scale tₙ, ∏tₙ = 1, and the free energy does not notice; left alone, some
    would leave the range of numbers while others come near what counts as nothing.
    """
    if not math.prod(state.ranks):
        return state
    logs = np.log([prior.max() for prior in state.priors])
    scales = np.exp(0.5 * (logs.mean() - logs))
    rows = tuple(
        replace(rows, mean=rows.mean * t, cov=rows.cov * t**2)
        for rows, t in zip(state.rows, scales, strict=True)
    )
    priors = tuple(prior * t**2 for prior, t in zip(state.priors, scales, strict=True))
    return replace(state, rows=rows, priors=priors)


def _whitening(state: State) -> tuple[FloatArray, ...]:
    """What divides the core by the priors of all modes."""
    return tuple(np.diag(1 / prior) for prior in state.priors)


# --- free energy -------------------------------------------------------------------------------


def residual_of(state: State, equations: Equations, data: Cells) -> float:
    """Σ⟨(y − …)²⟩ over the cells, in another way where its large terms nearly cancel."""
    quick = equations.residual(state.core, data.squares)
    return quick if quick > CANCELS * data.squares else _slow_residual(state, data)


def _slow_residual(state: State, data: Cells) -> float:
    """What is left in the cells, and the variance of what is not: both sums of squares."""
    xp = array_namespace(data.values)
    left = data.values - times(at(data.values, state.core.mean), [r.mean for r in state.rows])
    if data.is_whole:
        return float(xp.sum(left * left)) + spread_in_all(state.rows, state.core)
    left = left * data.seen
    spread = at(data.values, spread_of_cells(state.rows, state.core))
    return float(xp.sum(left * left)) + float(xp.sum(spread * data.seen))


def free_energy(state: State, residual: float, data: Cells, model: Model) -> float:
    """½n log 2πσ² + ⟨‖Y − …‖²⟩/2σ² + KL of what is integrated out − log prior of the others."""
    s2 = state.noise_variance
    likelihood = 0.5 * (data.n_cells * (LOG_2PI + np.log(s2)) + residual / s2)
    return likelihood + _prior_energy(state, model) + state.gone


def _prior_energy(state: State, model: Model) -> float:
    total = _core_energy(state, model)
    for n, (rows, prior) in enumerate(zip(state.rows, state.priors, strict=True)):
        log_det = rows.log_det if model.family.integrates_a else 0.0
        factors = model.factors(n, state.ranks)
        total += factors.energy_of_a(np.diag(rows.second), prior, log_det)
    return total


def _core_energy(state: State, model: Model) -> float:
    integrated = model.family.integrates_b
    log_det = state.core.log_det if integrated else 0.0
    prior = model.core_variance * outer(state.priors).ravel()
    return factor_energy(state.core.squares().ravel(), prior, 1, log_det, integrated)


# --- components that go ------------------------------------------------------------------------


def strengths(state: State, n: int) -> FloatArray:
    """Squared size of what each component of mode n adds to the tensor, in the posterior mean."""
    grams = tuple(rows.mean.T @ rows.mean for rows in state.rows)
    G = state.core.mean
    others = np.einsum("hk,hk->h", unfolded(times(G, grams, skip=n), n), unfolded(G, n))
    return np.asarray(others * np.diag(grams[n]))


def without(
    state: State, equations: Equations, n: int, gone: Index, model: Model
) -> tuple[State, Equations]:
    """Without some components of mode n, the core solved anew. Without any, nothing is left."""
    modes = range(len(state.rows)) if gone.size == state.ranks[n] else [n]
    for m in modes:
        keep = np.arange(0) if len(modes) > 1 else np.delete(np.arange(state.ranks[n]), gone)
        state = state.with_rows(m, state.rows[m].kept(keep))
        state = replace(state, priors=replaced(state.priors, m, state.priors[m][keep]))
        equations = equations.kept(m, keep)
    return with_core(state, equations, model), equations


def _without_useless(
    state: State, equations: Equations, data: Cells, model: Model
) -> tuple[State, Equations]:
    """Under VB: drop the weakest components of each mode as long as that lowers the free energy.

    It is computed in full, with the core solved anew; twice as many are tried each time.
    """
    lowest = _energy(state, equations, data, model)
    for n in model.free_modes:
        count = 1
        while count <= state.ranks[n] - (not all(model.free)):
            weakest = np.argsort(strengths(state, n), kind="stable")[:count]
            less, fewer = without(state, equations, n, weakest, model)
            found = _energy(less, fewer, data, model)
            if found >= lowest:
                break
            state, equations, lowest, count = less, fewer, found, 2 * count
    return state, equations


def without_gone(
    state: State, equations: Equations, data: Cells, model: Model
) -> tuple[State, Equations]:
    """Without components that are zero, but for rounding, even those that were asked for.

    What is left of them in the free energy of point estimates is kept, as it is then.
    """
    for n in range(len(state.rows)):
        gone = np.flatnonzero(_is_gone(state, n, data, model))
        if not gone.size:
            continue
        before = _energy(state, equations, data, model)
        state, equations = without(state, equations, n, gone, model)
        if model.family != VB:
            left = before - _energy(state, equations, data, model)
            state = replace(state, gone=state.gone + left)
    return state, equations


def _is_gone(state: State, n: int, data: Cells, model: Model) -> NDArray[np.bool_]:
    """Whose learned prior is as good as nothing, or whose point estimates have vanished."""
    gone = np.zeros(state.ranks[n], dtype=np.bool_)
    if model.prior.is_learned:
        gone = state.priors[n] <= GONE * state.priors[n].max(initial=0.0)
    if model.family != VB:
        gone = gone | (strengths(state, n) <= VANISHED**2 * data.squares)
    return np.asarray(gone)


def _energy(state: State, equations: Equations, data: Cells, model: Model) -> float:
    return free_energy(state, residual_of(state, equations, data), data, model)


def replaced(items: tuple[T, ...], n: int, item: T) -> tuple[T, ...]:
    return (*items[:n], item, *items[n + 1 :])
