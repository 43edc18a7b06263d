"""The free energy of a matrix with holes, and the noise at which it is lowest."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.places import at
from bayespca.arrays.types import FloatArray
from bayespca.lowrank.factors import FactorMoments, Factors
from bayespca.lowrank.holes import IncompleteRows
from bayespca.spectrum.tolerances import LEAST_NOISE_WITH_HOLES, LOG_2PI

from .idle import Idle
from .scales import in_units
from .state import DenseProblem, DenseState

# Number of cells to assume for a column whose only cell goes to the mean.
HARDLY = 1e-3


@dataclass(frozen=True, eq=False)
class Parts:
    """Parts of the free energy.

    For each column, `counts` is the number of observed cells, `squares` is Σx², `residuals` is
    Σ⟨(x − b̃ᵀã)²⟩, and `spread` the part of these due to the uncertainty of b̃. If B is
    point-estimated, `moments.log_det_b` is that of μ.
    """

    factors: Factors
    has_mean: bool
    counts: FloatArray
    squares: FloatArray
    residuals: FloatArray
    spread: FloatArray
    moments: FactorMoments
    noise_variance: float
    idle: Idle | None

    @property
    def free_energy(self) -> float:
        """½N log 2πσ² + ⟨residual⟩/2σ² + the energies of A, B and μ.

        The flat prior of μⱼ has density √nⱼ, so complete data have the free energy of M rows
        without a mean.
        """
        energy = self.moments.free_energy(
            self.factors,
            residual=float(self.residuals.sum()),
            n_cells=float(self.counts.sum()),
            noise_variance=self.noise_variance,
        )
        return float(energy + self._energy_of_mean + self._energy_of_others)

    @property
    def _energy_of_mean(self) -> float:
        energy = 0.0 if self.factors.family.integrates_b else -0.5 * self.moments.log_det_b
        if self.has_mean:
            p = self.counts.size
            energy -= 0.5 * (p * (1 + LOG_2PI) + np.log(np.maximum(self.counts, 1)).sum())
        return energy

    @property
    def _energy_of_others(self) -> float:
        """Energy of the components that are idle or gone."""
        if self.idle is not None:
            return self.idle.energy
        return self.moments.n_gone * self.factors.gone_energy

    def at_best_noise(self, least: float | None) -> Parts:
        """The parts at the noise with the lowest free energy; unchanged if the noise is given."""
        if least is None:
            return self
        best = float(self.residuals.sum()) / float(self.counts.sum())
        return replace(self, noise_variance=max(best, least))


def with_best_noise(
    state: DenseState, parts: Parts, data: IncompleteRows, problem: DenseProblem
) -> tuple[DenseState, Parts]:
    parts = parts.at_best_noise(problem.least_noise)
    state = replace(state, noise_variance=parts.noise_variance)
    if not problem.noise.columns:
        return state, parts
    new, less = _with_best_columns(state, parts, problem)
    before = parts.free_energy + state.scales.energy(data)
    # Only rounding errors can raise the free energy; such an update is discarded.
    return (new, less) if less.free_energy + new.scales.energy(data) < before else (state, parts)


def _with_best_columns(
    state: DenseState, parts: Parts, problem: DenseProblem
) -> tuple[DenseState, Parts]:
    """Update r(v) of each column to minimise the free energy, given the posterior in units of v.

    The squares are those of the residuals of the nⱼ observed cells, one of which goes to the mean,
    and of the loadings in units of their prior, both at the means of (b, μ). Covariances are in
    units of v and stay as they are; means are rescaled.
    """
    scales, s2 = state.scales, parts.noise_variance
    assert scales.columns is not None
    assert scales.units is not None
    before, left = scales.columns.precision, parts.residuals - parts.spread
    loadings = to_numpy(state.b[:, : state.rank] ** 2)
    squares = left / s2 + loadings @ (1 / state.prior_b)
    counts = np.maximum(parts.counts - parts.has_mean, HARDLY)
    squares = np.maximum(squares / before, counts * LEAST_NOISE_WITH_HOLES / s2)
    free = problem.scale_is_free
    columns = in_units(problem.estimate, squares, counts, scales.units, is_free=free)
    growth = columns.precision / before
    Sb = parts.moments.Sb + (growth - 1) @ loadings
    scaled = replace(
        parts,
        squares=parts.squares * growth,
        residuals=left * growth + parts.spread,
        moments=replace(parts.moments, Sb=Sb),
    )
    b = state.b * at(state.b, np.sqrt(growth))[:, None]
    return replace(state, b=b, scales=replace(scales, columns=columns)), scaled
