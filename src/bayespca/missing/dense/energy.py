"""The free energy of a matrix with holes, and the noise where it is lowest."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayespca.arrays.namespaces import array_namespace, to_numpy
from bayespca.arrays.places import at
from bayespca.arrays.types import FloatArray
from bayespca.lowrank.factors import Factors
from bayespca.lowrank.holes import IncompleteRows
from bayespca.lowrank.moments import FactorMoments
from bayespca.spectrum.tolerances import LEAST_NOISE_WITH_HOLES, LOG_2PI

from .idle import Idle
from .scales import in_units
from .state import DenseProblem, DenseState


@dataclass(frozen=True, eq=False)
class Parts:
    """What the free energy is made of.

    Of each column: counts are the observed cells, squares is Σx², residuals Σ⟨(x − b̃ᵀã)²⟩. Where B
    is point-estimated, `moments.log_det_b` is that of μ. `of_component` is what each component
    costs because rows or columns have noise of their own.
    """

    factors: Factors
    has_mean: bool
    counts: FloatArray
    squares: FloatArray
    residuals: FloatArray
    moments: FactorMoments
    noise_variance: float
    idle: Idle | None
    of_component: float = 0.0

    @property
    def free_energy(self) -> float:
        """½N log 2πσ² + ⟨residual⟩/2σ² + the energies of A, B and μ.

        The flat prior of μⱼ has density √nⱼ, so that complete data have the free energy of M rows
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
        """The components that are idle, or gone, and what all of them cost besides."""
        count = self.moments.Sa.size + (self.idle.count if self.idle is not None else 0)
        others = count * self.of_component
        if self.idle is not None:
            return others + self.idle.energy
        return others + self.moments.n_gone * self.factors.gone_energy

    def at_best_noise(self, least: float | None) -> Parts:
        """With the noise where the free energy is lowest, unless it is given."""
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
    new, less = _with_best_columns(state, parts, data, problem)
    before = parts.free_energy + state.scales.energy(data)
    # Rounding errors aside it never rises.
    return (new, less) if less.free_energy + new.scales.energy(data) < before else (state, parts)


def _with_best_columns(
    state: DenseState, parts: Parts, data: IncompleteRows, problem: DenseProblem
) -> tuple[DenseState, Parts]:
    """r(v) that minimises the free energy at the posterior of A and (B, μ), feature by feature.

    Its squares are ⟨residual²⟩/σ² of the nⱼ observed cells and ⟨bⱼₕ²⟩/c_bₕ² of the loadings that
    have a proper prior, which is in units of the noise as well. Everything in units of √v is
    rescaled.
    """
    H, scales, s2 = state.rank, state.scales, parts.noise_variance
    assert scales.columns is not None
    before = scales.columns.precision
    xp = array_namespace(state.b)
    variances = xp.linalg.diagonal(state.b_cov)[:, :H]
    loadings = to_numpy(state.b[:, :H] ** 2 + variances)
    prior = loadings @ (1 / state.prior_b)
    count = H * problem.has_prior_of_loadings
    if parts.idle is not None:
        prior += parts.idle.count * parts.idle.b / problem.factors.prior.variance
        count += parts.idle.count
    squares, counts = parts.residuals / s2 + prior, parts.counts + count
    squares = np.maximum(squares / before, counts * LEAST_NOISE_WITH_HOLES / s2)
    assert scales.units is not None
    free = problem.scale_is_free
    columns = in_units(problem.estimate, squares, counts, scales.units, is_free=free)
    scales = replace(scales, columns=columns)
    phi = before / columns.precision
    scaled = replace(
        parts,
        squares=parts.squares / phi,
        residuals=parts.residuals / phi,
        moments=replace(
            parts.moments,
            Sb=(loadings / phi[:, None]).sum(axis=0),
            log_det_b=parts.moments.log_det_b
            - _integrated_entries(parts, H) * float(np.log(phi).sum()),
        ),
        idle=None if parts.idle is None else parts.idle.rescaled(phi),
        of_component=problem.energy_of_component(scales, centred=data.centred),
    )
    there = at(state.b, phi)
    b, b_cov = state.b / xp.sqrt(there)[:, None], state.b_cov / there[:, None, None]
    idle = None if scaled.idle is None else scaled.idle.b
    return replace(state, b=b, b_cov=b_cov, scales=scales, idle=idle), scaled


def _integrated_entries(parts: Parts, H: int) -> int:
    """Number of entries of (bⱼ, μⱼ) that are integrated out."""
    return H * parts.factors.family.integrates_b + parts.has_mean
