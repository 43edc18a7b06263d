"""The rotation of the factors with the lowest free energy.

The likelihood is the same for A·T⁻¹ and B_v·Tᵀ. With M rows of A, whose prior has variance 1, and
p_v rows of B_v, whose prior variances are at their best, the free energy depends on T by

    ½tr(T⁻ᵀ⟨AᵀA⟩T⁻¹) + M log|T| + Σ_v p_v·(½Σₕ log(T⟨B_vᵀB_v⟩Tᵀ)ₕₕ − log|T_v|),

h and T_v restricted to the factors of view v (Klami, Virtanen, Leppäaho and Kaski 2015, Eq. 12, for
factors that are in every view). The logarithms favour factors in few views, so the minimum makes
the pattern sparse. A factor k may be mixed into h only if h is in all views of k.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray
from bayespca.spectrum.tolerances import TINY

Mask = NDArray[np.bool_]

# Steps of one rotation, and of one in a calm state. The next sweep continues from there.
ITERATIONS, FEW = 30, 5
# The largest entry of a step; how often a step that raises the cost is halved; the share of its
# slope that it has to fall; the fall per sample that ends the descent; and the largest squared
# correlation of two entries.
LONGEST, HALVINGS, ENOUGH, SETTLED, FLATTEST = 0.5, 12, 1e-4, 1e-9, 0.999


@dataclass(frozen=True, eq=False)
class FactorRotation:
    """The quantities that determine the rotation.

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
        """Mask of the entries (h, k) of T that may differ from 0: h is in all views of k."""
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
        """Mask of the entries between factors of a view: (V, H, H)."""
        return np.asarray(self.active[:, :, None] & self.active[:, None, :])

    @cached_property
    def _masked(self) -> FloatArray:
        """⟨B_vᵀB_v⟩ of the factors of each view, 0 elsewhere: (V, H, H)."""
        return np.where(self._blocks, self.Sbb, 0.0)

    @cached_property
    def _alike(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """A view for each distinct set of factors, and the set of each view.

        Views with the same set share a determinant.
        """
        _, first, which = np.unique(self.active, axis=0, return_index=True, return_inverse=True)
        return first, which.reshape(-1)

    def _squares(self, T: FloatArray, part: FloatArray) -> FloatArray:
        """The diagonals of T⟨B_vᵀB_v⟩Tᵀ from T and T⟨B_vᵀB_v⟩; 1 for factors not in the view."""
        return np.where(self.active, np.maximum((part * T).sum(axis=2), TINY), 1.0)

    def _of_views(self, T: FloatArray) -> tuple[FloatArray, FloatArray]:
        """½Σₕ log(T⟨B_vᵀB_v⟩Tᵀ)ₕₕ − log|T_v| over the factors of each view, and its gradient.

        Factors that a view lacks have rows of the identity there, which leaves determinants alone.
        """
        first, which = self._alike
        sets = np.where(self._blocks[first], T, np.eye(len(T)))
        inverse, log_dets = np.linalg.inv(sets).swapaxes(1, 2), np.linalg.slogdet(sets)[1]
        inside = sets[which]
        part = inside @ self._masked
        squares = self._squares(inside, part)
        slopes = np.where(self._blocks, part / squares[:, :, None] - inverse[which], 0.0)
        return 0.5 * np.log(squares).sum(axis=1) - log_dets[which], slopes

    def best(self, iterations: int = ITERATIONS) -> FloatArray:
        """The T found by descent, scaled to mean squares of 1 for the columns of A."""
        T = self.scaled(np.eye(len(self.Saa)))
        if len(T) < 2:
            return T
        value, gradient = self.cost(T)
        for _ in range(iterations):
            E = self._direction(T, gradient)
            slope = float((gradient * (E @ T)).sum())
            for _ in range(HALVINGS):
                nearer = T + E @ T
                new, new_gradient = self.cost(nearer)
                if new < value + ENOUGH * slope:
                    break
                E, slope = 0.5 * E, 0.5 * slope
            else:
                break
            T, gradient = nearer, new_gradient
            value, fall = new, value - new
            if fall < SETTLED * self.freedom:
                break
        return self.scaled(T)

    def _direction(self, T: FloatArray, gradient: FloatArray) -> FloatArray:
        """E of the step (I + E)T: Newton's, if ⟨AᵀA⟩ and all ⟨B_vᵀB_v⟩ are nearly diagonal.

        Then only Eₕₖ and Eₖₕ interact (Ablin, Cardoso and Gramfort 2019): with
        rᵥ = (T⟨B_vᵀB_v⟩Tᵀ)ₖₖ/(T⟨B_vᵀB_v⟩Tᵀ)ₕₕ and sums over the views of both, the second
        derivative with respect to Eₕₖ is M + Σp_v rᵥ, and with respect to both M + Σp_v.
        """
        relative, free = gradient @ T.T, self.allowed
        both = self._blocks * self.sizes[:, None, None]
        squares = self._squares(T, T @ self._masked)
        own = self.freedom + (both * (squares[:, None, :] / squares[:, :, None])).sum(axis=0)
        mixed = np.where(free & free.T, self.freedom + both.sum(axis=0), 0.0)
        # Two factors of equal strength in all views can be rotated freely: the Hessian is singular.
        mixed = np.minimum(mixed, np.sqrt(FLATTEST * own * own.T))
        E = -(own.T * relative - mixed * relative.T) / (own * own.T - mixed**2)
        np.fill_diagonal(E, -np.diag(relative) / (2 * self.freedom))
        E = np.where(free, E, 0.0)
        return np.asarray(E / max(1.0, float(np.abs(E).max()) / LONGEST))

    def scaled(self, T: FloatArray) -> FloatArray:
        """Scale the rows of T to their best size: (T⁻ᵀ⟨AᵀA⟩T⁻¹)ₕₕ = M."""
        R = np.linalg.inv(T)
        squares = np.einsum("kh,kl,lh->h", R, self.Saa, R)
        return np.asarray(T * np.sqrt(np.maximum(squares, TINY) / self.freedom)[:, None])
