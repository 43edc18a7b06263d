"""The posterior of A given that of (B, μ), and the sums over rows that columns need.

    r(aᵢ) = N(Σᵢ rᵢ/σ², Σᵢ),  Σᵢ = σ²(Σⱼ⟨bⱼbⱼᵀ⟩ + σ²/cₐ²)⁻¹,  rᵢ = Σⱼ(xᵢⱼ⟨bⱼ⟩ − ⟨bⱼμⱼ⟩)

over the observed j of row i (icml2011 Eq. 13, 15 with sums over observed cells in place of all). A
row of weight w is multiplied by √w, and so is its rᵢ; the last entry of its ã is then √w. Rows are
processed in blocks: BLAS multiplies masks by packed outer products, and a kernel solves the small
matrices of each pattern. Arrays of size n×p are read, never written.

Data may live on the device of another library: sums over rows are then formed there, in larger
blocks, and stay there. Columns may then be on the device or on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import is_torch_array

from bayespca.arrays.checks import check_covariances, check_moments, check_sizes
from bayespca.arrays.namespaces import array_namespace, device, is_numpy_array, to_numpy
from bayespca.arrays.packing import (
    are_covariances,
    packed,
    packed_beside_last,
    roots,
    times,
    times_each,
    unpacked,
)
from bayespca.arrays.parallel import in_turn
from bayespca.arrays.places import at, taken
from bayespca.arrays.types import Array, ArrayMatrices, ArrayMatrix, FloatArray, Vector

from .holes import BLOCK, Block, Holes, IncompleteRows
from .kernels import (
    Kernel,
    OwnRows,
    UpdatedRows,
    by_device,
    given_gram,
    has_device_kernel,
    kernel_for,
    over_patterns,
    times_of_patterns,
)

# Memory for the intermediate results of a block of rows, large enough to keep a device busy.
DEVICE_BLOCK_BYTES = 1 << 30


@dataclass(frozen=True, eq=False)
class Columns:
    """Posterior of the columns, as updates of rows need it.

    Attributes
    ----------
    b, b_cov
        Mean (p, H + 1) and covariance (p, H + 1, H + 1) of the rows of (B, μ).
    prior_a
        cₐ² of each component: (H,); infinite for a flat prior.
    noise_variance
        σ².
    integrated
        Whether A is integrated out; if it is point-estimated, its covariance is 0.
    """

    b: ArrayMatrix
    b_cov: ArrayMatrices
    prior_a: Vector
    noise_variance: float
    integrated: bool = True

    @property
    def rank(self) -> int:
        return int(self.prior_a.size)

    @property
    def second(self) -> Array:
        """⟨b̃b̃ᵀ⟩ of each column."""
        return self.b_cov + self.b[:, :, None] * self.b[:, None, :]

    def check(self) -> None:
        """Raise ValueError unless the parts belong together, and scores can be solved for."""
        p, width = self.b.shape
        agree = self.b_cov.shape == (p, width, width) and self.prior_a.shape == (width - 1,)
        check_sizes("Columns", agree)
        positive = bool((self.prior_a > 0).all() and self.noise_variance > 0)
        check_moments("Columns", self.b, self.b_cov, positive=positive)
        check_covariances("Columns", are_covariances(self.b_cov))


@dataclass(frozen=True, eq=False)
class RowSums:
    """Sums over the rows of A, with ã = (a, 1) or (a, √w); arrays live where the data do.

    Attributes
    ----------
    second
        Σᵢ⟨ãᵢãᵢᵀ⟩ over the observed rows of each column: (p, H + 1, H + 1).
    cross
        Σᵢxᵢⱼ⟨ãᵢ⟩ over the observed rows of each column: (p, H + 1).
    everything
        Σᵢ⟨ãᵢãᵢᵀ⟩ over all rows: (H + 1, H + 1).
    log_det
        Σᵢ log|Σᵢ|, 0 where A is point-estimated.
    left
        Σᵢ(xᵢⱼ − b̃ⱼᵀãᵢ)² over the observed rows of each column, at the means before columns are
        updated: (p,).

    Covariances and log_det are multiplied by the given share of each row.
    """

    second: Array
    cross: Array
    everything: Array
    log_det: Any
    left: Array


def sums_over_rows(
    data: IncompleteRows, columns: Columns, *, share: float, root: FloatArray | None = None
) -> RowSums:
    """Update A, and return the sums that columns need; data columns are divided by `root`, if any.

    `share` is the weight of covariances: see `Holes.share`.
    """
    H = columns.rank
    task = _task(columns, share=share, root=root)
    second, cross, everything, log_det, left = data.total(_summed, task)
    xp = array_namespace(cross)
    cross = xp.concat([cross.T, at(cross, data.totals)[:, None]], axis=1)
    if root is not None:
        cross /= at(cross, root)[:, None]
        left = left / at(left, root) ** 2
    log_det = share * log_det if columns.integrated else 0.0
    return RowSums(unpacked(second.T, H + 1), cross, unpacked(everything, H + 1), log_det, left)


def latent(data: Holes, columns: Columns) -> tuple[Array, Array]:
    """Mean of A for each row (n, H), and the covariance of each pattern (m, H, H).

    Both live where the data do, in their order. Covariances are 0 if A is point-estimated.
    """
    xp, place = array_namespace(data.values), device(data.values)
    H, m = columns.rank, data.patterns.shape[0]
    a = xp.empty((data.shape[0], H), dtype=xp.float64, device=place)
    cov = xp.empty((m, H, H), dtype=xp.float64, device=place)
    for block, of_rows, of_patterns in _posteriors(data, columns):
        a[block.rows, :], cov[block.which, :, :] = at(a, of_rows), at(a, of_patterns)
    return a, cov if columns.integrated else xp.zeros_like(cov)


def latent_means(data: Holes, columns: Columns) -> Array:
    """Mean of A for each row (n, H), without keeping the covariances."""
    xp, place = array_namespace(data.values), device(data.values)
    a = xp.empty((data.shape[0], columns.rank), dtype=xp.float64, device=place)
    for block, of_rows, _ in _posteriors(data, columns):
        a[block.rows, :] = at(a, of_rows)
    return a


def latent_draws(data: Holes, columns: Columns, normals: Array) -> Array:
    """Draws of A for each row (n, H): means plus roots of covariances times `normals`.

    All live where the data do, in their order. Covariances are kept for one block at a time.
    """
    a = array_namespace(normals).asarray(normals, copy=True)
    for block, means, covariances in _posteriors(data, columns):
        root = roots(at(a, covariances))
        if root.shape[0] < means.shape[0]:
            root = taken(root, block.pattern)
        a[block.rows, :] = at(a, means) + times_each(root, a[block.rows, :])
    return a if columns.integrated else latent_means(data, columns)


class RowMisfits(NamedTuple):
    """Misfit of each row, and its information about the scores: (n,) both.

    `squares` is Σⱼ⟨(x − ãᵀb̃)²⟩/σ² + Σₕaₕ²/cₐₕ² with A at its mean, `gain` is −½ log|Σᵢ/cₐ²|.
    """

    squares: FloatArray
    gain: FloatArray


def misfits_of_rows(
    data: IncompleteRows, columns: Columns, *, root: FloatArray | None = None
) -> RowMisfits:
    """`RowMisfits` of rows with weight 1, in the order of the data's rows.

    At the mean aᵢ the squares are Σⱼ⟨(x − μ)²⟩ − aᵢᵀrᵢ, over σ²; covariances would add 1 to them
    for each component.
    """
    task, mean = _task(columns, share=1.0, root=root), columns.second[:, -1, -1]
    found = data.total(_misfits, task, columns.b[:, -1], mean, root)
    prior = 0.5 * float(np.log(columns.prior_a).sum())
    squares, log_dets = (np.concatenate(parts) for parts in found)
    return RowMisfits(squares / columns.noise_variance, prior - 0.5 * log_dets)


def log_precision_along(data: IncompleteRows, columns: Columns, v: FloatArray) -> Any:
    """Σᵢ log vᵀΣᵢ⁻¹v over all rows: a number that lives where the data do."""
    along = at(columns.b, np.append(v, 0.0))
    squares = times(columns.b_cov, along) @ along + (columns.b @ along) ** 2
    of_prior = float(v @ (v / columns.prior_a))
    return data.total(_log_precisions, squares / columns.noise_variance, of_prior)


def _log_precisions(data: Holes, of_columns: Array, of_prior: float) -> Any:
    logs = array_namespace(data.values).log(data.over_columns_there(of_columns) + of_prior)
    return _over_rows(logs, data)


def _over_rows(of_patterns: Array, rows: Holes | Block) -> Array:
    """Sum over rows, weighted by their shares, of a number that belongs to their patterns."""
    if rows.weights is None and of_patterns.shape[0] == rows.values.shape[0]:
        return array_namespace(of_patterns).sum(of_patterns)
    return at(of_patterns, rows.shares) @ of_patterns


def _misfits(
    data: Holes, task: _Task, mean: Array, second: Array, root: FloatArray | None
) -> tuple[list[FloatArray], list[FloatArray]]:
    """Squares times σ² and log|Σᵢ|, block by block."""
    data = _shared(data)
    task, like = _placed(task, data.values), data.values
    xp, over = array_namespace(like), 1.0 if root is None else at(like, root)
    mean, known = at(like, mean) / over, at(like, second)
    if data.rounding is not None:
        known = known + at(like, data.rounding) / over**2
    kernel = kernel_for(data.shape[0], data.patterns.shape[0], task.ridge.size)

    def work(block: Block) -> tuple[FloatArray, FloatArray]:
        gram, pull = _gram_and_pull(block, task)
        squares = block.values * data.plain_values[block.rows, :] / over**2
        rest = xp.sum(squares, axis=1) - 2 * xp.matmul(block.values, mean)
        rest += taken(xp.matmul(block.mask, known), block.pattern)
        before = xp.asarray(pull, copy=True)
        precision = unpacked(gram.T, task.ridge.size) + at(pull, np.diag(task.ridge))
        if is_numpy_array(pull):
            found = kernel(gram, pull, block.starts, 0.0, task.ridge, task.s2, None)
            a, log_dets = found.a, found.log_dets
        else:
            a, _, log_dets = given_gram(gram, pull, block.starts, task.ridge, task.s2)
        # To first order, errors of a do not matter here, as they would in a·`before` alone.
        product = times_of_patterns(precision, a, block.starts)
        rest = rest - xp.sum(a * (2 * before - product), axis=1)
        return to_numpy(rest), to_numpy(log_dets)[block.pattern]

    if is_numpy_array(like):
        parts = list(in_turn(lambda edge: work(data.block(*edge)), data.edges()))
    else:
        parts = [work(block) for block in device_blocks(data, task.ridge.size)]
    return [part[0] for part in parts], [part[1] for part in parts]


# --- block by block ----------------------------------------------------------------------------


class _Task(NamedTuple):
    """Parameters of the update of a block: `outer` has packed ⟨bbᵀ⟩ and ⟨bμ⟩ of each column in its
    columns, `b` is (p, H), and `low` (p, H + 1) turns ã into values; these move to where the data
    are. `ridge` is σ²/cₐ², `share` the weight of covariances.
    """

    outer: Array
    b: Array
    low: Array
    ridge: FloatArray
    s2: float
    share: float


class _Part(NamedTuple):
    """Sums over some rows: packed `RowSums.second` in columns, Σᵢ⟨aᵢ⟩xᵢⱼ (H, p), packed
    `RowSums.everything`, Σᵢ log|Σᵢ|, and the squared residuals of each column.
    """

    second: Array
    cross: Array
    everything: Array
    log_det: Array
    left: Array


def _task(columns: Columns, *, share: float, root: FloatArray | None) -> _Task:
    H, s2 = columns.rank, columns.noise_variance
    b, outer = columns.b[:, :H], packed_beside_last(columns.second).T
    if is_numpy_array(outer):
        outer = np.ascontiguousarray(outer)
    low = columns.b
    if root is not None:
        b, low = b / at(b, root)[:, None], low * at(b, root)[:, None]
    weight = share if columns.integrated else 0.0
    return _Task(outer, b, low, s2 / columns.prior_a, s2, weight)


def _placed(task: _Task, like: Array) -> _Task:
    return task._replace(outer=at(like, task.outer), b=at(like, task.b), low=at(like, task.low))


def _summed(data: Holes, task: _Task) -> _Part:
    """Sums of one pass over the rows."""
    parts = _parts(_shared(data), task)
    second, cross, everything, log_det, left = next(parts)
    for part in parts:
        second += part.second
        cross += part.cross
        everything += part.everything
        log_det = log_det + part.log_det
        left += part.left
    return _Part(second, cross, everything, log_det, left)


def _shared(data: Holes) -> Holes:
    """Data with torch's CPU tensors as NumPy arrays that share their memory and have kernels."""
    if is_torch_array(data.values) and device(data.values).type == "cpu":
        return replace(data, values=to_numpy(data.values), patterns=to_numpy(data.patterns))
    return data


def _parts(data: Holes, task: _Task) -> Iterator[_Part]:
    task = _placed(task, data.values)
    n, m, H = data.shape[0], data.patterns.shape[0], task.ridge.size
    if is_numpy_array(data.values):
        kernel = kernel_for(n, m, H)
        return in_turn(lambda edge: _part(data.block(*edge), task, kernel), data.edges())
    if has_device_kernel(data.values, n, m, H):
        return map(partial(_part, task=task, kernel=by_device), device_blocks(data, H))
    return map(partial(_part_by_products, task=task), device_blocks(data, H))


def _posteriors(data: Holes, columns: Columns) -> Iterator[tuple[Block, Array, Array]]:
    """Means of the rows and covariances of the patterns of each block."""
    data = _shared(data)
    task = _placed(_task(columns, share=1.0, root=None), data.values)
    if not is_numpy_array(data.values):
        for block in device_blocks(data, task.ridge.size):
            a, cov, _ = _given_block(block, task)
            yield block, a, cov
        return
    kernel = kernel_for(data.shape[0], len(data.patterns), task.ridge.size)

    def work(edge: tuple[int, int]) -> tuple[Block, Array, Array]:
        block = data.block(*edge)
        found = _found(block, task, kernel)
        return block, found.a, unpacked(found.cov.T, task.ridge.size)

    yield from in_turn(work, data.edges())


def updater(
    data: Holes, columns: Columns, *, share: float, root: FloatArray | None
) -> Callable[[tuple[int, int]], tuple[Block, UpdatedRows]]:
    """A function that updates the rows between two edges, for data on the host."""
    task = _task(columns, share=share, root=root)
    kernel = kernel_for(data.shape[0], len(data.patterns), task.ridge.size)

    def update(edge: tuple[int, int]) -> tuple[Block, UpdatedRows]:
        block = data.block(*edge)
        return block, _found(block, task, kernel)

    return update


def _part(block: Block, task: _Task, kernel: Kernel) -> _Part:
    found = _found(block, task, kernel)
    return _Part(
        found.second @ block.mask,
        _counted(found.a, block).T @ block.values,
        over_patterns(found.second),
        _over_rows(found.log_dets, block),
        _left(found.a, block, task),
    )


def _left(a: Array, block: Block, task: _Task) -> Array:
    """Σᵢ(xᵢⱼ − b̃ⱼᵀãᵢ)² of each column, in units of the values."""
    xp, H = array_namespace(a), a.shape[1]
    low, mean = xp.matmul(a, task.low[:, :H].T), task.low[:, H]
    rest = _counted(block.values - mean, block) - low
    rest *= taken(block.mask, block.pattern)
    return xp.sum(rest * rest, axis=0)


def _counted(a: Array, block: Block) -> Array:
    """Values of rows, multiplied by the roots of the row weights."""
    return a if block.weights is None else a * at(a, block.weights.root)[:, None]


def _found(block: Block, task: _Task, kernel: Kernel) -> UpdatedRows:
    gram, pull = _gram_and_pull(block, task)
    return kernel(
        gram, pull, block.starts, task.share, task.ridge, task.s2, _own(block, task.share)
    )


def _own(block: Block, share: float) -> OwnRows | None:
    """`OwnRows` of a block, where the data are; None if all rows count the same."""
    if block.weights is None:
        return None
    shares, last = share * block.shares, block.weights.root
    return OwnRows(at(block.values, shares), at(block.values, last))


def _gram_and_pull(block: Block, task: _Task) -> tuple[Array, Array]:
    """Packed Σⱼ⟨bⱼbⱼᵀ⟩ of each pattern, in columns, and Σⱼ(xᵢⱼ⟨bⱼ⟩ − ⟨bⱼμⱼ⟩) of each row, times the
    root of its weight.
    """
    H = task.ridge.size
    if is_numpy_array(block.values):
        both = task.outer @ block.mask.T
    else:  # so that the numbers of a pattern are contiguous
        both = (block.mask @ task.outer.T).T
    size = both.shape[0] - H
    drift = both[size:, :].T
    if block.values.shape[0] > block.seen.shape[0]:
        drift = taken(drift, block.pattern)
    pull = block.values @ task.b
    pull -= drift
    return both[:size, :], _counted(pull, block)


def device_blocks(data: Holes, rank: int) -> Iterator[Block]:
    """Blocks of a size that suits the device of the data."""
    if is_numpy_array(data.values):
        return data.blocks()
    n, p = data.shape
    of_a_row = 2 * p + 4 * (rank + 1) ** 2
    if has_device_kernel(data.values, n, data.patterns.shape[0], rank):
        # A mask, and packed matrices before and after.
        of_a_row = p + (rank + 2) ** 2
    return data.blocks(max(DEVICE_BLOCK_BYTES // (8 * of_a_row), BLOCK))


# --- on a device without kernels ---------------------------------------------------------------


def _given_block(block: Block, task: _Task) -> tuple[Array, Array, Array]:
    gram, pull = _gram_and_pull(block, task)
    return given_gram(gram, pull, block.starts, task.ridge, task.s2)


def _part_by_products(block: Block, task: _Task) -> _Part:
    """The sums over a block by products alone: array libraries have no sums over groups of rows."""
    xp = array_namespace(block.values)
    a, cov, log_dets = _given_block(block, task)
    own = _own(block, task.share)
    shares = at(a, task.share * block.shares) if own is None else own.shares
    last = xp.ones_like(block.values[:, :1]) if own is None else own.last[:, None]
    ones = xp.concat([a, last], axis=1)
    k, l = np.triu_indices(task.ridge.size + 1)
    squares = (taken(ones, k, axis=1) * taken(ones, l, axis=1)).T
    # Packed covariances of ã, whose last entry is known.
    H, known = task.ridge.size, l == task.ridge.size
    place = np.where(known, H * (H + 1) // 2, np.cumsum(~known) - 1)
    zero = xp.zeros((cov.shape[0], 1), dtype=cov.dtype, device=device(cov))
    spread = shares * taken(xp.concat([packed(cov), zero], axis=1), place, axis=1).T
    return _Part(
        _by_column(squares, spread, block),
        xp.matmul(_counted(a, block).T, block.values),
        xp.sum(squares, axis=1) + xp.sum(spread, axis=1),
        _over_rows(log_dets, block),
        _left(a, block, task),
    )


def _by_column(squares: Array, spread: Array, block: Block) -> Array:
    """Sums over the observed rows of each column: of `squares` of rows and `spread` of patterns."""
    xp = array_namespace(squares)
    m, p = block.mask.shape
    if squares.shape[1] == m:
        return xp.matmul(squares + spread, block.mask)
    which = block.pattern
    if m < p:
        member = at(squares, which[:, None] == np.arange(m))
        return xp.matmul(xp.matmul(squares, member) + spread, block.mask)
    return xp.matmul(squares, taken(block.mask, which)) + xp.matmul(spread, block.mask)
