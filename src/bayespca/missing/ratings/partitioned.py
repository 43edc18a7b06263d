"""Ratings on Dask: a block has all ratings of its users; sums over blocks update the items.

In a sweep the posterior of the items is sent to each block, which computes the posterior of its
users and the sums that the items need: G and r of `kernels` for each item. These sums are merged in
a tree and returned, and the items are updated here. Users are not kept from one sweep to the next.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from .data import (
    LeftOver,
    SpreadTask,
    Sweep,
    SweepTask,
    information,
    log_precisions,
    posterior_of_rows,
    spread_of_rows,
)
from .kernels import given_sums, quadratic


@dataclass(frozen=True, eq=False)
class UserCells(RatingsSide):
    """All ratings of the users with ids `users`."""

    users: Identifiers

    def __sizeof__(self) -> int:
        """Size in bytes, by which Dask decides what to evict from the memory of a worker."""
        arrays = (self.users, self.starts, self.other, self.values)
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
        found = computed(*mapped_parts(posterior_of_rows, self.blocks, broadcast=(task, dtype)))
        mean, cov = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return mean, cov

    def spread(self, task: SpreadTask) -> FloatArray:
        return np.asarray(total_over(self.blocks, information, task))

    def spread_of_rows(self, task: SpreadTask, dtype: Any) -> Numbers:
        found = computed(*mapped_parts(spread_of_rows, self.blocks, broadcast=(task, dtype)))
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


def _item_sums(side: UserCells, task: SweepTask) -> ItemSums:
    found = task.rows(side)
    given = task.regressors(found)
    m = len(task.given.mean)
    ones = side.matrix(np.ones(side.other.size), m).T
    return ItemSums(
        second=ones @ given.second,
        cross=side.matrix(side.values, m).T @ given.mean,
        drift=ones @ given.drift,
        augmented=found.augmented,
        log_det=float(found.log_dets.sum()),
        squares=task.squares_of_biases(side, found),
    )


@dataclass(frozen=True, eq=False)
class RowsElsewhere:
    """`SweptRows` on workers; most answers follow from the sums."""

    data: DistantRatings
    task: SweepTask
    sums: ItemSums

    def log_precisions(self, w: FloatArray) -> float:
        return total_over(self.data.blocks, log_precisions, *self.task.along_prior(w))

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


# --- starts ------------------------------------------------------------------------------------


def _squares_of_users(cells: UserCells, v: FloatArray, shrinkage: float) -> float:
    u, _ = _beside(cells, v, shrinkage)
    return float(u @ u)


def _beside(cells: UserCells, v: FloatArray, shrinkage: float) -> tuple[FloatArray, FloatArray]:
    """Biases of users given those of items, and the residuals of the cells."""
    rest = cells.values - v[cells.other]
    u = replace(cells, values=rest).totals / (cells.counts + shrinkage)
    return u, rest - np.repeat(u, cells.counts)


def _rest_of_biases(cells: UserCells, v: FloatArray, shrinkage: float | None) -> Any:
    rest = cells.values if shrinkage is None else _beside(cells, v, shrinkage)[1]
    return cells.matrix(rest, v.size)


def _rest_of_state(cells: UserCells, task: SweepTask, b: FloatArray) -> Any:
    users = task.rows(cells).mean
    return cells.matrix(cells.left_over(users, b, task.location, biases=task.biases), len(b))


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
    return [fingerprint(cells.starts, cells.other, cells.values)]


def _who(cells: UserCells) -> tuple[Identifiers, NDArray[np.int64], NDArray[np.int32]]:
    return cells.users, cells.counts, cells.other


# --- scaling of the ratings --------------------------------------------------------------------


def scaled(blocks: tuple[Delayed, ...], m: int, *, center: bool) -> DistantRatings:
    """Scaled ratings from blocks of `UserCells`, as `sorted_both_ways` makes them in memory."""
    n, n_cells, total = total_over(blocks, _counts)
    location = total / n_cells if center else 0.0
    unit = float(np.sqrt(total_over(blocks, _squares, location) / n_cells)) or 1.0
    found = tuple(kept(mapped_parts(_scaled, blocks, broadcast=(location, unit))))
    item_counts, item_totals, squares = total_over(found, _item_counts, m)
    return DistantRatings(
        blocks=found,
        shape=(n, m),
        location=location,
        unit=unit,
        n_cells=n_cells,
        squares=squares,
        column_counts=item_counts,
        column_totals=item_totals,
    )


def _counts(cells: UserCells) -> tuple[int, int, float]:
    """Numbers of users and cells, and Σx."""
    return cells.users.size, cells.values.size, float(cells.values.sum())


def _squares(cells: UserCells, location: float) -> float:
    return float(np.sum((cells.values - location) ** 2))


def _scaled(cells: UserCells, location: float, unit: float) -> UserCells:
    return replace(cells, values=(cells.values - location) / unit)


def _item_counts(side: UserCells, m: int) -> tuple[FloatArray, FloatArray, float]:
    """Number of cells and Σx of each item, and Σx² over all cells."""
    return (
        np.bincount(side.other, minlength=m).astype(np.float64),
        np.bincount(side.other, side.values, minlength=m).astype(np.float64),
        float(np.sum(side.values**2)),
    )
