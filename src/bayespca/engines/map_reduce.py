"""The engine for Dask: moments of blocks of rows on the workers, merged in a tree.

One pass gives the mean and the scatter matrix of the columns by the same sums as in streaming: each
block gives `RunningMoments`, which are merged in the tree. Where these are not precise enough for
what the plan makes of the spectrum, float32 data are multiplied in float64, and then blocks are
reduced to the triangles of their QR factorisations, which do not square the condition number.

Where there are more columns than rows, blocks of columns play the part of rows. A column is then
whole in its block, so its mean is removed there, and blocks add up to the matrix of the samples.
The vectors of the features take a second pass, one block at a time.

Where the short side is so long that its matrix would be too large, the randomized engine takes
products instead, and the long side of its basis stays with the workers (`tall`).

Only a square matrix of the short side, and the model, come to the client.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import DType, FloatArray, Numbers
from bayespca.sources.checks import UnusableData, check_complete
from bayespca.sources.cluster import computed
from bayespca.sources.columns import Deviations, column_deviations
from bayespca.sources.constant import constant_columns, varies_beyond_rounding
from bayespca.sources.records import Block, Partitions
from bayespca.sources.tasks import mapped, reduced
from bayespca.spectrum.records import samples

from . import gram, streaming
from . import moments as running
from .dense import shortened, triangle
from .moments import LONG, SHORT, RunningMoments
from .randomized import krylov
from .records import Decomposition, Plan, embedded, times
from .tall import TallOperator

# Up to this short side its matrix is formed: 3.2 GB.
GRAM_WIDTH = 20_000
# Most basis vectors tried where it is longer; every 24 of them take two passes over the data.
MOST_VECTORS = 1200
# Partial results of this size are merged two at a time: a worker holds all that a task merges.
LARGE_BYTES = 64e6


def decompose(
    partitions: Partitions,
    *,
    center: bool,
    plan: Plan,
    rng: np.random.Generator,
    n_needed: int = 0,
) -> Decomposition:
    """Decompose a Dask collection by the matrix of its short side, or by products if it is long."""
    if (partitions.columns or partitions).n_features > GRAM_WIDTH:
        return _by_products(partitions, center=center, plan=plan, rng=rng, n_needed=n_needed)
    return _by_matrix(partitions, center=center, plan=plan)


def _by_matrix(partitions: Partitions, *, center: bool, plan: Plan) -> Decomposition:
    by = _by_columns if partitions.columns is not None else _by_rows
    for precision in (SHORT, LONG) if partitions.dtype == SHORT else (LONG,):
        found, is_precise = by(partitions, precision, center=center, plan=plan)
        if is_precise:
            break
    return replace(found, engine="dask")


def fan_in(n_columns: int) -> int:
    """Number of matrices of the short side that one task may merge."""
    return 2 if 8.0 * n_columns**2 > LARGE_BYTES else 8


# --- more rows than columns --------------------------------------------------------------------


def moments(partitions: Partitions, precision: DType = LONG) -> RunningMoments:
    """Count, mean and scatter of all rows, in one pass; the rows themselves where they are few."""
    n, p = partitions.n_samples, partitions.n_features
    if n is not None:
        # Where n is not known, the workers check.
        running.check_memory(min(n, p), p, LONG.itemsize, limit=running.MEMORY_LIMIT)
    indices = range(len(partitions.chunks))
    parts = mapped(partitions, _moments, precision, partitions.names, each=[indices])
    merged = reduced(parts, running.merge, fan_in=fan_in(partitions.n_features))
    (state,) = computed(merged)
    if not state.n_samples:
        raise UnusableData("the Dask collection holds no rows.")
    return running.folded(state) if state.n_samples > state.n_features else state


def _moments(block: Block, i: int, precision: DType, names: Sequence[str] | None) -> RunningMoments:
    check_complete(block, i, names, None)
    return _added(block, precision)


def _added(block: Block, precision: DType) -> RunningMoments:
    state = running.start(block.shape[1], block.dtype, precision=precision)
    return running.add(state, block) if len(block) else state


def _by_rows(
    partitions: Partitions, precision: DType, *, center: bool, plan: Plan
) -> tuple[Decomposition, bool]:
    state = moments(partitions, precision)
    found = streaming.finish(state, center=center, plan=plan)
    if found.status.exact or precision == SHORT:
        return found, found.status.exact
    shift = state.mean if center else np.zeros(state.n_features)
    p, parts = state.n_features, mapped(partitions, _block_triangle, shift, state.unit)
    (merged,) = computed(reduced(parts, _merged_triangles, fan_in=fan_in(p)))
    rows = np.pad(merged.rows, ((0, max(p - len(merged.rows), 0)), (0, 0)))
    return streaming.from_triangle(triangle(rows), merged.n_read, state, center=center), True


@dataclass(frozen=True)
class Triangle:
    """Rows with the same product as the rows they stand for, no more than there are columns."""

    rows: FloatArray
    n_read: int


def _block_triangle(block: Block, shift: FloatArray, unit: float) -> Triangle:
    rows = np.subtract(block, shift, dtype=np.float64)
    rows /= unit
    return Triangle(shortened(rows), len(block))


def _merged_triangles(a: Triangle, b: Triangle) -> Triangle:
    return Triangle(shortened(np.concatenate([a.rows, b.rows])), a.n_read + b.n_read)


# --- more columns than rows --------------------------------------------------------------------


@dataclass(frozen=True)
class ColumnMoments:
    """Sums over the columns that vary, less their means; all means, and which columns vary."""

    state: RunningMoments
    mean: FloatArray
    live: NDArray[np.bool_]


def _by_columns(
    partitions: Partitions, precision: DType, *, center: bool, plan: Plan
) -> tuple[Decomposition, bool]:
    columns = partitions.columns
    assert columns is not None
    n = columns.n_features
    running.check_memory(n, n, LONG.itemsize, limit=running.MEMORY_LIMIT)
    each = [range(len(columns.chunks)), columns.offsets or ()]
    parts = mapped(columns, _moments_of_columns, precision, center, each=each)
    (seen,) = computed(reduced(parts, _merged_columns, fan_in=fan_in(n)))
    live = seen.live if seen.live.any() else np.ones_like(seen.live)
    p = int(live.sum())
    state = running.folded(seen.state)
    if state.scatter is None:
        state = replace(state, scatter=np.zeros((n, n)))
    square, unit = running.about_zero(state)

    def right(left: Numbers) -> Block:
        return _vectors(columns, left / unit, center=center)[:, live]

    found = gram.from_sample_gram(
        square,
        right=right,
        mean=seen.mean[live],
        n_features=p,
        center=center,
        dtype=partitions.dtype,
    )
    is_precise = gram.is_precise(
        times(found.spectrum, unit),
        plan(times(found.spectrum, unit)),
        precision,
    )
    if not is_precise and precision == LONG:
        found = _left_by_qr(columns, found, unit, center=center, right=right)
    found = replace(found, spectrum=times(found.spectrum, unit))
    if p < live.size:
        found = embedded(found, np.flatnonzero(live), seen.mean)
    return found, is_precise or precision == LONG


def _moments_of_columns(
    block: Block, i: int, first: int, precision: DType, center: bool
) -> ColumnMoments:
    check_complete(block, i, None, first)
    rows, mean, live = _centred(block, center=center)
    return ColumnMoments(_added(rows[live], precision), mean, live)


def _merged_columns(a: ColumnMoments, b: ColumnMoments) -> ColumnMoments:
    return ColumnMoments(
        running.merge(a.state, b.state),
        np.concatenate([a.mean, b.mean]),
        np.concatenate([a.live, b.live]),
    )


def _centred(block: Block, *, center: bool) -> tuple[Block, FloatArray, NDArray[np.bool_]]:
    """Columns of the data, the rows of a block, less their means; the means; and which vary."""
    live = np.ones(len(block), dtype=np.bool_)
    live[constant_columns(block.T, center=center)] = False
    if not center:
        return block, np.zeros(len(block)), live
    values, mean = gram.centred(block.T)
    mean[~live] = block[~live, 0]
    return values.T, mean, live


def _vectors(columns: Partitions, left: FloatArray, *, center: bool) -> Block:
    """(X − mean)ᵀ·left as rows, one block of columns at a time."""
    parts = computed(*mapped(columns, _vectors_of_columns, left, center))
    return np.concatenate(parts).T


def _vectors_of_columns(block: Block, left: FloatArray, center: bool) -> Block:
    rows, _, live = _centred(block, center=center)
    vectors = rows @ left.astype(block.dtype)
    vectors[~live] = 0.0
    return vectors


def _left_by_qr(
    columns: Partitions,
    found: Decomposition,
    unit: float,
    *,
    center: bool,
    right: Callable[[Numbers], Block],
) -> Decomposition:
    """Singular values and left vectors from the triangle of the centred columns."""
    parts = mapped(columns, _triangle_of_columns, unit, center)
    (merged,) = computed(reduced(parts, _merged_triangles, fan_in=fan_in(columns.n_features)))
    old = found.spectrum
    _, gamma, turn = np.linalg.svd(merged.rows, full_matrices=False)
    values = np.zeros(old.full_rank)
    values[: gamma.size] = gamma[: values.size]
    spectrum = type(old)(values, old.shape, resolution=old.resolution)
    return replace(found, spectrum=spectrum, right=lambda k: right((turn[:k] / values[:k, None]).T))


def _triangle_of_columns(block: Block, unit: float, center: bool) -> Triangle:
    rows, _, live = _centred(block.astype(np.float64, copy=False), center=center)
    return Triangle(shortened(np.divide(rows[live], unit, dtype=np.float64)), int(live.sum()))


# --- a long short side -------------------------------------------------------------------------


def _by_products(
    partitions: Partitions, *, center: bool, plan: Plan, rng: np.random.Generator, n_needed: int
) -> Decomposition:
    """Decompose by the randomized engine if it can, with the tall basis left on the workers."""
    seen = column_deviations(partitions, center=center)
    if not seen.n:
        raise UnusableData("the Dask collection holds no rows.")
    short = min(seen.n, partitions.n_features)
    if n_needed <= short // 8:
        live = varies_beyond_rounding(np.sqrt(seen.squares), seen.mean, seen.n, partitions.dtype)
        operator = _operator(partitions, seen, live, center=center)
        most = min(short // 3, MOST_VECTORS)
        found = krylov.decompose(operator, plan=plan, rng=rng, max_basis=most)
        if found is not None:
            return _of_data(found, operator, seen, live)
    if 8.0 * short**2 > running.MEMORY_LIMIT:
        raise ValueError(
            f"the short side of the Dask collection is {short}, and this fit needs more "
            "singular values than products alone can give: cap n_components, use "
            "method='evb', or give fewer columns."
        )
    return _by_matrix(partitions, center=center, plan=plan)


def _operator(
    partitions: Partitions, seen: Deviations, live: NDArray[np.bool_], *, center: bool
) -> TallOperator:
    """The operator of the columns that vary."""
    shape, columns = (int(live.sum()), samples(seen.n, center)), partitions.columns
    total = float(seen.squares[live].sum())
    if columns is not None:
        p = partitions.n_features
        return TallOperator(columns, None, None, total, center, p, shape, is_transposed=True)
    shift = seen.mean[live] if center else None
    some = None if live.all() else np.flatnonzero(live)
    return TallOperator(partitions, shift, some, total, center, seen.n, shape)


def _of_data(
    found: Decomposition, operator: TallOperator, seen: Deviations, live: NDArray[np.bool_]
) -> Decomposition:
    """The decomposition of the data from that of the operator."""
    found = replace(found, engine="dask", n_samples=seen.n)
    if operator.is_transposed:
        left = found.right
        spectrum = found.spectrum
        gamma = spectrum.singular_values * spectrum.scale

        def right(k: int) -> Block:
            turn = (left(k) / gamma[:k, None]).T
            return _vectors(operator.partitions, turn, center=operator.centered)

        return replace(found, right=right, mean=seen.mean)
    return found if live.all() else embedded(found, np.flatnonzero(live), seen.mean)
