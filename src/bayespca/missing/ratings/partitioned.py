"""Ratings on Dask: a block has all ratings of its users; sums over blocks update the items.

In a sweep the posterior of the items is sent to each block, which computes the posterior of its
users and the sums that the items need: G and r of `kernels` for each item. These sums are merged in
a tree and returned, and the items are updated here. Users are not kept from one sweep to the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from numpy.typing import NDArray

from bayespca.arrays.packing import unpacked
from bayespca.arrays.types import FloatArray, Identifiers, Numbers
from bayespca.inference.digest import fingerprint
from bayespca.sources.cluster import computed, kept
from bayespca.sources.records import Delayed
from bayespca.sources.tasks import mapped_parts, total_over

from .cells import RatingsSide
from .data import LeftOver, SpreadTask, Sweep, SweepTask, log_precisions
from .kernels import given_sums, quadratic


@dataclass(frozen=True, eq=False)
class UserCells:
    """All ratings of the users with ids `users`."""

    users: Identifiers
    side: RatingsSide

    def __sizeof__(self) -> int:
        """Size in bytes, by which Dask decides what to evict from the memory of a worker."""
        arrays = (self.users, self.side.starts, self.side.other, self.side.values)
        return int(sum(a.nbytes for a in arrays))


@dataclass(frozen=True, eq=False)
class DistantRatings:
    """`RatingsCells` whose rows are on workers: `blocks` are tasks that give scaled `UserCells`."""

    blocks: tuple[Delayed, ...]
    shape: tuple[int, int]
    location: float
    unit: float
    n_cells: int
    squares: float
    column_counts: FloatArray
    column_totals: FloatArray

    def digests(self) -> list[str]:
        return total_over(self.blocks, _digests)

    def swept(self, task: SweepTask) -> Sweep:
        """Update rows on the workers, then columns here from sums over rows."""
        sums = total_over(self.blocks, _item_sums, task)
        columns = given_sums(
            sums.second,
            sums.cross - sums.drift,
            task.prior_b,
            task.s2,
            integrated=task.integrates_b,
        )
        return Sweep(
            task=task,
            rows=RowsElsewhere(self, task, sums),
            columns=columns,
            augmented_a=sums.augmented,
            log_det_a=sums.log_det,
            squares=self.squares + sums.squares,
        )

    def rows(self, task: SweepTask, dtype: Any) -> tuple[Numbers, Numbers]:
        found = computed(*mapped_parts(_posterior, self.blocks, broadcast=(task, dtype)))
        mean, cov = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return mean, cov

    def spread(self, task: SpreadTask) -> FloatArray:
        return np.asarray(total_over(self.blocks, _spread, task))

    def spread_of_rows(self, task: SpreadTask, dtype: Any) -> Numbers:
        found = computed(*mapped_parts(_spread_of_rows, self.blocks, broadcast=(task, dtype)))
        return np.concatenate(found)

    def without_biases(self, v: FloatArray, shrinkage: float | None) -> tuple[float, LeftOver]:
        squares = 0.0
        if shrinkage is not None:
            squares = total_over(self.blocks, _squares_of_users, v, shrinkage)
        return squares, self._matrix(_rest_of_biases, v, shrinkage)

    def left_over(self, task: SweepTask, b: FloatArray) -> LeftOver:
        return self._matrix(_rest_of_state, task, b)

    def _matrix(self, rest: Any, *given: Any) -> LeftOver:
        blocks = tuple(mapped_parts(rest, self.blocks, broadcast=given))
        return _MatrixElsewhere(blocks, self.shape[1])

    def who(self) -> tuple[Identifiers, NDArray[np.int64], NDArray[np.int32]]:
        """Fetch the ids of all users, where their cells begin, and the items of the cells."""
        found = computed(*mapped_parts(_who, self.blocks))
        users, counts, items = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return users, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), items


# --- a sweep -----------------------------------------------------------------------------------


class ItemSums(NamedTuple):
    """Sums over users, for z = (a, 1), or z = a without biases.

    `second`, `cross` and `drift` are Σ⟨zzᵀ⟩, packed, Σx⟨z⟩ and Σ⟨z(u + m)⟩ over the cells of each
    item. The others are sums over all users as in `Sweep`, `squares` without Σx².
    """

    second: FloatArray
    cross: FloatArray
    drift: FloatArray
    augmented: FloatArray
    log_det: float
    squares: float


def _item_sums(cells: UserCells, task: SweepTask) -> ItemSums:
    side = cells.side
    found = task.rows(side)
    given = task.regressors(found)
    m = len(task.given.mean)
    ones = _matrix(side, np.ones(side.other.size), m).T
    return ItemSums(
        second=ones @ given.second,
        cross=_matrix(side, side.values, m).T @ given.mean,
        drift=ones @ given.drift,
        augmented=found.augmented,
        log_det=float(found.log_dets.sum()),
        squares=task.squares_of_biases(side, found),
    )


def _matrix(side: RatingsSide, values: FloatArray, m: int) -> Any:
    """Sparse matrix of users × items."""
    return scipy.sparse.csr_array((values, side.other, side.starts), shape=(side.n_rows, m))


@dataclass(frozen=True, eq=False)
class RowsElsewhere:
    """`SweptRows` on workers; most answers follow from the sums."""

    data: DistantRatings
    task: SweepTask
    sums: ItemSums

    def log_precisions(self, w: FloatArray) -> float:
        return total_over(self.data.blocks, _log_precisions, *self.task.along_prior(w))

    def along(self, w: FloatArray) -> FloatArray:
        return quadratic(self.sums.second, w)

    def beside(self, to: FloatArray, h: int, b: FloatArray, right: FloatArray) -> float:
        sums, K = self.sums, self.task.prior_a.size
        second = unpacked(sums.second, K)
        # A component does not depend on u: aₕ = wᵀz, with the shift as the weight of the 1 in z.
        w = to[h, :K].copy()
        if self.task.biases:
            w[-1] = to[h, K]
        with_z = second @ w
        left = [with_z, (with_z @ w)[:, None]]
        if self.task.biases:
            # ã = (a, u, 1)
            with_u = (sums.drift - self.task.location * second[:, :, -1]) @ w
            left = [with_z[:, :-1], with_u[:, None], with_z[:, -1:], left[1]]
        return float((sums.cross @ w) @ b - np.sum(np.concatenate(left, axis=1) * right))


def _log_precisions(cells: UserCells, of_items: FloatArray, of_prior: float) -> float:
    return log_precisions(cells.side, of_items, of_prior)


# --- intervals ---------------------------------------------------------------------------------


def _spread(cells: UserCells, task: SpreadTask) -> FloatArray:
    return task.information(cells.side)


def _spread_of_rows(cells: UserCells, task: SpreadTask, dtype: Any) -> Numbers:
    return np.asarray(task.covariances(cells.side).astype(dtype))


# --- starts ------------------------------------------------------------------------------------


def _squares_of_users(cells: UserCells, v: FloatArray, shrinkage: float) -> float:
    u, _ = _beside(cells.side, v, shrinkage)
    return float(u @ u)


def _beside(side: RatingsSide, v: FloatArray, shrinkage: float) -> tuple[FloatArray, FloatArray]:
    """Biases of users given those of items, and the residuals of the cells."""
    rest = side.values - v[side.other]
    u = RatingsSide(side.starts, side.other, rest).totals / (side.counts + shrinkage)
    return u, rest - np.repeat(u, side.counts)


def _rest_of_biases(cells: UserCells, v: FloatArray, shrinkage: float | None) -> Any:
    rest = cells.side.values
    if shrinkage is not None:
        _, rest = _beside(cells.side, v, shrinkage)
    return _matrix(cells.side, rest, v.size)


def _rest_of_state(cells: UserCells, task: SweepTask, b: FloatArray) -> Any:
    side, users = cells.side, task.rows(cells.side).mean
    return _matrix(side, side.left_over(users, b, task.location, biases=task.biases), len(b))


@dataclass(frozen=True, eq=False)
class _MatrixElsewhere:
    """`LeftOver` on workers; `blocks` are tasks that give sparse matrices of users × `m` items."""

    blocks: tuple[Delayed, ...]
    m: int

    def singular(self, rank: int) -> tuple[FloatArray, FloatArray]:
        """Lanczos iteration, in which a product with the matrix and its transpose is one pass."""
        m, blocks = self.m, tuple(kept(self.blocks))

        def product(v: FloatArray) -> FloatArray:
            return total_over(blocks, _product, v)

        if rank >= m - 1:
            squares, vectors = np.linalg.eigh(product(np.eye(m)))
        else:
            begin = np.random.default_rng(0).normal(size=m)
            if not product(begin).any():  # the Lanczos iteration cannot start from zeros
                return np.eye(m, rank), np.zeros(rank)
            operator = scipy.sparse.linalg.LinearOperator((m, m), product, dtype=np.float64)
            squares, vectors = scipy.sparse.linalg.eigsh(operator, rank, v0=begin)
        order = np.argsort(squares)[::-1][:rank]
        return vectors[:, order], np.sqrt(np.maximum(squares[order], 0.0))


def _product(matrix: Any, v: FloatArray) -> FloatArray:
    return np.asarray(matrix.T @ (matrix @ v))


# --- what is fetched ---------------------------------------------------------------------------


def _digests(cells: UserCells) -> list[str]:
    side = cells.side
    return [fingerprint(side.starts, side.other, side.values)]


def _who(cells: UserCells) -> tuple[Identifiers, NDArray[np.int64], NDArray[np.int32]]:
    return cells.users, cells.side.counts, cells.side.other


def _posterior(cells: UserCells, task: SweepTask, dtype: Any) -> tuple[Numbers, Numbers]:
    found = task.rows(cells.side)
    return found.mean.astype(dtype), found.cov.astype(dtype)


# --- scaling of the ratings --------------------------------------------------------------------


class _CellCounts(NamedTuple):
    """Numbers of users and cells, and Σx, of some blocks."""

    users: int
    cells: int
    total: float


class _ItemCounts(NamedTuple):
    """Number of cells and Σx of each item, and Σx² over all cells."""

    counts: FloatArray
    totals: FloatArray
    squares: float


def scaled(blocks: tuple[Delayed, ...], m: int, *, center: bool) -> DistantRatings:
    """Scaled ratings from blocks of `UserCells`, as `sorted_both_ways` makes them in memory."""
    n, n_cells, total = total_over(blocks, _counts)
    location = total / n_cells if center else 0.0
    unit = float(np.sqrt(total_over(blocks, _squares, location) / n_cells)) or 1.0
    found = tuple(kept(mapped_parts(_scaled, blocks, broadcast=(location, unit))))
    sums = total_over(found, _item_counts, m)
    return DistantRatings(
        blocks=found,
        shape=(n, m),
        location=location,
        unit=unit,
        n_cells=n_cells,
        squares=sums.squares,
        column_counts=sums.counts,
        column_totals=sums.totals,
    )


def _counts(cells: UserCells) -> _CellCounts:
    values = cells.side.values
    return _CellCounts(cells.users.size, values.size, float(values.sum()))


def _squares(cells: UserCells, location: float) -> float:
    return float(np.sum((cells.side.values - location) ** 2))


def _scaled(cells: UserCells, location: float, unit: float) -> UserCells:
    side = cells.side
    return UserCells(
        cells.users, RatingsSide(side.starts, side.other, (side.values - location) / unit)
    )


def _item_counts(cells: UserCells, m: int) -> _ItemCounts:
    side = cells.side
    return _ItemCounts(
        np.bincount(side.other, minlength=m).astype(np.float64),
        np.bincount(side.other, side.values, minlength=m).astype(np.float64),
        float(np.sum(side.values**2)),
    )
