"""Means and deviations of the columns of a Dask collection, and the collection divided by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bayespca.arrays.types import FloatArray

from .checks import check_complete
from .cluster import computed
from .records import Block, Partitions
from .tasks import mapped, reduced, sent


@dataclass(frozen=True)
class Deviations:
    """Count, mean, and sum of squared deviations from it, of each column."""

    n: int
    mean: FloatArray
    squares: FloatArray


def column_deviations(partitions: Partitions, *, center: bool) -> Deviations:
    """Deviations of all columns, in one pass; about zero if not centred."""
    columns = partitions.columns
    if columns is not None:
        each = [range(len(columns.chunks)), columns.offsets or ()]
        parts = mapped(columns, _deviations_of_columns, center, each=each)
        (found,) = computed(reduced(parts, _beside))
        return found
    indices = range(len(partitions.chunks))
    parts = mapped(partitions, _deviations, center, partitions.names, each=[indices])
    (found,) = computed(reduced(parts, _below))
    return found


def _deviations(block: Block, i: int, center: bool, names: Sequence[str] | None) -> Deviations:
    check_complete(block, i, names, None)
    return _deviations_of(block, center=center)


def _deviations_of_columns(block: Block, i: int, first: int, center: bool) -> Deviations:
    check_complete(block, i, None, first)
    return _deviations_of(block.T, center=center)


def _deviations_of(block: Block, *, center: bool) -> Deviations:
    n, p = block.shape
    mean = block.mean(axis=0, dtype=np.float64) if center and n else np.zeros(p)
    return Deviations(n, mean, ((block - mean) ** 2).sum(axis=0))


def _below(a: Deviations, b: Deviations) -> Deviations:
    """Deviations over the rows of both, by Chan, Golub and LeVeque (1983)."""
    n = a.n + b.n
    if not n:
        return a
    apart = b.mean - a.mean
    squares = a.squares + b.squares + apart**2 * (a.n * b.n / n)
    return Deviations(n, a.mean + apart * (b.n / n), squares)


def _beside(a: Deviations, b: Deviations) -> Deviations:
    """Deviations of the columns of both."""
    return Deviations(a.n, np.concatenate([a.mean, b.mean]), np.concatenate([a.squares, b.squares]))


def divided(partitions: Partitions, scale: FloatArray) -> Partitions:
    """The collection with its columns divided by `scale` as it is read."""
    divisor = scale.astype(partitions.dtype)
    columns = partitions.columns
    if columns is not None:
        lengths, offsets = columns.lengths or (), columns.offsets or ()
        slices = [
            divisor[first : first + n, None] for first, n in zip(offsets, lengths, strict=True)
        ]
        columns = replace(columns, divisors=tuple(slices))
    shared = sent(divisor)
    return replace(partitions, divisors=(shared,) * len(partitions.chunks), columns=columns)
