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
        for v, p in enumerate(self.sizes):
            of_view, slope = _of_view(T, self.Sbb[v], np.flatnonzero(self.active[v]))
            value, gradient = value + p * of_view, gradient + p * slope
        return value, gradient

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


def _of_view(T: FloatArray, Sbb: FloatArray, which: NDArray[np.intp]) -> tuple[float, FloatArray]:
    """½Σₕ log(T⟨BᵀB⟩Tᵀ)ₕₕ − log|T| over the factors of a view, and its gradient."""
    slope = np.zeros_like(T)
    if not which.size:
        return 0.0, slope
    block = np.ix_(which, which)
    part = T[block] @ Sbb[block]
    squares = np.maximum(np.einsum("hk,hk->h", part, T[block]), TINY)
    slope[block] = part / squares[:, None] - np.linalg.inv(T[block]).T
    value = 0.5 * float(np.log(squares).sum()) - float(np.linalg.slogdet(T[block])[1])
    return value, slope
