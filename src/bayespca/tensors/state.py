"""The state of a Tucker factorization: settings, updates, coordinates and free energy.

The posterior is r(G)·∏ₙ r(Aₙ) under the priors of aistats2014 Eq. 38–39, C_G⁽ⁿ⁾ = C_A⁽ⁿ⁾ = Cₙ
diagonal and learned, or given. Along one mode, the factor Aₙ (Mₙ rows) and the core (∏_{m≠n}Hₘ
rows, divided by the root of the other modes' priors) are the two factors of a matrix: `Factors`
knows their best coordinates and priors. EVB integrates out both, EPB the core alone, EMAP neither.

Modes can exchange a scale: Aₙ·tₙ and Cₙ·tₙ² with ∏tₙ = 1 leave the core, its prior and the tensor
unchanged. Under VB the free energy does not change either. With point-estimated factors it changes
by ΣMₙHₙ·log tₙ, falls without bound, and has not even a local minimum: the iteration would drift
along it until everything is zero. Requiring priors of the same geometric mean in all modes fixes
the scale. On that surface, the free energy equals the one in which MₙHₙ of every factor is replaced
by its mean over modes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from bayespca.arrays.namespaces import array_namespace
from bayespca.arrays.packing import inverses
from bayespca.arrays.places import at
from bayespca.arrays.types import FloatArray
from bayespca.lowrank.factors import FactorPrior, Factors, factor_energy
from bayespca.lowrank.scales import Scales
from bayespca.spectrum.families import VB, Family
from bayespca.spectrum.tolerances import CANCELS, JITTER, LEAST_PRIOR, LOG_2PI

from .data import TuckerCells
from .modes import outer, size_without, times
from .records import Core, Index, TuckerRows, spread_in_all, spread_of_cells

T = TypeVar("T")


@dataclass(frozen=True)
class TuckerProblem:
    """A family (A the factors, B the core), their prior, and which modes may lose components.

    `fixed_noise` is None if σ² is learned.
    """

    family: Family
    prior: FactorPrior
    sizes: tuple[int, ...]
    free: tuple[bool, ...]
    fixed_noise: float | None = None

    def factors(self, n: int, ranks: tuple[int, ...]) -> Factors:
        """A factor and the core as two factors of a matrix."""
        rows: float = self.sizes[n]
        if not self.family.integrates_a:
            # All modes count as having equally many entries.
            entries = [size * rank for size, rank in zip(self.sizes, ranks, strict=True)]
            rows = sum(entries) / len(entries) / max(ranks[n], 1)
        return Factors((size_without(ranks, n), rows), self.family, self.prior, LEAST_PRIOR)

    @property
    def free_modes(self) -> tuple[int, ...]:
        return tuple(n for n, is_free in enumerate(self.free) if is_free)

    @property
    def core_variance(self) -> float:
        """Factor of the core's prior variance beyond those of the modes."""
        return 1.0 if self.prior.is_learned else self.prior.variance

    @property
    def prunes(self) -> bool:
        """Whether components are dropped if the free energy is lower without them."""
        return self.prior.is_learned and self.family == VB


@dataclass(frozen=True, eq=False)
class TuckerState:
    """Posterior and priors. `gone` is the contribution of dropped components to the free energy of
    point estimates; it keeps the free energy comparable from step to step.
    """

    rows: tuple[TuckerRows, ...]
    core: Core
    priors: tuple[FloatArray, ...]
    noise_variance: float
    # Distance that the mean of the slices has moved, if there are holes.
    shift: FloatArray = field(default_factory=lambda: np.zeros(()))
    gone: float = 0.0
    energy: float = np.inf
    # Noise variances of the slices of each mode, if they have their own.
    scales: tuple[Scales, ...] = ()
    # Steps left before fewer components are tried again, and the whole length of that wait.
    wait: int = 0
    waited: int = 0
    # Steps left before new components may be dropped.
    young: int = 0

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(rows.rank for rows in self.rows)

    @property
    def seconds(self) -> tuple[FloatArray, ...]:
        """⟨AₙᵀAₙ⟩ of each mode."""
        return tuple(rows.second for rows in self.rows)

    def with_rows(self, n: int, rows: TuckerRows) -> TuckerState:
        return replace(self, rows=replaced(self.rows, n, rows))


class Equations(Protocol):
    """Linear equations of the core, given the data and the factors."""

    def solved(
        self, priors: tuple[FloatArray, ...], variance: float, s2: float, *, integrated: bool
    ) -> Core: ...
    def residual(self, core: Any, squares: float) -> float: ...
    def kept(self, n: int, keep: Index) -> Self: ...


def replaced(items: tuple[T, ...], n: int, item: T) -> tuple[T, ...]:
    return (*items[:n], item, *items[n + 1 :])


# --- updates of a factor and of the core ---------------------------------------------------------


def with_updated_rows(
    state: TuckerState, n: int, cross: FloatArray, second: FloatArray, problem: TuckerProblem
) -> TuckerState:
    """Σᵢ = σ²(⟨xxᵀ⟩ᵢ + σ²Cₙ⁻¹)⁻¹ and âᵢ = Σᵢ⟨xy⟩ᵢ/σ² for the rows of Aₙ.

    `second` is (1 or M, H, H): one for all rows, or one for each; `cross` is (M, H).
    """
    s2 = state.noise_variance
    inverse, _ = graded_inverses(second + np.diag(s2 / state.priors[n]))
    mean = (cross[:, None, :] @ inverse)[:, 0, :] if len(inverse) > 1 else cross @ inverse[0]
    rows = TuckerRows(mean, s2 * inverse * problem.family.integrates_a, float(problem.sizes[n]))
    return state.with_rows(n, rows)


def with_core(state: TuckerState, equations: Equations, problem: TuckerProblem) -> TuckerState:
    core = equations.solved(
        state.priors,
        problem.core_variance,
        state.noise_variance,
        integrated=problem.family.integrates_b,
    )
    return replace(state, core=core)


def graded_inverses(precision: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Inverses and log|·| of positive definite matrices (…, H, H) with entries of any size.

    They are scaled to unit diagonals first. If rounding makes one singular, because neither cells
    nor prior constrain a direction, a small ridge is added.
    """
    root = np.sqrt(np.diagonal(precision, axis1=-2, axis2=-1))
    scale = root[..., :, None] * root[..., None, :]
    try:
        inverse, log_dets = inverses(precision / scale)
    except np.linalg.LinAlgError:
        inverse, log_dets = inverses(precision / scale + JITTER * np.eye(precision.shape[-1]))
    return inverse / scale, log_dets - 2 * np.log(root).sum(axis=-1)


# --- coordinates and priors ----------------------------------------------------------------------


def settled(state: TuckerState, n: int, problem: TuckerProblem) -> TuckerState:
    """Aₙ·R and G ×ₙ R⁻¹ for the R with the lowest free energy, then the best prior of mode n."""
    of_core = state.core.second_along(n, _whitening(state))
    found = problem.factors(n, state.ranks).best_turn(state.rows[n].second, of_core)
    if found is not None:
        state = replace(state, core=state.core.turned(n, found[1]))
        state = state.with_rows(n, state.rows[n].turned(found[0]))
    return settled_prior(state, n, problem)


def settled_prior(state: TuckerState, n: int, problem: TuckerProblem) -> TuckerState:
    """A learned prior: c² = (⟨‖a‖²⟩ + ⟨‖g‖²⟩/∏cₘ²)/(Mₙ + ∏Hₘ), products over the other modes."""
    if not problem.prior.is_learned:
        return state
    of_core = np.diag(state.core.second_along(n, _whitening(state)))
    prior, _ = problem.factors(n, state.ranks).priors(np.diag(state.rows[n].second), of_core)
    return replace(state, priors=replaced(state.priors, n, prior))


def balanced(state: TuckerState) -> TuckerState:
    """Give all modes the same largest prior, which does not change the free energy.

    Left alone, some would overflow while others shrink to what counts as zero.
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


def _whitening(state: TuckerState) -> tuple[FloatArray, ...]:
    """Matrices that divide the core by the priors of all modes."""
    return tuple(np.diag(1 / prior) for prior in state.priors)


# --- the free energy -----------------------------------------------------------------------------


def residual_of(state: TuckerState, equations: Equations, data: TuckerCells) -> float:
    """Σ⟨(y − …)²⟩ over the cells, computed the slow way where the quick way would cancel."""
    quick = equations.residual(state.core, data.squares)
    if quick > CANCELS * data.squares:
        return quick
    # Squared residuals of the posterior mean plus posterior variances: nothing cancels.
    xp = array_namespace(data.values)
    left = data.values - times(at(data.values, state.core.mean), [r.mean for r in state.rows])
    if data.is_whole:
        return float(xp.sum(left * left)) + spread_in_all(state.rows, state.core)
    left = left * data.seen
    spread = at(data.values, spread_of_cells(state.rows, state.core))
    return float(xp.sum(left * left)) + float(xp.sum(spread * data.seen))


def free_energy(
    state: TuckerState, residual: float, data: TuckerCells, problem: TuckerProblem
) -> float:
    """½n log 2πσ² + ⟨‖Y − …‖²⟩/2σ² + KL of integrated parts − log prior of point estimates."""
    s2 = state.noise_variance
    likelihood = 0.5 * (data.n_cells * (LOG_2PI + np.log(s2)) + residual / s2)
    noise = 0.0 if data.noise is None else data.noise.energy
    integrated = problem.family.integrates_b
    log_det = state.core.log_det if integrated else 0.0
    variances = problem.core_variance * outer(state.priors).ravel()
    total = factor_energy(state.core.squares().ravel(), variances, 1, log_det, integrated)
    for n, (rows, prior) in enumerate(zip(state.rows, state.priors, strict=True)):
        log_det = rows.log_det if problem.family.integrates_a else 0.0
        factors = problem.factors(n, state.ranks)
        total += factors.energy_of_a(np.diag(rows.second), prior, log_det)
    return likelihood + total + noise + state.gone


def energy_of(
    state: TuckerState, equations: Equations, data: TuckerCells, problem: TuckerProblem
) -> float:
    return free_energy(state, residual_of(state, equations, data), data, problem)
