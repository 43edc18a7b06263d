"""Tables in the form that sweeps use: groups of columns with one likelihood, in blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import is_sparse
from bayespca.arrays.types import FloatArray, Matrix
from bayespca.sources.data import BinaryCells
from bayespca.sources.seen import Seen, seen_in

from .likelihoods.bernoulli import BERNOULLI
from .likelihoods.likelihood import BoolArray, Likelihood, Measurement, Null

# Rows in a block: there is work for several threads, and the arrays of a block stay in the cache.
BLOCK, LEAST_BLOCK, BLOCKS = 1024, 256, 32
# Cells of a sparse matrix made dense at a time, where whole columns are needed.
NARROW = 1 << 17
EVERY = slice(None)


@dataclass(frozen=True, eq=False)
class Sites:
    """Cells as measurements of z: precisions ω, τ, which is ω times the measured value, and
    ⟨log p(x | z)⟩; all 0 in holes.
    """

    omega: FloatArray
    tau: FloatArray
    log_likelihood: FloatArray

    @classmethod
    def empty(cls, shape: tuple[int, int]) -> Sites:
        """Uninitialised sites of a matrix of this shape."""
        return cls(*(np.empty(shape) for _ in range(3)))

    @property
    def summed(self) -> Sites:
        """Sums over rows, as a single row: all that is kept of a sparse matrix."""
        return Sites(*(values.sum(axis=0, keepdims=True) for values in vars(self).values()))

    def plus(self, other: Sites) -> Sites:
        """The sum of both."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Sites(*(one + two for one, two in pairs))

    def at(self, which: Any) -> Sites:
        return Sites(*(values[which] for values in vars(self).values()))

    def copy(self) -> Sites:
        return Sites(*(values.copy() for values in vars(self).values()))

    @property
    def turned(self) -> Sites:
        """The transpose, in the same memory."""
        return Sites(*(values.T for values in vars(self).values()))

    def put(self, which: Any, others: Sites) -> None:
        """Overwrite some of the sites, in place."""
        for values, other in zip(vars(self).values(), vars(others).values(), strict=True):
            values[which] = other


@dataclass(frozen=True, eq=False)
class ColumnGroup:
    """Columns of the matrix that share one likelihood.

    Attributes
    ----------
    likelihood
        The distribution of cells given z.
    values
        The cells, 0 in holes; bytes where they are zeros and ones; or a sparse matrix of cells
        without holes, which becomes dense in blocks: (n, q).
    seen
        Whether a cell is observed: (n, q); None if all are.
    parameters
        Parameters of the likelihood: (q, P).
    offset
        Number added to z in each row: (n,); None for nothing.
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
        """Columns in parts small enough to be made dense; in one part if they already are."""
        step = max(1, NARROW // self.values.shape[0]) if self.is_sparse else max(self.width, 1)
        for first in range(0, self.width, step):
            yield slice(first, min(first + step, self.width))

    def null(self) -> Null:
        """The estimate of each column by itself, with one z for all its cells."""
        parts = [self.part(EVERY, some) for some in self.narrow()]
        found = [part.likelihood.null(part.numbers, part.known, part.added) for part in parts]
        return Null(*(np.concatenate(each) for each in zip(*found, strict=True)))

    def digests(self) -> list[object]:
        """Everything that identifies the group."""
        values = self.values
        parts = [values.data, values.indices, values.indptr] if self.is_sparse else [values]
        return [*parts, *(part for name, part in vars(self).items() if name != "values")]

    @property
    def known(self) -> FloatArray:
        """1.0 where a cell is observed, 0.0 in holes."""
        return np.ones(self.values.shape) if self.seen is None else self.seen.astype(np.float64)

    @property
    def added(self) -> FloatArray:
        """The offset of z, as a column."""
        return np.zeros((1, 1)) if self.offset is None else self.offset[:, None]

    def part(self, rows: Any, columns: Any = EVERY) -> ColumnGroup:
        return replace(
            self,
            values=self.values[rows][:, columns],
            seen=None if self.seen is None else self.seen[rows][:, columns],
            parameters=self.parameters[columns],
            offset=None if self.offset is None else self.offset[rows],
        )

    def sites(self, m: FloatArray, v: FloatArray) -> Sites:
        """Sites of the cells for z ~ N(m, v): ω, τ = ∂E/∂m + ωm, and E."""
        at = m if self.offset is None else m + self.added
        found = self.likelihood.expected(self.numbers, at, v, self.parameters)
        omega, tau = self._without_holes(found.omega), self._without_holes(found.slope)
        tau += omega * m
        return Sites(omega, tau, self._without_holes(found.log_likelihood))

    def augmented(self, z: FloatArray, rng: np.random.Generator) -> Measurement:
        """Draws of ω and τ given z."""
        if self.seen is not None:
            # No variables are drawn for NaN.
            z = np.where(self.seen, z, np.nan)
        found = self.likelihood.augmented(self.numbers, z, self.parameters, rng)
        return Measurement(*map(self._without_holes, found))

    def updated(self, m: FloatArray, v: FloatArray) -> ColumnGroup:
        """The group with improved parameters of the likelihood."""
        args = self.numbers, m + self.added, v, self.known, self.parameters
        return replace(self, parameters=self.likelihood.updated(*args))

    def _without_holes(self, values: FloatArray) -> FloatArray:
        """Set holes to 0, in place."""
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
        """Whether the sites of all cells are kept; for sparse matrices only sums over rows are."""
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
        """Whether each cell is observed; None if all are."""
        if all(group.seen is None for group in self.groups):
            return None
        parts = [
            np.ones(group.values.shape, np.bool_) if group.seen is None else group.seen
            for group in self.groups
        ]
        return np.concatenate(parts, axis=1)

    def at(self, parameters: tuple[Matrix, ...]) -> TableCells:
        """The same cells with other parameters of the likelihoods."""
        pairs = zip(self.groups, parameters, strict=True)
        return TableCells(tuple(replace(group, parameters=some) for group, some in pairs))

    def part(self, rows: Any, columns: BoolArray | None = None) -> TableCells:
        if columns is None:
            return TableCells(tuple(group.part(rows) for group in self.groups))
        return TableCells(
            tuple(group.part(rows, columns[some]) for group, some in self.with_columns())
        )

    def with_columns(self) -> Iterator[tuple[ColumnGroup, slice]]:
        """The groups, and their columns in the matrix."""
        first = 0
        for group in self.groups:
            yield group, slice(first, first + group.width)
            first += group.width

    def sites(self, m: FloatArray, v: FloatArray) -> Sites:
        """Sites of the cells for z ~ N(m, v)."""
        if len(self.groups) == 1:
            return self.groups[0].sites(m, v)
        found = Sites.empty((len(m), m.shape[1]))
        for group, some in self.with_columns():
            found.put((EVERY, some), group.sites(m[:, some], v[:, some]))
        return found

    def augmented(self, z: FloatArray, rng: np.random.Generator) -> Measurement:
        """Draws of ω and τ given z, which make the cells normal measurements of z."""
        parts = [group.augmented(z[:, some], rng) for group, some in self.with_columns()]
        return Measurement(*(np.concatenate(each, axis=1) for each in zip(*parts, strict=True)))

    def updated(self, moments: Callable[[slice], tuple[FloatArray, FloatArray]]) -> TableCells:
        """The cells with improved parameters of the likelihoods.

        `moments` returns the mean and the variance of z in some columns of the matrix.
        """
        found = []
        for group, place in self.with_columns():
            if not group.likelihood.learns:
                found.append(group.parameters)
                continue
            new = []
            for some in group.narrow():
                at = moments(slice(place.start + some.start, place.start + some.stop))
                new.append(group.part(EVERY, some).updated(*at).parameters)
            found.append(np.concatenate(new))
        return self.at(tuple(found))


@dataclass(frozen=True, eq=False)
class KnownTable:
    """The cells of a fit, and the number of values in each row and column of the whole matrix.

    `cells` leaves out rows and columns without any value, for which the prior stands.
    """

    cells: TableCells
    seen: Seen


def known_table(cells: TableCells) -> KnownTable:
    """A matrix of cells without its empty rows and columns."""
    known = seen_in(cells.seen, cells.shape)
    if known.rows.all() and known.columns.all():
        return KnownTable(cells, known)
    return KnownTable(cells.part(known.rows, known.columns), known)


def bits(cells: BinaryCells) -> TableCells:
    """Zeros and ones as cells with logits."""
    values = np.asarray(cells.ones.view(np.uint8))
    return TableCells((ColumnGroup(BERNOULLI, values, cells.seen, np.zeros((values.shape[1], 0))),))


def row_blocks(cells: TableCells) -> list[slice]:
    n = cells.shape[0]
    step = min(BLOCK, max(n // BLOCKS, LEAST_BLOCK))
    return [slice(first, min(first + step, n)) for first in range(0, n, step)]
