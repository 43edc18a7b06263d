"""What is fitted to a matrix with holes, and where its sweeps are."""

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
    """What is to be fitted: families and priors of A and B, the number of components in all.

    `least_noise` is None where the noise is given, else the smallest that it may become. With
    `keeps_all`, their number is the rank. With `exactly`, components stay as long as they do not
    vanish, though the free energy were lower without them. `noise` says which rows and columns have
    noise of their own.
    """

    factors: Factors
    most: int
    least_noise: float | None = LEAST_NOISE_WITH_HOLES
    keeps_all: bool = False
    exactly: bool = False
    noise: NoiseModel = ISOTROPIC

    @property
    def prunes(self) -> bool:
        """Whether components go when the free energy is lower without them."""
        return self.is_empirical and not self.exactly

    @property
    def is_empirical(self) -> bool:
        """Whether this is empirical VB."""
        return self.factors.prior.is_learned and self.factors.family == VB

    @property
    def estimate(self) -> Estimate:
        """How variances are found from squares."""
        return most_likely if self.keeps_all else learned

    @property
    def scale_is_free(self) -> bool:
        """Whether it does not matter how noise variance and scales share their size: a given prior
        is in units of the scales, whose geometric mean is 1.
        """
        return self.factors.prior.is_learned or not self.has_prior_of_loadings

    @property
    def has_prior_of_loadings(self) -> bool:
        return bool(np.isfinite(self.factors.prior.variance))

    @property
    def has_idle(self) -> bool:
        """Whether components without a mean differ from their prior, and so have to be counted."""
        return not self.factors.prior.is_learned and self.factors.family == VB


@dataclass(frozen=True, eq=False)
class DenseState:
    """All that the next sweep needs: A follows from it.

    `b` and `b_cov` are mean (p, H+1) and covariance (p, H+1, H+1) of the rows of (B, μ). `scales`
    is the noise that rows and columns have of their own: everything else is of data divided by its
    root, the priors included. `idle` is the variance of the loadings of each further component,
    which has no mean; `n_gone` counts those that have become 0; `energy` is the free energy, and
    `batch` the number of components to try to do without. `reach` is how often the last change of
    the noise, or of that of each column, has to be taken to come to where many sweeps would.
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
        """What rows need to know of it."""
        return Columns(self.b, self.b_cov, self.prior_a, self.noise_variance, integrated)

    def at_unit_scale(self) -> DenseState:
        """Scale to unit size; noise variance, priors and loadings take what the scales had."""
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
        """The state without some of its last components."""
        state = self
        for h in range(self.rank - 1, self.rank - 1 - count, -1):
            state = state.without(h)
        return state


def mean_squares_of_rows(
    state: DenseState, data: IncompleteRows, *, integrated: bool
) -> FloatArray:
    """⟨a²⟩ over the rows, about their mean; without `integrated`, of the posterior means."""
    data, columns = state.scales.applied(data), state.columns(integrated=integrated)
    sums = sums_over_rows(data, columns, share=data.share, root=state.scales.root)
    H, everything = state.rank, to_numpy(sums.everything)
    total = everything[H, H]
    mean = everything[:H, H] / total * data.centred
    return np.asarray((np.diag(everything)[:H] - total * mean**2) / data.freedom)
