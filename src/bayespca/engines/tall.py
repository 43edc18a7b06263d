"""Tall matrices that stay with the workers of Dask, and the operator whose products they are.

The randomized engine keeps orthonormal bases of both sides. That of the long side has as many
numbers per column as there are rows, so it stays where the rows are: the client sees inner
products, and decides how columns are combined. Factorisations of tall blocks are those of their
triangles, merged in a tree (tall-skinny QR).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import Array, DType, FloatArray, Floats
from bayespca.sources.cluster import computed, kept
from bayespca.sources.records import Block, Delayed, Partitions
from bayespca.sources.tasks import mapped, mapped_parts, reduced

from .dense import shortened, triangle
from .gram import centred

Live = NDArray[np.int64] | None


@dataclass(frozen=True, eq=False)
class TallRows:
    """b rows of length n, each cut into pieces on the workers in the same way as the data.

    `pieces[j][i]` becomes block i of some of the rows, as columns; `widths[j]` is their number.
    Products with small matrices from the left, and with other such rows, work as for arrays.
    """

    pieces: tuple[tuple[Delayed, ...], ...]
    widths: tuple[int, ...]
    length: int
    dtype: DType

    # Makes NumPy leave products to this class.
    __array_ufunc__ = None

    @property
    def shape(self) -> tuple[int, int]:
        return sum(self.widths), self.length

    @property
    def T(self) -> TallColumns:
        return TallColumns(self)

    def __matmul__(self, other: TallColumns) -> FloatArray:
        """Inner products, added up in float64."""
        mine, others = len(self.pieces), other.rows.pieces
        if not mine or not others:
            return np.zeros((self.shape[0], other.rows.shape[0]))
        parts = mapped_parts(_inner, *self.pieces, *others, leading=(mine,))
        (found,) = computed(reduced(parts, np.add))
        return np.asarray(found)

    def __rmatmul__(self, small: Floats) -> TallRows:
        """Combinations of the rows."""
        if not self.pieces:
            return TallRows((), (), self.length, self.dtype)
        turn = small.T.astype(self.dtype)
        return self._of(mapped_parts(_combined, *self.pieces, broadcast=(turn,)), len(small))

    def __sub__(self, other: TallRows) -> TallRows:
        if not other.pieces:
            return self
        mine = len(self.pieces)
        parts = mapped_parts(_difference, *self.pieces, *other.pieces, leading=(mine,))
        return self._of(parts, self.shape[0])

    def __truediv__(self, divisor: float) -> TallRows:
        return np.eye(self.shape[0]) / divisor @ self

    def _of(self, parts: list[Delayed], width: int) -> TallRows:
        return TallRows((tuple(kept(parts)),), (width,), self.length, self.dtype)

    def triangle(self) -> FloatArray:
        """R of the QR factorisation of the rows as columns."""
        parts = mapped_parts(_block_triangle, *self.pieces)
        (found,) = computed(reduced(parts, _merged_triangle))
        return triangle(found)


@dataclass(frozen=True, eq=False)
class TallColumns:
    """`TallRows` as columns."""

    rows: TallRows

    @property
    def T(self) -> TallRows:
        return self.rows

    def __truediv__(self, divisor: float) -> TallColumns:
        return TallColumns(self.rows / divisor)

    def __matmul__(self, other: Any) -> Any:
        return NotImplemented


class TallBasis:
    """Orthonormal `TallRows` that are appended block by block: a `Basis`."""

    def __init__(self, length: int, dtype: DType) -> None:
        self.rows = TallRows((), (), length, dtype)

    @property
    def size(self) -> int:
        return self.rows.shape[0]

    def append(self, block: TallRows) -> None:
        old = self.rows
        self.rows = TallRows(
            (*old.pieces, *block.pieces), (*old.widths, *block.widths), old.length, old.dtype
        )


def _stacked(pieces: tuple[Block, ...]) -> Block:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces, axis=1)


def _inner(n_left: int, *pieces: Block) -> FloatArray:
    left, right = _stacked(pieces[:n_left]), _stacked(pieces[n_left:])
    return (left.T @ right).astype(np.float64)


def _combined(*pieces_and_turn: Block) -> Block:
    *pieces, turn = pieces_and_turn
    return _stacked(tuple(pieces)) @ turn


def _difference(n_left: int, *pieces: Block) -> Block:
    return _stacked(pieces[:n_left]) - _stacked(pieces[n_left:])


def _block_triangle(*pieces: Block) -> FloatArray:
    return shortened(_stacked(pieces).astype(np.float64))


def _merged_triangle(a: FloatArray, b: FloatArray) -> FloatArray:
    return shortened(np.concatenate([a, b]))


# --- the matrix --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TallOperator:
    """Blocks of rows T, centred on the workers, that are multiplied from both sides.

    T are the data, less `shift`, at the columns `live`; or, if `is_transposed`, their columns as
    rows, each less its own mean, so that T is the transpose of the centred data. `spectrum_shape`
    is that of the data: features, samples less one if centred.
    """

    partitions: Partitions
    shift: FloatArray | None
    live: Live
    sum_of_squares: float
    centered: bool
    length: int
    spectrum_shape: tuple[int, int]
    is_transposed: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        width = self.partitions.n_features if self.live is None else self.live.size
        return self.length, int(width)

    @property
    def dtype(self) -> DType:
        return self.partitions.dtype

    @cached_property
    def mean(self) -> FloatArray:
        """The numbers that were removed from the columns of T."""
        return np.zeros(self.shape[1]) if self.shift is None else self.shift

    def matmul(self, Q: Floats) -> TallColumns:
        """T·Q, which stays with the workers."""
        parts = mapped(self.partitions, _times, *self._centring, np.ascontiguousarray(Q))
        rows = TallRows((tuple(kept(parts)),), (Q.shape[1],), self.length, Q.dtype)
        return rows.T

    def rmatmul(self, W: TallColumns) -> FloatArray:
        """Tᵀ·W, added up in float64."""
        parts = mapped(self.partitions, _transposed_times, *self._centring, each=W.rows.pieces)
        (found,) = computed(reduced(parts, np.add))
        return np.asarray(found, dtype=W.rows.dtype)

    @property
    def is_distant(self) -> bool:
        return True

    def new_basis(self, like: Array) -> TallBasis:
        return TallBasis(self.length, self.dtype)

    @property
    def _centring(self) -> tuple[bool, FloatArray | None, Live]:
        """Arguments of `_centred`."""
        return self.is_transposed and self.centered, self.shift, self.live


def _centred(block: Block, own_means: bool, shift: FloatArray | None, live: Live) -> Block:
    """Some columns of a block less `shift`, subtracted in float64 whatever their type, or each row
    less its own mean.
    """
    if own_means:
        return centred(block.T)[0].T if len(block) else block
    rows = block if live is None else block[:, live]
    if shift is None:
        return rows
    return np.subtract(rows, shift, out=np.empty_like(rows), casting="same_kind")


def _times(block: Block, own_means: bool, shift: FloatArray | None, live: Live, Q: Floats) -> Block:
    rows = _centred(block, own_means, shift, live)
    return rows.astype(Q.dtype, copy=False) @ Q


def _transposed_times(block: Block, *rest: Any) -> FloatArray:
    *pieces, own_means, shift, live = rest
    rows = _centred(block, own_means, shift, live)
    return (rows.T @ _stacked(tuple(pieces))).astype(np.float64)
