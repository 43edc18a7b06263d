"""A Tucker factorization: what is to be found, what is known, and what data say of the core.

The posterior is r(G)·∏ₙ r(Aₙ) under the priors of aistats2014 Eq. 38–39, C_G⁽ⁿ⁾ = C_A⁽ⁿ⁾ = Cₙ
diagonal and learned, or given. Seen along one mode, the factor Aₙ (Mₙ rows) and the core (∏_{m≠n}Hₘ
rows, divided by the root of the other modes' priors) are the two factors of a matrix:
`Factors` knows their best coordinates and priors. EVB integrates both, EPB the core
alone, EMAP none.
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

    `fixed_noise` is None where σ² is found with the rest.
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
class TuckerState:
    """Posterior and priors. `gone` is what components that went have left in the free energy of
    point estimates, so that it can be compared from step to step.
    """

    rows: tuple[TuckerRows, ...]
    core: Core
    priors: tuple[FloatArray, ...]
    noise_variance: float
    # What the mean of the slices has moved by, where there are holes.
    shift: FloatArray = field(default_factory=lambda: np.zeros(()))
    gone: float = 0.0
    energy: float = np.inf
    # Noise variances of the slices of each mode, where they have their own.
    scales: tuple[Scales, ...] = ()
    # Steps before fewer components are tried again, and how many there were in all.
    wait: int = 0
    waited: int = 0
    # Steps before components that are new may go again.
    young: int = 0

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(rows.rank for rows in self.rows)

    def with_rows(self, n: int, rows: TuckerRows) -> TuckerState:
        return replace(self, rows=replaced(self.rows, n, rows))


class Equations(Protocol):
    """What the data say of the core, given the factors."""

    def solved(
        self, priors: tuple[FloatArray, ...], variance: float, s2: float, *, integrated: bool
    ) -> Core: ...
    def residual(self, core: Any, squares: float) -> float: ...
    def kept(self, n: int, keep: Index) -> Self: ...


def replaced(items: tuple[T, ...], n: int, item: T) -> tuple[T, ...]:
    return (*items[:n], item, *items[n + 1 :])
