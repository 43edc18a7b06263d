"""The state of sweeps over several views."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.packing import with_ones
from bayespca.arrays.types import FloatArray, Matrices, Matrix, Vector
from bayespca.lowrank.factors import inverse
from bayespca.lowrank.holes import Holes
from bayespca.lowrank.rows import Columns, RowSums, sums_over_rows

from .data import ViewsTable
from .pattern import InViews


@dataclass(frozen=True, eq=False)
class ViewsState(InViews):
    """All that the next sweep needs: A follows from it.

    Attributes
    ----------
    b, b_cov
        Mean (p, H + 1) and covariance (p, H + 1, H + 1) of the rows of (B, μ) of all views.
    prior
        c_vh², the prior variance of the loadings of each factor in each view, 0 if the factor is
        not in the view: (V, H).
    noise
        σ_v² of each view: (V,).
    energy
        The free energy, including the cost of the pattern.
    calm
        Whether the free energy has nearly settled, so that factors may leave views.
    """

    b: Matrix
    b_cov: Matrices
    prior: Matrix
    noise: Vector
    energy: float = np.inf
    calm: bool = False

    def roots(self, table: ViewsTable) -> FloatArray:
        """σ of each column."""
        return np.asarray(np.sqrt(self.noise)[table.view])

    def columns(self, table: ViewsTable) -> Columns:
        """Parameters of the columns divided by their σ, as the update of rows needs them."""
        root = self.roots(table)
        b, b_cov = self.b / root[:, None], self.b_cov / (root**2)[:, None, None]
        return Columns(b, b_cov, np.ones(self.rank), 1.0)

    def sums(self, table: ViewsTable) -> RowSums:
        """Update A and return the sums over rows that columns need, in the units of the table."""
        data, columns = table.rows, self.columns(table)
        if table.has_holes:
            root = self.roots(table)
            sums = sums_over_rows(data, columns, share=data.share, root=root)
            return replace(sums, cross=sums.cross * root[:, None])
        # Without holes all rows share one covariance: two products with the data.
        (_, p), H, precision = data.shape, self.rank, 1 / self.noise[table.view]
        second = columns.second.sum(axis=0)
        inner = inverse(second[:H, :H] + np.eye(H))
        weights = self.b[:, :H] * precision[:, None]
        cross, everything = data.total(_products, weights, second[:H, H], inner)
        everything[:H, :H] += data.freedom * inner
        log_det = data.freedom * float(np.linalg.slogdet(inner)[1])
        wide = np.broadcast_to(everything, (p, H + 1, H + 1))
        return RowSums(wide, cross, everything, log_det, np.empty(0))

    def without(self, h: int) -> ViewsState:
        """The state with one factor less."""
        return self.only(np.delete(np.arange(self.rank), h))

    def only(self, factors: NDArray[np.intp]) -> ViewsState:
        """The state with some of the factors, in this order."""
        kept = np.append(factors, self.rank)
        return replace(
            self,
            b=self.b[:, kept],
            b_cov=self.b_cov[:, kept[:, None], kept],
            prior=self.prior[:, factors],
            energy=np.inf,
        )


def _products(
    data: Holes, weights: FloatArray, drift: FloatArray, inner: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Xᵀ⟨Ã⟩ and ⟨Ã⟩ᵀ⟨Ã⟩ of complete rows, whose A is (X·weights − drift)·inner."""
    values = np.asarray(data.values)
    a = with_ones((values @ weights - drift) @ inner)
    return values.T @ a, a.T @ a
