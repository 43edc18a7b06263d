"""Count, mean and scatter matrix of rows that come block by block.

Each block is centred at its own mean, multiplied, and merged with the rows before it by the update
of Chan, Golub and LeVeque (1983), in which all terms are positive: neither an offset nor a drift of
the columns makes anything cancel. Rows are kept as they are until there are more of them than
columns, so the p×p scatter is formed only where it is the smaller of the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.parallel import blas_threads, one_blas_thread
from bayespca.arrays.types import DType, FloatArray, Matrix, Numbers, Vector
from bayespca.sources.checks import UnusableData
from bayespca.sources.constant import varies_beyond_rounding
from bayespca.sources.records import Block

SHORT: DType = np.dtype(np.float32)
LONG: DType = np.dtype(np.float64)
# The scatter matrix of 31 000 columns.
MEMORY_LIMIT = 8e9
# Rows multiplied at once: they stay in cache while they are centred and multiplied, and float32
# products are added up over few enough of them (relative error about 1e-8 for 100 000 rows).
PART_BYTES = 2 * 2**20
PART_ROWS = (512, 8192)
# The shift is a mean over at least so many rows, and over at least one row in so many.
SHIFT_ROWS, SHIFT_STEP = 512, 32
# Up to so many columns parts are multiplied by our own threads, and at most so many of them.
FEW_FEATURES, MOST_WORKERS = 1024, 8
# Fewer rows than this wait for others, whatever the number of columns.
WAITING_ROWS = 1024
# Numbers from 2^-span to 2^span lose no digits when their squares are added up.
SPAN = {SHORT: 20, LONG: 200}


@dataclass(frozen=True, eq=False)
class RunningMoments:
    """Count, mean and scatter of the rows seen so far.

    Attributes
    ----------
    n_features, dtype
        Columns of the data, and the type of the results.
    precision
        The dtype in which float32 blocks are multiplied. float64 is more precise and takes three
        times as long; sums are in float64 anyway.
    n_folded, mean, scatter
        Rows that are folded into `mean` and `scatter`, Σ(x − mean)(x − mean)ᵀ; None before that.
    unit
        `scatter` is in units of its square: a power of two, 1 except for data so large or small
        that their squares leave the range of floating-point numbers.
    rows
        Blocks that wait to be folded in: no more rows than there are columns, or 1024.
    """

    n_features: int
    dtype: DType
    precision: DType
    n_folded: int
    mean: Vector
    scatter: Matrix | None = None
    unit: float = 1.0
    rows: tuple[Annotated[Block, 2], ...] = ()

    @property
    def n_samples(self) -> int:
        """Rows seen so far."""
        return self.n_folded + sum(len(block) for block in self.rows)

    def check(self) -> None:
        """Raise ValueError unless the parts belong together."""
        p, scatter = self.n_features, self.scatter
        agree = self.mean.shape == (p,) and {a.shape[1] for a in self.rows} <= {p}
        agree &= getattr(scatter, "shape", None) == ((p, p) if self.n_folded else None)
        if not agree:
            raise ValueError("the arrays of RunningMoments are of different sizes")
        sums = (self.mean, *self.rows) if scatter is None else (self.mean, scatter, *self.rows)
        known = all(np.isfinite(a).all() for a in sums)
        if not (known and 0 < self.unit < np.inf):
            raise ValueError("the sums of RunningMoments are not finite")


def start(
    n_features: int, dtype: DType = LONG, *, precision: DType | None = None
) -> RunningMoments:
    """The moments of no rows. `precision` is `dtype` by default."""
    mean = np.zeros(n_features)
    return RunningMoments(n_features, np.dtype(dtype), np.dtype(precision or dtype), 0, mean)


def add(state: RunningMoments, block: Block) -> RunningMoments:
    """The moments with a block of rows added; `state` stays as it is."""
    accumulator = Accumulator(state)
    accumulator.add(block)
    return accumulator.state()


def merge(a: RunningMoments, b: RunningMoments) -> RunningMoments:
    """The moments of the rows of both."""
    if a.n_features != b.n_features:
        raise ValueError(
            f"moments of {a.n_features} and of {b.n_features} columns cannot be merged."
        )
    first, second = (a, b) if a.n_folded >= b.n_folded else (b, a)
    accumulator = Accumulator(first)
    if second.scatter is not None:
        accumulator.add_moments(second.n_folded, second.mean, second.scatter, second.unit)
    for block in second.rows:
        accumulator.add(block)
    precision = min(a.precision, b.precision, key=lambda dtype: dtype.itemsize)
    dtype = np.promote_types(a.dtype, b.dtype)
    return replace(accumulator.state(), dtype=dtype, precision=precision)


def scatter_of(state: RunningMoments, *, center: bool) -> tuple[FloatArray, FloatArray, int]:
    """Σ(x − mean)(x − mean)ᵀ, the mean, and the number of rows; about zero if not centred.

    The scatter is 0 for columns that do not vary.
    """
    square, unit, mean, live = scatter_in_units(state, center=center)
    dead = np.ones(mean.size, dtype=np.bool_)
    dead[live] = False
    square = square * unit * unit
    square[dead], square[:, dead] = 0.0, 0.0
    return square, mean, state.n_samples


def scatter_in_units(
    state: RunningMoments, *, center: bool
) -> tuple[FloatArray, float, FloatArray, NDArray[np.int64]]:
    """The scatter in units of a square, that unit, the mean, and the columns that vary."""
    assert state.scatter is not None
    square, unit, mean = state.scatter, state.unit, state.mean
    if not center:
        square, unit = about_zero(state)
        mean = np.zeros(state.n_features)
    norms = np.sqrt(np.maximum(square.diagonal(), 0)) * unit
    return square, unit, mean, varying(norms, state)


def folded(state: RunningMoments) -> RunningMoments:
    """The same moments with no rows waiting."""
    if not state.rows:
        return state
    accumulator = Accumulator(state, np.inf)
    accumulator.fold_waiting()
    return accumulator.state()


class Room:
    """Memory for intermediate results that is allocated once and reused."""

    def __init__(self) -> None:
        self._arrays: dict[tuple[str, DType], Block] = {}

    def take(self, use: str, shape: tuple[int, ...], dtype: DType) -> Block:
        """An array to overwrite, whose contents do not matter any more."""
        array = self._arrays.get((use, dtype))
        if array is None or len(array) < shape[0]:
            array = self._arrays[use, dtype] = np.empty(shape, dtype)
        return array[: shape[0]]


class Accumulator:
    """Moments that change in place: it owns its arrays until `state` hands them over.

    It starts from a copy, so a `RunningMoments` never changes while others hold it.
    """

    def __init__(self, state: RunningMoments, memory_limit: float = MEMORY_LIMIT) -> None:
        self._start = state
        self._limit = memory_limit
        self._capacity = max(state.n_features, WAITING_ROWS)
        self._n, self._unit = state.n_folded, state.unit
        self._mean = state.mean
        self._given = state.scatter
        self._scatter: FloatArray | None = None
        self._waiting = list(state.rows)
        self._n_waiting = sum(len(block) for block in state.rows)
        self._rooms: dict[int, Room] = {}

    @property
    def n_samples(self) -> int:
        """Rows taken in so far."""
        return self._n + self._n_waiting

    def add(self, block: Block) -> None:
        """Take in a block of rows, which the caller may change afterwards."""
        n_waiting = self._n_waiting + len(block)
        if n_waiting <= self._capacity:
            check_memory(n_waiting, block.shape[1], block.itemsize, limit=self._limit)
            self._waiting.append(_read_only(block.copy()))
            self._n_waiting = n_waiting
        else:
            self.fold_waiting()
            self._fold(block)

    def fold_waiting(self) -> None:
        """Fold in the waiting rows, however few."""
        if self._waiting:
            waiting = self._waiting
            self._fold(waiting[0] if len(waiting) == 1 else np.concatenate(waiting))
            self._waiting, self._n_waiting = [], 0

    def state(self) -> RunningMoments:
        """The moments so far. The accumulator must not be used afterwards."""
        scatter = self._given if self._scatter is None else _read_only(self._scatter)
        return replace(
            self._start,
            n_folded=self._n,
            mean=_read_only(self._mean),
            scatter=scatter,
            unit=self._unit,
            rows=tuple(self._waiting),
        )

    def add_moments(self, n: int, mean: FloatArray, scatter: FloatArray, unit: float) -> None:
        """Take in the moments of other rows."""
        own = self._own_scatter()
        if scatter.any():
            if unit > self._unit or not own.any():
                self._change_unit(unit)
            ratio = unit / self._unit
            for rows in _chunks(own):
                own[rows] += scatter[rows] * (ratio * ratio)
        self._join(n, mean)

    def _own_scatter(self) -> FloatArray:
        """The scatter matrix, copied from the state or made when it is first needed."""
        if self._scatter is None:
            p = self._start.n_features
            check_memory(p, p, LONG.itemsize, limit=self._limit)
            self._scatter = np.zeros((p, p)) if self._given is None else self._given.copy()
        return self._scatter

    def _fold(self, block: Block) -> None:
        """Add a block's scatter about its own mean, then join the two means.

        About any shift c, Σ(x − c)(x − c)ᵀ of r rows is their scatter plus r·d·dᵀ, where
        d = Σ(x − c)/r: with the shift near the mean there is little to subtract.
        """
        scatter, shift = self._own_scatter(), _shift(block)
        parts, rest = _parts(block), np.zeros(block.shape[1])
        n_workers = _n_workers(block.shape[1], len(parts))
        rooms = [self._rooms.setdefault(i, Room()) for i in range(n_workers)]
        with _workers(n_workers) as run:
            for i in range(0, len(parts), n_workers):
                unit, some = self._unit, parts[i : i + n_workers]
                jobs = run(self._multiply, some, repeat(shift), repeat(unit), rooms)
                for part, (product, total) in zip(some, jobs, strict=True):
                    if unit == self._unit and _is_comfortable(product):
                        scatter += product
                        rest += total * np.float64(unit / len(block))
                    else:
                        total_in_unit = self._add_uncomfortable(part, shift)
                        rest += total_in_unit * (self._unit / len(block))
        _add_outer(scatter, rest / self._unit, -len(block))
        self._join(len(block), shift + rest)

    def _multiply(self, part: Block, shift: Block, unit: float, room: Room) -> tuple[Block, Block]:
        """Σ(x − shift)(x − shift)ᵀ and Σ(x − shift) of a few rows, in units of `unit`."""
        work = SHORT if part.dtype == self._start.precision == SHORT else LONG
        product = room.take("product", (part.shape[1], part.shape[1]), work)
        with np.errstate(over="ignore", invalid="ignore"):
            if part.dtype != work or unit != 1.0 or shift.any():
                rows = room.take("rows", part.shape, work)
                part = np.subtract(part, shift, out=rows, dtype=work)
                if unit != 1.0:
                    part *= work.type(1.0 / unit)
            np.matmul(part.T, part, out=product)
            return product, part.sum(axis=0)

    def _add_uncomfortable(self, part: Block, shift: Block) -> FloatArray:
        """Add Σ(x − shift)(x − shift)ᵀ in float64, in a unit that fits the largest number.

        Returns Σ(x − shift) in that unit.
        """
        with np.errstate(over="ignore"):
            rows = part.astype(np.float64) - shift
        largest = float(np.abs(rows).max())
        if not np.isfinite(largest):
            raise UnusableData(
                "differences between rows overflow: divide the data by a large number."
            )
        self._fit_unit(largest, self._start.precision)
        rows /= self._unit
        scatter = self._own_scatter()
        scatter += rows.T @ rows
        return rows.sum(axis=0)

    def _join(self, n: int, mean: FloatArray) -> None:
        """Account for n more rows, whose scatter about their mean has been added."""
        total = self._n + n
        difference = mean - self._mean
        weight = self._n / total * n
        if weight:
            self._fit_unit(float(np.abs(difference).max()), LONG)
            _add_outer(self._own_scatter(), difference / self._unit, weight)
        self._mean = self._mean + difference * (n / total)
        self._n = total

    def _fit_unit(self, largest: float, dtype: DType) -> None:
        """Change the unit if `largest` is too large for it, or too small and nothing larger came.

        Numbers too small beside earlier ones are lost in their rounding errors anyway.
        """
        span = 2.0 ** SPAN[dtype]
        relative, known = largest / self._unit, self._own_scatter().diagonal().max()
        if relative > span or (0 < relative < 1 / span and known < 1 / span**2):
            self._change_unit(unit_for(largest, dtype))

    def _change_unit(self, unit: float) -> None:
        ratio = self._unit / unit
        scatter = self._own_scatter()
        scatter *= ratio
        scatter *= ratio
        self._unit = unit


def about_zero(state: RunningMoments) -> tuple[FloatArray, float]:
    """Σ x·xᵀ in units of a square, and that unit, which suits the mean as well."""
    assert state.scatter is not None
    deviation = float(np.sqrt(state.scatter.diagonal().max()) * state.unit)
    unit = unit_for(max(float(np.abs(state.mean).max()), deviation), LONG)
    ratio = state.unit / unit
    square = state.scatter * ratio * ratio
    _add_outer(square, state.mean / unit, state.n_folded)
    return square, unit


def varying(norms: FloatArray, state: RunningMoments) -> NDArray[np.int64]:
    """The columns that vary, from the roots of their sums of squares; all if none does."""
    return np.flatnonzero(varies_beyond_rounding(norms, state.mean, state.n_samples, state.dtype))


def _read_only(array: Numbers) -> Numbers:
    array.flags.writeable = False
    return array


def check_memory(n_rows: int, n_features: int, itemsize: int, *, limit: float) -> None:
    needed = float(n_rows) * n_features * itemsize
    if needed > limit:
        raise ValueError(
            f"streaming {n_features} columns takes {n_rows} × {n_features} numbers in memory, "
            f"{needed / 1e9:.3g} GB, and the limit is {limit / 1e9:.3g} GB: give fewer columns or "
            "a higher memory_limit."
        )


def _parts(block: Block) -> list[Block]:
    """A block cut into parts of a few rows, of equal size."""
    n, p = block.shape
    wanted = max(p // 2, PART_BYTES // (p * block.itemsize))
    limit = min(max(wanted, PART_ROWS[0]), PART_ROWS[1])
    step = -(-n // -(-n // limit))
    return [block[i : i + step] for i in range(0, n, step)]


def _n_workers(n_features: int, n_parts: int) -> int:
    """Number of threads: those of BLAS where it cannot share the work well by itself, else 1."""
    if n_features > FEW_FEATURES:
        return 1
    return min(MOST_WORKERS, n_parts, blas_threads())


@contextmanager
def _workers(n: int) -> Iterator[Callable[..., Iterator[Any]]]:
    """A parallel `map`, each call with a single-threaded BLAS.

    Products of few columns are so short that the threads of BLAS would spend most of the time
    waiting for each other, and for the shift and the sums in between.
    """
    if n == 1:
        yield map
    else:
        with one_blas_thread(), ThreadPoolExecutor(n) as pool:
            yield pool.map


def _shift(block: Block) -> Block:
    """The column means of some rows from all over a block, in its type; or zeros.

    Any shift near the mean will do: the rest is accounted for. None is needed where the mean is so
    small that it hardly changes the largest eigenvalue, and so the rounding errors.
    """
    rows = block[:: min(max(len(block) // SHIFT_ROWS, 1), SHIFT_STEP)]
    n = rows.dtype.type(len(rows))
    with np.errstate(over="ignore", invalid="ignore"):
        mean = rows.sum(axis=0) / n
        # Inaccurate beside a large mean, but then far below its square all the same.
        variance = np.einsum("ij,ij->j", rows, rows) / n - np.square(mean)
        if np.isfinite(variance).all() and mean @ mean < variance.max():
            return np.zeros_like(mean)
    return mean if np.isfinite(mean).all() else np.sum(rows / n, axis=0)


def _is_comfortable(product: Block) -> bool:
    """Whether the largest of the sums of squares is in the range that loses no digits."""
    span = SPAN[product.dtype]
    return bool(2.0 ** (-2 * span) <= product.diagonal().max() <= 2.0 ** (2 * span + 20))


def unit_for(largest: float, dtype: DType) -> float:
    """1, or a power of two near `largest` where its square would leave the range.

    `dtype` can hold its inverse.
    """
    exponent = int(np.frexp(largest)[1]) - 1 if largest else 0
    limit = 5 * SPAN[dtype]
    return 2.0 ** min(max(exponent, -limit), limit) if abs(exponent) > SPAN[dtype] else 1.0


def _chunks(square: FloatArray) -> Iterator[slice]:
    """Slices of rows, so that the terms added to them take little memory."""
    step = max(1, PART_BYTES // (8 * len(square)))
    return (slice(i, i + step) for i in range(0, len(square), step))


def _add_outer(square: FloatArray, x: FloatArray, weight: float) -> None:
    """square ← square + weight·x·xᵀ."""
    scaled = np.sqrt(abs(weight)) * x
    change = np.add if weight > 0 else np.subtract
    for rows in _chunks(square):
        change(square[rows], np.outer(scaled[rows], scaled), out=square[rows])
