"""Sites of cells under the posterior of A and (B, μ), and the posterior that follows from them.

The free energy depends only on the mean m and the variance v of z in each cell. Its minimum over
normal r(aᵢ) satisfies

    r(aᵢ) = N(Σᵢrᵢ, Σᵢ),  Σᵢ = (Σⱼωᵢⱼ⟨bⱼbⱼᵀ⟩ + 1/cₐ²)⁻¹,  rᵢ = Σⱼ(τᵢⱼ⟨bⱼ⟩ − ωᵢⱼ⟨bⱼμⱼ⟩),
    ω = −⟨(log p)''(z)⟩,  τ = ⟨(log p)'(z)⟩ + ω m:

a cell is a measurement of z with precision ω and value τ/ω (Opper and Archambeau 2009; Knowles and
Minka 2011). Sums over cells are products of ω with packed outer products, just as `lowrank.rows`
multiplies masks with them where the noise is the same everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayespca.arrays.packing import packed, triangle, unpacked
from bayespca.arrays.types import FloatArray
from bayespca.lowrank.kernels import by_numpy, given_gram, kernel_for

from .data import Sites, TableCells
from .likelihoods.likelihood import Measurement
from .normals import Normals, from_precisions


@dataclass(frozen=True, eq=False)
class NaturalRegressors:
    """Moments of the columns that rows need: ⟨b̃⟩ (p, H + 1), and packed ⟨b̃b̃ᵀ⟩ (…, p)."""

    b: FloatArray
    second: FloatArray

    @cached_property
    def doubled(self) -> FloatArray:
        """Packed ⟨b̃b̃ᵀ⟩ with off-diagonal entries doubled: products with it are traces."""
        i, j = triangle(self.b.shape[1])
        return self.second * np.where(i == j, 1.0, 2.0)[:, None]


def regressors(columns: Normals) -> NaturalRegressors:
    return NaturalRegressors(columns.mean, np.ascontiguousarray(columns.second.T))


def moments(
    rows: Normals, second: FloatArray, given: NaturalRegressors
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of z in each cell; `second` is packed ⟨ããᵀ⟩."""
    H = rows.mean.shape[1]
    m = rows.mean @ given.b[:, :H].T + given.b[:, H]
    return m, np.maximum(second @ given.doubled - m * m, 0.0)


def sites(rows: Normals, second: FloatArray, given: NaturalRegressors, cells: TableCells) -> Sites:
    """Sites of the cells under the posterior of their rows and columns."""
    return cells.sites(*moments(rows, second, given))


def rows_from(
    found: Sites | Measurement, given: NaturalRegressors, prior: FloatArray, n_in_all: int
) -> Normals:
    """The posterior of rows whose cells are measurements τ/ω with precisions ω.

    `n_in_all` is the number of rows in all blocks; it decides whether a compiled loop pays.
    """
    H, n = prior.size, len(found.omega)
    last = triangle(H + 1)[1] == H
    both = given.second @ found.omega.T
    pull = found.tau @ given.b[:, :H]
    pull -= both[last][:H].T
    kernel, starts = kernel_for(n_in_all, n_in_all, H), np.arange(n + 1)
    if kernel is by_numpy:
        # `by_numpy` would also sum second moments, which nothing needs here.
        a, cov, log_dets = given_gram(both[~last], pull, starts, 1 / prior, 1.0)
        return Normals(a, packed(cov), log_dets)
    got = kernel(both[~last], pull, starts, 1.0, 1 / prior, 1.0)
    return Normals(got.a, np.ascontiguousarray(got.cov.T), got.log_dets)


def columns_precision(found: Sites | Measurement, rows: Normals, second: FloatArray) -> FloatArray:
    """Packed Σᵢωᵢⱼ⟨ãᵢãᵢᵀ⟩ of each column, followed by Σᵢτᵢⱼ⟨ãᵢ⟩: (p, …)."""
    wide = np.concatenate([rows.mean, np.ones((len(rows.mean), 1))], axis=1)
    return np.concatenate([found.omega.T @ second, found.tau.T @ wide], axis=1)


def columns_from(sums: FloatArray, ridge: FloatArray) -> Normals:
    """The posterior of columns given sums of `columns_precision`, and the prior's precisions."""
    size = ridge.size * (ridge.size + 1) // 2
    precisions = np.asarray(unpacked(sums[:, :size], ridge.size)) + np.diag(ridge)
    return from_precisions(precisions, sums[:, size:])
