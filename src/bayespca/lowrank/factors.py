"""Two factor matrices, for any kind of data: their priors, coordinates and free energies.

The likelihood of V ≈ BAᵀ is the same for A·R and B·R⁻ᵀ, so R is free to minimise the free energy.
R enters through ⟨AᵀA⟩ and ⟨BᵀB⟩ in the priors, and through (m − l)·log|R| in the entropies of the
factors that are integrated out. At the minimum both matrices are diagonal (Hadamard), and one scale
for each component remains to be found. This replaces hundreds of sweeps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

# NumPy's linear algebra only: SciPy's has threads of its own, which would compete with NumPy's.
import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.spectrum.families import Family
from bayespca.spectrum.tolerances import LOG_2PI, SINGULAR


@dataclass(frozen=True)
class FactorPrior:
    """Prior variances of the columns of A and B.

    kind is "learned" (cₐ = c_b, which fixes the scale that the factors share) or "given": c_b² is
    `variance` and cₐ² is `variance_a`, 1 for the latent variables of probabilistic PCA. Infinite
    variance means a flat prior.
    """

    kind: str
    variance: float = 1.0
    variance_a: float = 1.0

    @property
    def is_learned(self) -> bool:
        return self.kind == "learned"


@dataclass(frozen=True)
class Factors:
    """A (M rows) and B (L rows) of a family under a prior; `least` is the smallest prior variance
    that is learned: a component that reaches it is gone.
    """

    shape: tuple[float, float]
    family: Family
    prior: FactorPrior
    least: float

    # --- priors --------------------------------------------------------------------------------

    def priors(self, Sa: FloatArray, Sb: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Prior variances, given or c² = (⟨‖a‖²⟩ + ⟨‖b‖²⟩)/(L + M) for both, from ⟨‖·‖²⟩."""
        if self.prior.is_learned:
            learned = np.maximum((Sa + Sb) / sum(self.shape), self.least)
            return learned, learned
        return np.full(Sa.size, self.prior.variance_a), np.full(Sb.size, self.prior.variance)

    # --- coordinates ---------------------------------------------------------------------------

    def best_turn(self, Saa: FloatArray, Sbb: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """R and R⁻¹ with the lowest free energy for A·R and B·R⁻ᵀ; None if no R helps."""
        H = len(Saa)
        if not H:
            return None
        # Components so large, relative to the largest, that a turn of them is more than rounding.
        a, b = np.diag(Saa), np.diag(Sbb)
        staying = np.flatnonzero((a > SINGULAR * a.max()) & (b > SINGULAR * b.max()))
        if not staying.size:
            return None
        block = np.ix_(staying, staying)
        found = _diagonalising(Saa[block], Sbb[block])
        is_exact = found is not None and staying.size == H
        if found is None:
            found = _separating(Saa[block], Sbb[block])
        # Components that are about to vanish are only stretched, which makes them vanish.
        Sa, Sb = np.diag(Saa).copy(), np.diag(Sbb).copy()
        R, back = np.eye(H), np.eye(H)
        R[block], back[block] = found[0], found[1]
        Sa[staying], Sb[staying] = found[2], found[3]
        floor = self.least**2
        scales = self._best_scales(np.maximum(Sa, floor), np.maximum(Sb, floor))
        R, back = R * scales, back / scales[:, None]
        # With components about to vanish, rounding errors can cost more than the turn gains.
        if not is_exact:
            l, m = self.family.sizes(*self.shape)
            turned = self._cost(R.T @ Saa @ R, back @ Sbb @ back.T)
            turned -= (m - l) * float(np.linalg.slogdet(R)[1])
            if not turned < self._cost(Saa, Sbb):
                return None
        return R, back

    def _best_scales(self, Sa: FloatArray, Sb: FloatArray) -> FloatArray:
        """f of each component, for A·f and B/f, where the slope of the free energy in log f is 0.

        learned: (L + M)(f²Sa − Sb/f²)/(f²Sa + Sb/f²) = m − l,
        given:   f²Sa/cₐ² − Sb/(f²c_b²) = m − l.
        """
        L, M = self.shape
        l, m = self.family.sizes(L, M)
        if self.prior.is_learned:
            ratio = (L + M + m - l) / (L + M - m + l)
            return np.asarray((ratio * Sb / Sa) ** 0.25)
        Sa, Sb, half = Sa / self.prior.variance_a, Sb / self.prior.variance, 0.5 * (m - l)
        root = np.sqrt(half * half + Sa * Sb)
        # Of the two forms of the root, the one without cancellation.
        return np.sqrt((half + root) / Sa if half >= 0 else Sb / (root - half))

    def _cost(self, Saa: FloatArray, Sbb: FloatArray) -> float:
        """The part of the free energy that depends on the coordinates, priors at their best."""
        Sa, Sb = np.diag(Saa), np.diag(Sbb)
        prior_a, prior_b = self.priors(Sa, Sb)
        L, M = self.shape
        total = (Sa / prior_a + Sb / prior_b).sum()
        if self.prior.is_learned:
            total += M * np.log(prior_a).sum() + L * np.log(prior_b).sum()
        return 0.5 * float(total)

    # --- free energy ---------------------------------------------------------------------------

    def energy_of_a(self, Sa: FloatArray, prior: FloatArray, log_det: float) -> float:
        """KL of A to its prior where Σᵢlog|Σᵢ| = log_det, or −log of the prior of a point."""
        return factor_energy(Sa, prior, self.shape[1], log_det, self.family.integrates_a)

    def energy_of_b(self, Sb: FloatArray, prior: FloatArray, log_det: float) -> float:
        return factor_energy(Sb, prior, self.shape[0], log_det, self.family.integrates_b)

    @property
    def points(self) -> float:
        """Point-estimated entries of A and B in each component."""
        L, M = self.shape
        return (not self.family.integrates_a) * M + (not self.family.integrates_b) * L

    def energy_in_units(self, energy: float, *, rank: int, n_gone: int, unit: float) -> float:
        """The free energy after A·Bᵀ is multiplied by `unit`.

        A learned prior gives each factor the square root of the unit, a given one leaves all of it
        to B; a density of point-estimated entries changes with their unit. Components that a
        learned prior has switched off do not count: what they contribute depends on `least`. The
        likelihood's part, the number of cells times log unit, is not included.
        """
        log_unit = float(np.log(unit))
        if self.prior.is_learned:
            energy -= n_gone * self.gone_energy
            return energy + 0.5 * self.points * rank * log_unit
        if self.family.integrates_b or np.isinf(self.prior.variance):
            return energy
        return energy + self.shape[0] * (rank + n_gone) * log_unit

    @property
    def gone_energy(self) -> float:
        """Contribution of a zero component to the free energy of point-estimated factors."""
        zero = np.zeros(1)
        prior_a, prior_b = self.priors(zero, zero)
        total = 0.0
        if not self.family.integrates_a:
            total += self.energy_of_a(zero, prior_a, 0.0)
        if not self.family.integrates_b:
            total += self.energy_of_b(zero, prior_b, 0.0)
        return total


def rows_given(
    gram: FloatArray, pull: FloatArray, ridge: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Means of the rows of a factor given the other, and their covariance over the noise variance.

    Σ/σ² = (gram + diag(ridge))⁻¹ and pull·Σ/σ², with gram = ⟨BᵀB⟩, pull = VᵀB̂ and ridge = σ²/c²
    for the rows of A, all of which have the same covariance.
    """
    inner = inverse(gram + np.diag(ridge))
    return np.asarray(pull @ inner), inner


def inverse(matrix: FloatArray) -> FloatArray:
    """The inverse of a positive definite matrix, symmetric to the last digit."""
    try:
        found = np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        # Columns are linearly dependent up to rounding, as happens with data without noise: at unit
        # diagonal, eigenvalues are at least as large as rounding errors.
        sizes = np.sqrt(np.maximum(np.diag(matrix), np.finfo(np.float64).tiny))
        values, V = np.linalg.eigh(matrix / np.outer(sizes, sizes))
        values = np.maximum(values, np.finfo(np.float64).eps * len(values))
        found = (V / values) @ V.T / np.outer(sizes, sizes)
    return np.asarray(0.5 * (found + found.T))


def factor_energy(
    squares: FloatArray, prior: FloatArray, n: float, log_det: float, integrated: bool
) -> float:
    """½Σ(⟨‖·‖²⟩/c² + n log c²), less the entropy of n rows or plus a density's normalisation.

    It is 0 for a point-estimated factor under a flat prior, which has density one.
    """
    if np.isinf(prior).any():
        return -0.5 * (log_det + n * prior.size * (1 + LOG_2PI)) if integrated else 0.0
    quadratic = float((squares / prior).sum() + n * np.log(prior).sum())
    if not integrated:
        return 0.5 * (quadratic + n * prior.size * LOG_2PI)
    return 0.5 * (quadratic - n * prior.size - log_det)


def _separating(
    Saa: FloatArray, Sbb: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """R with RᵀSaaR diagonal, R⁻¹, that diagonal, and the diagonal of R⁻¹SbbR⁻ᵀ.

    For nearly dependent columns of A: some columns of A·R are nearly 0.
    """
    sizes = np.sqrt(np.diag(Saa))
    _, V = np.linalg.eigh(Saa / np.outer(sizes, sizes))
    R, back = V / sizes[:, None], V.T * sizes
    return R, back, np.diag(R.T @ Saa @ R), np.diag(back @ Sbb @ back.T)


def _diagonalising(
    Saa: FloatArray, Sbb: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray] | None:
    """R with RᵀSaaR = I and R⁻¹SbbR⁻ᵀ diagonal, R⁻¹, and the two diagonals, largest first."""
    try:
        root = np.linalg.cholesky(Saa)
    except np.linalg.LinAlgError:
        return None
    pivots = np.diag(root) ** 2
    if pivots.min() < SINGULAR * pivots.max():  # a component is about to vanish
        return None
    values, vectors = np.linalg.eigh(root.T @ Sbb @ root)
    values, vectors = values[::-1], vectors[:, ::-1]
    return np.linalg.inv(root).T @ vectors, vectors.T @ root.T, np.ones_like(values), values


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
