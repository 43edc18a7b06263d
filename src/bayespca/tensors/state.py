"""The settings and the state of a Tucker factorization, and the equations of its core.

The posterior is r(G)·∏ₙ r(Aₙ) under the priors of aistats2014 Eq. 38–39, C_G⁽ⁿ⁾ = C_A⁽ⁿ⁾ = Cₙ
diagonal and learned, or given. Along one mode, the factor Aₙ (Mₙ rows) and the core (∏_{m≠n}Hₘ
rows, divided by the root of the other modes' priors) are the two factors of a matrix: `Factors`
knows their best coordinates and priors. EVB integrates out both, EPB the core alone, EMAP neither.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.lowrank.factors import FactorPrior, Factors
from bayespca.lowrank.scales import Scales
from bayespca.spectrum.families import VB, Family
from bayespca.spectrum.tolerances import LEAST_PRIOR

from .modes import size_without
from .records import Core, Index, TuckerRows

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
        rows = self.sizes[n] if self.family.integrates_a else self._rows_alike(n, ranks)
        return Factors((size_without(ranks, n), rows), self.family, self.prior, LEAST_PRIOR)

    def _rows_alike(self, n: int, ranks: tuple[int, ...]) -> float:
        """Number of rows that a point-estimated factor counts as, so that all modes have equally
        many entries (see `coordinates`).
        """
        entries = [size * rank for size, rank in zip(self.sizes, ranks, strict=True)]
        return sum(entries) / len(entries) / max(ranks[n], 1)

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
