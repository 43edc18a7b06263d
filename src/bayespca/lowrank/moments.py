"""Moments of both factors after a sweep, for any kind of data, and their free energy."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayespca.arrays.types import FloatArray

from .factors import Factors


@dataclass(frozen=True, eq=False)
class FactorMoments:
    """Sums over the rows of A and of B, and their priors.

    `Sa` and `Sb` are ⟨‖·‖²⟩ of the columns of A and B, `prior_a` and `prior_b` their prior
    variances, `log_det_a` and `log_det_b` Σ log|Σ| over the rows that are integrated out. `n_gone`
    components have become 0.
    """

    Sa: FloatArray
    Sb: FloatArray
    prior_a: FloatArray
    prior_b: FloatArray
    log_det_a: float
    log_det_b: float
    n_gone: int = 0

    def free_energy(
        self, factors: Factors, *, residual: float, n_cells: float, noise_variance: float
    ) -> float:
        """½N log 2πσ² + ⟨residual⟩/2σ² + the energies of A and B, without components that are gone.

        `residual` is Σ⟨(x − bᵀa)²⟩ over the N cells.
        """
        s2 = noise_variance
        likelihood = 0.5 * (n_cells * np.log(2 * np.pi * s2) + residual / s2)
        of_a = factors.energy_of_a(self.Sa, self.prior_a, self.log_det_a)
        of_b = factors.energy_of_b(self.Sb, self.prior_b, self.log_det_b)
        return float(likelihood + of_a + of_b)

    def without(self, h: int, *, along_a: float = 0.0, along_b: float = 0.0) -> FactorMoments:
        """The moments without a component: |Σ₋ₕ| = |Σ|·(Σ⁻¹)ₕₕ.

        `along_a` and `along_b` are Σ log(Σ⁻¹)ₕₕ over the rows that are integrated out.
        """
        return replace(
            self,
            Sa=np.delete(self.Sa, h),
            Sb=np.delete(self.Sb, h),
            prior_a=np.delete(self.prior_a, h),
            prior_b=np.delete(self.prior_b, h),
            log_det_a=self.log_det_a + along_a,
            log_det_b=self.log_det_b + along_b,
        )
