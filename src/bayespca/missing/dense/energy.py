"""The free energy of a matrix with holes, and the noise where it is lowest."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayespca.arrays.namespaces import array_namespace, to_numpy
from bayespca.arrays.places import at
from bayespca.arrays.types import FloatArray
from bayespca.lowrank.factors import Factors
from bayespca.lowrank.moments import FactorMoments
from bayespca.spectrum.tolerances import LOG_2PI

from .idle import Idle
from .state import DenseProblem, DenseState


@dataclass(frozen=True, eq=False)
class Parts:
    """What the free energy is made of.

    Of each column: counts are the observed cells, squares is Σx², residuals Σ⟨(x − b̃ᵀã)²⟩. Where B
    is point-estimated, `moments.log_det_b` is that of μ.
    """

    factors: Factors
    has_mean: bool
    counts: FloatArray
    squares: FloatArray
    residuals: FloatArray
    moments: FactorMoments
    noise_variance: float
    idle: Idle | None

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
        """The components that are idle, or gone."""
        if self.idle is not None:
            return self.idle.energy
        return self.moments.n_gone * self.factors.gone_energy

    def at_best_noise(self, least: float | None) -> Parts:
        """With the noise where the free energy is lowest, unless it is given."""
        if least is None:
            return self
        best = float(self.residuals.sum()) / float(self.counts.sum())
        return replace(self, noise_variance=max(best, least))


def with_best_noise(
    state: DenseState, parts: Parts, problem: DenseProblem
) -> tuple[DenseState, Parts]:
    if state.psi is not None:
        return _with_best_psi(state, parts, problem)
    parts = parts.at_best_noise(problem.least_noise)
    return replace(state, noise_variance=parts.noise_variance), parts


def _with_best_psi(
    state: DenseState, parts: Parts, problem: DenseProblem
) -> tuple[DenseState, Parts]:
    """ψⱼ·φⱼ that minimises the free energy at the posterior of A and (B, μ), feature by feature.

    φⱼ is the mean over ⟨residual²⟩ of the nⱼ observed cells and ⟨bⱼₕ²⟩/c_bₕ² of the loadings that
    have a proper prior, which is in units of the noise as well. Everything in units of √ψ is
    rescaled.
    """
    H, psi = state.rank, state.psi
    assert psi is not None
    assert problem.least_noise is not None
    xp = array_namespace(state.b)
    variances = xp.linalg.diagonal(state.b_cov)[:, :H]
    loadings = to_numpy(state.b[:, :H] ** 2 + variances)
    prior = loadings @ (1 / state.prior_b)
    count = H * np.isfinite(problem.factors.prior.variance)
    if parts.idle is not None:
        prior += parts.idle.count * parts.idle.b / problem.factors.prior.variance
        count += parts.idle.count
    phi = np.maximum((parts.residuals + prior) / (parts.counts + count), problem.least_noise / psi)
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
    )
    there = at(state.b, phi)
    b, b_cov = state.b / xp.sqrt(there)[:, None], state.b_cov / there[:, None, None]
    idle = None if scaled.idle is None else scaled.idle.b
    return replace(state, b=b, b_cov=b_cov, psi=psi * phi, idle=idle), scaled


def _integrated_entries(parts: Parts, H: int) -> int:
    """Number of entries of (bⱼ, μⱼ) that are integrated out."""
    return H * parts.factors.family.integrates_b + parts.has_mean
