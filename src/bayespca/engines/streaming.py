"""One pass over blocks of rows for their moments, then the spectrum.

A scatter matrix squares the condition number. If its threshold turns out to be too near rounding
and the data can be read again, a second pass takes a more precise way.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayespca.arrays.types import DType, FloatArray
from bayespca.sources.checks import UnusableData
from bayespca.sources.constant import constant_columns
from bayespca.sources.records import Block, Source
from bayespca.spectrum.records import Spectrum, Status, samples

from . import dense, gram
from .dense import triangle
from .moments import (
    LONG,
    MEMORY_LIMIT,
    SHORT,
    Accumulator,
    RunningMoments,
    check_memory,
    folded,
    scatter_in_units,
    start,
    unit_for,
    varying,
)
from .records import Decomposition, Plan, embedded, rescaled, times

QR_BYTES = 4 * 2**20


def decompose(
    source: Source, *, center: bool, plan: Plan, memory_limit: float = MEMORY_LIMIT
) -> Decomposition:
    """Decompose a matrix that is read block by block.

    Reads it once if that is precise enough for what `plan` makes of the spectrum. If not, and it
    can be read again, float32 data are multiplied in float64, and then blocks are merged by QR
    factorisations, which do not square the condition number. Data that cannot be read again are
    multiplied in float64 at once, and the status says if that was not precise enough.
    """
    if source.n_samples is not None and source.n_samples > source.n_features:
        check_memory(source.n_features, source.n_features, LONG.itemsize, limit=memory_limit)
    is_short = source.rereadable and source.dtype == SHORT
    for precision in (SHORT, LONG) if is_short else (LONG,):
        state = _moments(source, precision, memory_limit)
        found = finish(state, center=center, plan=plan)
        if found.status.exact or not source.rereadable:
            return found
    mean = state.mean if center else np.zeros(state.n_features)
    R, n_read = _merged_by_qr(source, mean, state.unit)
    return from_triangle(R, n_read, state, center=center)


def _moments(source: Source, precision: DType, memory_limit: float) -> RunningMoments:
    empty = start(source.n_features, source.dtype, precision=precision)
    accumulator = Accumulator(empty, memory_limit)
    for block in source.blocks():
        accumulator.add(block)
    if accumulator.n_samples > source.n_features:
        accumulator.fold_waiting()
    return accumulator.state()


def moments(source: Source) -> RunningMoments:
    """Count, mean and scatter of all rows, in one pass; the rows themselves where they are few."""
    state = _moments(source, LONG, MEMORY_LIMIT)
    if not state.n_samples:
        raise UnusableData("there are no rows to decompose.")
    return folded(state) if state.n_samples > state.n_features else state


def finish(state: RunningMoments, *, center: bool, plan: Plan) -> Decomposition:
    """The decomposition of the rows seen so far.

    Its status is not exact where `plan` needs more digits than rounding errors leave.
    """
    if not state.n_samples:
        raise UnusableData("there are no rows to decompose.")
    if state.n_samples <= state.n_features:
        return _streamed(_from_rows(state, center=center, plan=plan), Status())
    state = folded(state)
    found = _from_scatter(state, center=center)
    if gram.is_precise(found.spectrum, plan(found.spectrum), state.precision):
        return _streamed(found, Status())
    advice = Status().but(
        "near-rounding",
        "The singular values that matter are so much smaller than the largest that a single pass "
        f"over the data in {state.precision} cannot distinguish them from rounding errors: give "
        "data that can be read twice (an array or a file), or remove the largest "
        "components or a common factor of some columns first.",
        exact=False,
    )
    return _streamed(gram.as_rough(found, state.precision), advice)


def _streamed(found: Decomposition, status: Status) -> Decomposition:
    return replace(found, engine="streaming", status=status)


def _from_scatter(state: RunningMoments, *, center: bool) -> Decomposition:
    """The decomposition from the p×p scatter, with the mean put back if it is not to be removed."""
    scatter, unit, mean, live = scatter_in_units(state, center=center)
    found = gram.from_feature_gram(
        scatter if live.size == mean.size else scatter[np.ix_(live, live)],
        like=np.empty(0, state.dtype),
        mean=mean[live],
        n_samples=state.n_samples,
        center=center,
    )
    assert found.gram is not None
    square = found.gram if unit == 1.0 else found.gram * unit * unit
    found = replace(found, spectrum=times(found.spectrum, unit), gram=square)
    return found if live.size == mean.size else embedded(found, live, mean)


def _from_rows(state: RunningMoments, *, center: bool, plan: Plan) -> Decomposition:
    """The decomposition from the n×n Gram matrix, or by SVD where that is not precise."""
    rows = np.concatenate(state.rows).astype(np.float64, copy=False)
    constant = constant_columns(rows, center=center)
    if 0 < constant.size < state.n_features:
        live = np.setdiff1d(np.arange(state.n_features), constant)
        part = replace(state, n_features=live.size, rows=(rows[:, live],))
        return embedded(_from_rows(part, center=center, plan=plan), live, rows[0] * center)
    unit = unit_for(float(np.abs(rows).max()), LONG)
    if unit != 1.0:
        rows /= unit
    found = rescaled(gram.decompose(rows, center=center), unit)
    if not gram.is_precise(found.spectrum, plan(found.spectrum), LONG):
        found = rescaled(dense.decompose(rows, center=center), unit)
    top = found.right
    return replace(found, right=lambda k: top(k).astype(state.dtype, copy=False))


def from_triangle(
    R: FloatArray, n_read: int, state: RunningMoments, *, center: bool
) -> Decomposition:
    """The decomposition from R of the centred rows, which has their values and right vectors."""
    p, n = state.n_features, state.n_samples
    if n_read != n:
        raise UnusableData(f"the data had {n} rows on the first pass and {n_read} on the second.")
    mean = state.mean if center else np.zeros(p)
    live = varying(np.linalg.norm(R, axis=0) * state.unit, state)
    if live.size < p:
        R = R[:, live]
    gamma = np.linalg.svd(R, compute_uv=False)

    def right(k: int) -> Block:
        return np.linalg.svd(R, full_matrices=False)[2][:k].astype(state.dtype)

    spectrum = Spectrum(gamma, (live.size, samples(n, center)), scale=state.unit)
    # The root mean square of the data.
    squares = spectrum.sum_of_squares * spectrum.scale / n / p * spectrum.scale
    size = float(np.sqrt(squares + np.mean(state.mean**2)))
    spectrum = spectrum.of_rounded(np.finfo(state.dtype).eps * size)
    found = Decomposition(spectrum, right, mean[live], n, "streaming")
    return found if live.size == p else embedded(found, live, mean)


def _merged_by_qr(source: Source, mean: FloatArray, unit: float) -> tuple[FloatArray, int]:
    """R ← QR of [R; rows − mean], and the number of rows."""
    p = source.n_features
    room = max(2 * p, QR_BYTES // (8 * p))
    stack, filled, n = np.zeros((p + room, p)), p, 0
    for block in source.blocks():
        n += len(block)
        taken = 0
        while taken < len(block):
            part = block[taken : taken + len(stack) - filled]
            rows = stack[filled : filled + len(part)]
            np.subtract(part, mean, out=rows, dtype=np.float64)
            rows /= unit
            filled, taken = filled + len(part), taken + len(part)
            if filled == len(stack):
                stack[:p], filled = triangle(stack), p
    return triangle(stack[:filled]), n
