"""Tables as sweeps take them: groups of columns with a likelihood each, in blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import is_sparse
from bayespca.arrays.types import FloatArray, Matrix
from bayespca.sources.binary import BinaryCells
from bayespca.sources.seen import Seen, seen_in

from .likelihoods.bernoulli import BERNOULLI
from .likelihoods.likelihood import BoolArray, Likelihood, Null
from .sites import Measurement, Sites

# Rows that are worked on at a time: there is work for several threads, and what belongs to them
# stays in the cache.
BLOCK, LEAST_BLOCK, BLOCKS = 1024, 256, 32
# Cells of a sparse matrix that are made dense at a time, where whole columns are needed.
NARROW = 1 << 17
EVERY = slice(None)


@dataclass(frozen=True, eq=False)
class ColumnGroup:
    """Columns of the matrix that have one likelihood.

    Attributes
    ----------
    likelihood
        What cells are like given z.
    values
        The cells, 0 in holes; bytes where they are zeros and ones; or a sparse matrix of cells
        without holes, which becomes dense in blocks: (n, q).
    seen
        Whether a cell is no hole: (n, q); None where all are there.
    parameters
        Those of the likelihood: (q, P).
    offset
        What is added to z in each row: (n,); None for nothing.
    """

    likelihood: Likelihood
    values: Any
    seen: BoolArray | None
    parameters: Matrix
    offset: FloatArray | None = None

    @property
    def width(self) -> int:
        return int(self.values.shape[1])

    @property
    def is_sparse(self) -> bool:
        return is_sparse(self.values)

    @property
    def numbers(self) -> FloatArray:
        dense = self.values.toarray() if self.is_sparse else self.values
        return np.asarray(dense, dtype=np.float64)

    def narrow(self) -> Iterator[slice]:
        """Columns in parts that may be dense; all of them where they are dense already."""
        step = max(1, NARROW // self.values.shape[0]) if self.is_sparse else max(self.width, 1)
        for first in range(0, self.width, step):
            yield slice(first, min(first + step, self.width))

    def null(self) -> Null:
        """Columns by themselves."""
        parts = [self.part(EVERY, some) for some in self.narrow()]
        found = [part.likelihood.null(part.numbers, part.known, part.added) for part in parts]
        return Null(*(np.concatenate(each) for each in zip(*found, strict=True)))

    def digests(self) -> list[object]:
        """What tells it from others."""
        values = self.values
        parts = [values.data, values.indices, values.indptr] if self.is_sparse else [values]
        return [*parts, *(part for name, part in vars(self).items() if name != "values")]

    @property
    def known(self) -> FloatArray:
        """1.0 where a cell is no hole."""
        return np.ones(self.values.shape) if self.seen is None else self.seen.astype(np.float64)

    @property
    def added(self) -> FloatArray:
        """What is added to z, as a column."""
        return np.zeros((1, 1)) if self.offset is None else self.offset[:, None]

    def part(self, rows: Any, columns: Any = EVERY) -> ColumnGroup:
        """Some of the rows and columns."""
        return replace(
            self,
            values=self.values[rows][:, columns],
            seen=None if self.seen is None else self.seen[rows][:, columns],
            parameters=self.parameters[columns],
            offset=None if self.offset is None else self.offset[rows],
        )

    def sites(self, m: FloatArray, v: FloatArray) -> Sites:
        """What cells are like for z ~ N(m, v): ω, τ = ∂E/∂m + ωm, and E."""
        at = m if self.offset is None else m + self.added
        found = self.likelihood.expected(self.numbers, at, v, self.parameters)
        omega, tau = self._without_holes(found.omega), self._without_holes(found.slope)
        tau += omega * m
        return Sites(omega, tau, self._without_holes(found.log_likelihood))

    def augmented(self, z: FloatArray, rng: np.random.Generator) -> Measurement:
        """Draws of ω and τ given z."""
        if self.seen is not None:
            # Nothing is drawn for holes.
            z = np.where(self.seen, z, np.nan)
        found = self.likelihood.augmented(self.numbers, z, self.parameters, rng)
        return Measurement(*map(self._without_holes, found))

    def updated(self, m: FloatArray, v: FloatArray) -> ColumnGroup:
        """The group with parameters that are more likely."""
        args = self.numbers, m + self.added, v, self.known, self.parameters
        return replace(self, parameters=self.likelihood.updated(*args))

    def _without_holes(self, values: FloatArray) -> FloatArray:
        """Put 0 in holes, in the memory of the values."""
        if self.seen is not None:
            values *= self.seen
        return values


@dataclass(frozen=True, eq=False)
class TableCells:
    """A matrix of cells: the columns of all groups, one group after the other."""

    groups: tuple[ColumnGroup, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.groups[0].values.shape[0]), sum(group.width for group in self.groups)

    @property
    def parameters(self) -> tuple[Matrix, ...]:
        return tuple(group.parameters for group in self.groups)

    @property
    def keeps_cells(self) -> bool:
        """Whether what cells are like is kept; where zeros are most of them, sums are."""
        return not any(group.is_sparse for group in self.groups)

    @property
    def learns(self) -> bool:
        """Whether any likelihood has parameters to learn."""
        return any(group.likelihood.learns for group in self.groups)

    @property
    def learned_columns(self) -> BoolArray:
        """Columns whose likelihood has parameters to learn."""
        return np.repeat(
            [group.likelihood.learns for group in self.groups],
            [group.width for group in self.groups],
        )

    @property
    def seen(self) -> BoolArray | None:
        """Whether cells are no holes; None where all are there."""
        if all(group.seen is None for group in self.groups):
            return None
        parts = [
            np.ones(group.values.shape, np.bool_) if group.seen is None else group.seen
            for group in self.groups
        ]
        return np.concatenate(parts, axis=1)

    def at(self, parameters: tuple[Matrix, ...]) -> TableCells:
        """The same cells with other parameters of their likelihoods."""
        pairs = zip(self.groups, parameters, strict=True)
        return TableCells(tuple(replace(group, parameters=some) for group, some in pairs))

    def part(self, rows: Any, columns: BoolArray | None = None) -> TableCells:
        """Some of the rows, or some of the rows and columns."""
        if columns is None:
            return TableCells(tuple(group.part(rows) for group in self.groups))
        return TableCells(
            tuple(group.part(rows, columns[some]) for group, some in self.with_columns())
        )

    def with_columns(self) -> Iterator[tuple[ColumnGroup, slice]]:
        """The groups, and where they are in the matrix."""
        first = 0
        for group in self.groups:
            yield group, slice(first, first + group.width)
            first += group.width

    def sites(self, m: FloatArray, v: FloatArray) -> Sites:
        """What cells are like for z ~ N(m, v)."""
        if len(self.groups) == 1:
            return self.groups[0].sites(m, v)
        found = Sites.empty((len(m), m.shape[1]))
        for group, some in self.with_columns():
            found.put((EVERY, some), group.sites(m[:, some], v[:, some]))
        return found

    def augmented(self, z: FloatArray, rng: np.random.Generator) -> Measurement:
        """Draws of ω and τ given z, with which cells are normal measurements of z."""
        parts = [group.augmented(z[:, some], rng) for group, some in self.with_columns()]
        return Measurement(*(np.concatenate(each, axis=1) for each in zip(*parts, strict=True)))

    def updated(self, moments: Callable[[slice], tuple[FloatArray, FloatArray]]) -> TableCells:
        """The cells with parameters of likelihoods that are more likely.

        `moments` are mean and variance of z in some columns of the matrix.
        """
        return self.at(
            tuple(
                np.concatenate(
                    [
                        group.part(EVERY, some)
                        .updated(*moments(slice(first.start + some.start, first.start + some.stop)))
                        .parameters
                        for some in group.narrow()
                    ]
                )
                if group.likelihood.learns
                else group.parameters
                for group, first in self.with_columns()
            )
        )


@dataclass(frozen=True, eq=False)
class KnownTable:
    """The cells that take part, and how many values each row and column of the matrix has.

    Rows and columns without any value take no part: for both the prior answers.
    """

    cells: TableCells
    seen: Seen


def known_table(cells: TableCells) -> KnownTable:
    """A matrix of cells, without rows and columns that have no value."""
    known = seen_in(cells.seen, cells.shape)
    if known.rows.all() and known.columns.all():
        return KnownTable(cells, known)
    return KnownTable(cells.part(known.rows, known.columns), known)


def bits(cells: BinaryCells) -> TableCells:
    """Zeros and ones as cells with logits."""
    values = np.asarray(cells.ones.view(np.uint8))
    return TableCells((ColumnGroup(BERNOULLI, values, cells.seen, np.zeros((values.shape[1], 0))),))


def binary_table(cells: BinaryCells) -> KnownTable:
    """A table of zeros and ones, without rows and columns that have no value."""
    return known_table(bits(cells))


def row_blocks(cells: TableCells) -> list[slice]:
    """The rows in blocks."""
    n = cells.shape[0]
    step = min(BLOCK, max(n // BLOCKS, LEAST_BLOCK))
    return [slice(first, min(first + step, n)) for first in range(0, n, step)]
