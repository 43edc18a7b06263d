"""The problem that is solved for a matrix with holes, and the state of its sweeps."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.places import taken
from bayespca.arrays.types import Array, FloatArray
from bayespca.lowrank.factors import Factors
from bayespca.lowrank.holes import IncompleteRows
from bayespca.lowrank.noise_models import ISOTROPIC, NoiseModel
from bayespca.lowrank.rows import Columns, sums_over_rows
from bayespca.lowrank.scales import learned, most_likely
from bayespca.spectrum.families import VB
from bayespca.spectrum.tolerances import LEAST_NOISE_WITH_HOLES

from .scales import Estimate, NoiseScales


@dataclass(frozen=True)
class DenseProblem:
    """The problem: family and priors of A and B, and the largest number of components, `most`.

    `least_noise` is None if the noise is given, otherwise the smallest noise allowed. With
    `keeps_all`, the rank is `most`. With `exactly`, components stay unless they vanish, even if the
    free energy is lower without them. `noise` says what has noise of its own.
    """

    factors: Factors
    most: int
    least_noise: float | None = LEAST_NOISE_WITH_HOLES
    keeps_all: bool = False
    exactly: bool = False
    noise: NoiseModel = ISOTROPIC

    @property
    def prunes(self) -> bool:
        """Whether components are dropped when the free energy is lower without them."""
        return self.is_empirical and not self.exactly

    @property
    def is_empirical(self) -> bool:
        """Whether this is empirical VB."""
        return self.factors.prior.is_learned and self.factors.family == VB

    @property
    def estimate(self) -> Estimate:
        """The function that estimates variances from squares."""
        return most_likely if self.keeps_all else learned

    @property
    def scale_is_free(self) -> bool:
        """Whether a common factor may move freely between the noise variance and the scales.

        A given prior is in units of the scales, whose geometric mean is fixed at 1.
        """
        return self.factors.prior.is_learned or not self.has_prior_of_loadings

    @property
    def has_prior_of_loadings(self) -> bool:
        return bool(np.isfinite(self.factors.prior.variance))

    @property
    def has_idle(self) -> bool:
        """Whether idle components differ from their prior, and so have to be counted."""
        return not self.factors.prior.is_learned and self.factors.family == VB


@dataclass(frozen=True, eq=False)
class DenseState:
    """Everything the next sweep needs; A follows from it.

    `b` and `b_cov` are mean (p, H+1) and covariance (p, H+1, H+1) of the rows of (B, μ). `scales`
    holds the noise of rows, columns and cells; everything else, priors included, refers to data
    divided by its root. `idle` is the variance of the loadings of each idle component, whose mean
    is zero; `n_gone` counts components that have become 0; `energy` is the free energy, and `batch`
    the number of components to try to drop at once. `reach` is the factor by which the last change
    of the noise (of each column's, if they have their own) must be multiplied to arrive where many
    sweeps would.
    """

    b: Array
    b_cov: Array
    prior_a: FloatArray
    prior_b: FloatArray
    noise_variance: float
    scales: NoiseScales = field(default_factory=NoiseScales)
    idle: FloatArray | None = None
    n_gone: int = 0
    energy: float = np.inf
    batch: int = 1
    reach: FloatArray = field(default_factory=lambda: np.ones(1))

    @property
    def rank(self) -> int:
        return int(self.prior_a.size)

    def columns(self, *, integrated: bool = True) -> Columns:
        """The moments of (B, μ), the prior and the noise that the update of rows needs."""
        return Columns(self.b, self.b_cov, self.prior_a, self.noise_variance, integrated)

    def at_unit_scale(self) -> DenseState:
        """The state with scales of unit size; noise, priors and loadings absorb the former size."""
        rows, columns, cells = self.scales.sizes
        return replace(
            self,
            scales=self.scales.at_unit_scale(),
            b=self.b * columns**0.5,
            b_cov=self.b_cov * columns,
            prior_a=self.prior_a * rows,
            prior_b=self.prior_b * columns,
            noise_variance=self.noise_variance * rows * columns * cells,
            idle=None if self.idle is None else self.idle * columns,
        )

    def without(self, h: int) -> DenseState:
        """The state with one component less."""
        keep = np.delete(np.arange(self.rank + 1), h)
        return replace(
            self,
            b=taken(self.b, keep, axis=1),
            b_cov=taken(taken(self.b_cov, keep, axis=1), keep, axis=2),
            prior_a=np.delete(self.prior_a, h),
            prior_b=np.delete(self.prior_b, h),
        )

    def without_weakest(self, count: int) -> DenseState:
        """The state without its last `count` components."""
        state = self
        for h in range(self.rank - 1, self.rank - 1 - count, -1):
            state = state.without(h)
        return state


def mean_squares_of_rows(
    state: DenseState, data: IncompleteRows, *, integrated: bool
) -> FloatArray:
    """Mean of ⟨a²⟩ over the rows, about their mean; without `integrated`, of posterior means."""
    data, columns = state.scales.applied(data), state.columns(integrated=integrated)
    sums = sums_over_rows(data, columns, share=data.share, root=state.scales.root)
    H, everything = state.rank, to_numpy(sums.everything)
    total = everything[H, H]
    mean = everything[:H, H] / total * data.centred
    return np.asarray((np.diag(everything)[:H] - total * mean**2) / data.freedom)
