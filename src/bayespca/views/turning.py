"""The rotation of the factors that gives the lowest free energy.

The likelihood does not see A·T⁻¹ and B_v·Tᵀ. With M rows of A, whose prior has variance 1, and p_v
rows of B_v, whose prior variances are at their best, what depends on T is

    ½tr(T⁻ᵀ⟨AᵀA⟩T⁻¹) + M log|T| + Σ_v p_v·(½Σₕ log(T⟨B_vᵀB_v⟩Tᵀ)ₕₕ − log|T_v|),

h and T_v restricted to the factors of view v (Klami, Virtanen, Leppäaho and Kaski 2015, Eq. 12, for
factors that are in every view). Logarithms favour factors that are in few views, and the minimum is
what makes the pattern sparse. A factor k may be mixed into h only where h is in all views of k.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from bayespca.arrays.types import FloatArray
from bayespca.spectrum.tolerances import TINY

Mask = NDArray[np.bool_]

# Iterations of L-BFGS for one turn, and for one of a state that is calm. The next sweep goes on
# from where it ends.
ITERATIONS, FEW = 30, 5


@dataclass(frozen=True, eq=False)
class Turning:
    """What a rotation depends on.

    `Saa` is ⟨AᵀA⟩ (H×H), `Sbb` holds ⟨B_vᵀB_v⟩ for each view (V×H×H), `active` says which factors
    are in which view (V×H), `sizes` are the p_v and `freedom` is M.
    """

    Saa: FloatArray
    Sbb: FloatArray
    active: Mask
    sizes: FloatArray
    freedom: float

    @property
    def allowed(self) -> Mask:
        """Which entries of T may differ from 0: (h, k) where views of k are among those of h."""
        missing = (~self.active).astype(np.intp).T @ self.active.astype(np.intp)
        return np.asarray(missing == 0)

    def cost(self, T: FloatArray) -> tuple[float, FloatArray]:
        """The part of the free energy that depends on T, and its gradient."""
        sign, log_det = np.linalg.slogdet(T)
        if sign == 0 or not np.isfinite(log_det):
            return np.inf, np.zeros_like(T)
        R = np.linalg.inv(T)
        turned = R.T @ self.Saa @ R
        value = 0.5 * float(np.trace(turned)) + self.freedom * float(log_det)
        gradient = (self.freedom * np.eye(len(T)) - turned) @ R.T
        of_views, slopes = self._of_views(T)
        return value + float(self.sizes @ of_views), gradient + np.tensordot(self.sizes, slopes, 1)

    @cached_property
    def _blocks(self) -> Mask:
        """Which entries belong to the factors of a view: (V, H, H)."""
        return np.asarray(self.active[:, :, None] & self.active[:, None, :])

    def _of_views(self, T: FloatArray) -> tuple[FloatArray, FloatArray]:
        """½Σₕ log(T⟨B_vᵀB_v⟩Tᵀ)ₕₕ − log|T_v| over the factors of each view, and its gradient.

        Factors that a view does not have stay as they are there: they change no determinant.
        """
        inside = np.where(self._blocks, T, np.eye(len(T)))
        part = inside @ np.where(self._blocks, self.Sbb, 0.0)
        squares = np.where(self.active, np.maximum((part * inside).sum(axis=2), TINY), 1.0)
        inverse = np.linalg.inv(inside).swapaxes(1, 2)
        slopes = np.where(self._blocks, part / squares[:, :, None] - inverse, 0.0)
        values = 0.5 * np.log(squares).sum(axis=1) - np.linalg.slogdet(inside)[1]
        return values, slopes

    def best(self, iterations: int = ITERATIONS) -> FloatArray:
        """The turn to which descent leads, with mean squares of 1 for the columns of A."""
        H = len(self.Saa)
        start = np.eye(H)
        if H < 2:
            return self.scaled(start)
        free = self.allowed

        def of_entries(x: FloatArray) -> tuple[float, FloatArray]:
            value, gradient = self.cost(_filled(x, free))
            return value, gradient[free]

        start = self.scaled(start)
        found = minimize(
            of_entries, start[free], jac=True, method="L-BFGS-B", options={"maxiter": iterations}
        )
        better = np.isfinite(found.fun) and found.fun < self.cost(start)[0]
        return self.scaled(_filled(found.x, free)) if better else start

    def scaled(self, T: FloatArray) -> FloatArray:
        """With rows of T as large as is best: (T⁻ᵀ⟨AᵀA⟩T⁻¹)ₕₕ = M."""
        R = np.linalg.inv(T)
        squares = np.einsum("kh,kl,lh->h", R, self.Saa, R)
        return np.asarray(T * np.sqrt(np.maximum(squares, TINY) / self.freedom)[:, None])


def _filled(entries: FloatArray, free: Mask) -> FloatArray:
    T = np.zeros(free.shape)
    T[free] = entries
    return T
