"""Complete data that are kept cell by cell, whose rows may have noise of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TypeVar

import numpy as np

from bayespca.arrays.namespaces import (
    array_namespace,
    is_numpy_array,
    row_blocks,
    to_namespace,
    to_numpy,
)
from bayespca.arrays.parallel import by_shares, in_turn
from bayespca.arrays.types import Array, FloatArray
from bayespca.engines.decomposing import decompose, is_for_products
from bayespca.lowrank.filtering import filtered, unfiltered

from .data import (
    Near,
    NoisyTable,
    Solve,
    Whitened,
    Whitening,
    forms_of_centred,
    forms_of_rows,
    sums_of_centred,
)
from .decomposition import (
    InRounds,
    gram_and_total,
    refined,
    whitened_by_gram,
    whitened_by_products,
)

T = TypeVar("T")

# Cells of a sample of the rows, and a quarter of its fewest rows.
SAMPLE = 200_000
FEWEST = 100
# Up to this many features, each round decomposes the Gram matrix of tall data; beyond, an engine
# that computes only the kept components is faster.
GRAM = 1000
# With more cells, a pass over them takes much less time than a decomposition if it is for at most
# one in FEW directions.
MANY_CELLS = 2_000_000
FEW = 12


@dataclass(frozen=True, eq=False)
class CellTable(NoisyTable):
    """The data themselves, in memory or on a device."""

    values: Array
    engine: str = "auto"
    known_squares: FloatArray | None = None

    @property
    def sample(self) -> CellTable | None:
        """Some of the rows, at equal distances, to start from; None where rows are too few."""
        step = step_of_sample(self.n_samples, self.p)
        if step is None:
            return None
        values = self.values[::step, :]
        mean = mean_of(values) if self.centred else self.mean
        return replace(
            self,
            values=values,
            n_samples=int(values.shape[0]),
            mean=mean,
            known=None if self.known is None else self.known[::step],
            known_squares=None,
        )

    def projections(
        self, whitening: Whitening, W: FloatArray, location: FloatArray, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        if self._is_host and not whitening.partials:
            mean, precision = self.mean + location, whitening.columns.precision

            def of_share(share: slice) -> tuple[FloatArray, FloatArray]:
                return forms_of_centred(self.values[share], mean, precision, W.T, weights)

            return _in_order(by_shares(of_share, self.n_samples, cells_per_row=self.p))
        across = to_namespace(np.ascontiguousarray(W.T), self.values)
        root = to_namespace(np.sqrt(whitening.columns.precision), self.values)

        def work(rows: slice) -> tuple[np.ndarray, np.ndarray]:
            z = filtered(self._centred(rows, location) * root, whitening.partials)
            if is_numpy_array(z):
                return forms_of_rows(z, across, weights)
            xp = array_namespace(z)
            return to_numpy(xp.sum(z * z, axis=1)), to_numpy(xp.matmul(z, across)) ** 2 @ weights

        return _in_order(in_blocks(self.values, work))

    def column_squares(self, precision: FloatArray) -> FloatArray:
        xp, weights = array_namespace(self.values), to_namespace(precision, self.values)

        def work(rows: slice) -> FloatArray:
            return to_numpy(xp.matmul(weights[rows], self._centred(rows) ** 2))

        return np.asarray(sum(in_blocks(self.values, work)), dtype=np.float64)

    def row_squares(self, precision: FloatArray) -> FloatArray:
        xp, weights = array_namespace(self.values), to_namespace(precision, self.values)

        def work(rows: slice) -> FloatArray:
            return to_numpy(xp.matmul(self._centred(rows) ** 2, weights))

        return np.concatenate(list(in_blocks(self.values, work))).astype(np.float64, copy=False)

    def _centred(self, rows: slice, location: FloatArray | float = 0.0) -> Array:
        return self.values[rows, :] - to_namespace(self.mean + location, self.values)

    def whitened(self, whitening: Whitening, solve: Solve) -> Whitened:
        (n, p), engine = (self.n_samples, self.p), self.engine
        if self._is_host and not whitening.partials:
            # For tall data a weighted Gram matrix is the least work, for others products with them.
            if n > p and p <= GRAM and engine in ("auto", "gram"):
                return self._by_gram(whitening, solve)
            if engine == "auto" and is_for_products(self.values):
                found = self._by_products(whitening, solve)
                if found is not None:
                    return found
                engine = "gram"
        location = self._location(whitening)
        V = self._scaled(whitening, location)
        Z = filtered(V, whitening.partials)
        answer = InRounds(solve, less=self.centred)
        basis = decompose(Z, plan=answer.plan, center=False, engine=engine)
        spectrum, solution = answer.of(basis.spectrum)
        W, beside = basis.right(solution.rank), np.zeros((len(whitening.partials), p))
        if whitening.partials:
            xp = array_namespace(V)

            def work(rows: slice) -> FloatArray:
                return to_numpy(xp.matmul(V[rows, :].T, xp.matmul(Z[rows, :], W.T)))

            cross = np.asarray(sum(in_blocks(V, work)), dtype=np.float64)
            for lag, products in enumerate(beside, 1):
                products[: p - lag] = _total(V, partial(_products, lag=lag))
        else:
            # Right singular vectors: VᵀVw = γ²w.
            gamma = spectrum.singular_values[: W.shape[0]] * spectrum.scale
            cross = np.asarray(to_numpy(W).T * gamma**2, dtype=np.float64)
        components = np.asarray(to_numpy(W), dtype=np.float64)
        return Whitened(
            spectrum,
            solution,
            components=components,
            loadings=unfiltered(components, whitening.partials),
            squares=_total(V, lambda v: v * v),
            beside=beside,
            cross=cross,
            rows=None,
            location=location,
            engine=basis.engine,
        )

    def can_refine(self, whitening: Whitening, size: int) -> bool:
        n, p = self.n_samples, self.p
        large = n * p > MANY_CELLS and FEW * size <= min(n, p)
        return self._is_host and large and self.engine == "auto" and not whitening.partials

    def refined(self, whitening: Whitening, solve: Solve, near: Near) -> Whitened:
        return refined(self.values, self, whitening, solve, near)

    @cached_property
    def squares(self) -> FloatArray:
        if self.known_squares is not None:
            return self.known_squares
        return self.column_squares(np.ones(self.n_samples))

    @property
    def matrix(self) -> FloatArray:
        return to_numpy(self.values)

    @property
    def _is_host(self) -> bool:
        """Whether the data are a NumPy array of float64."""
        return is_float64(self.values)

    def _by_products(self, whitening: Whitening, solve: Solve) -> Whitened | None:
        if whitening.rows is None:
            sums = np.zeros(self.p), self.squares
        else:
            sums = _weighted_sums(self.values, self.mean, whitening.rows.precision)
        return whitened_by_products(self.values, self, whitening, solve, sums)

    def _by_gram(self, whitening: Whitening, solve: Solve) -> Whitened:
        """Whitened data by the Gram matrix of the rows, without a whitened copy of them."""
        rows, columns = whitening.rows, np.sqrt(whitening.columns.precision)
        root = np.ones(self.n_samples) if rows is None else np.sqrt(rows.precision)

        def work(share: slice) -> tuple[FloatArray, FloatArray]:
            return gram_and_total(self.values[share], root[share], self.mean, columns)

        grams, totals = zip(*by_shares(work, self.n_samples, cells_per_row=self.p), strict=True)
        sums = np.sum(grams, axis=0), np.sum(totals, axis=0)
        return whitened_by_gram(self, whitening, solve, sums, "gram")

    def _location(self, whitening: Whitening) -> FloatArray:
        """Mean of the rows, weighted by their precision, less the plain mean."""
        if whitening.rows is None or not self.centred:
            return np.zeros(self.p)
        xp, w = array_namespace(self.values), whitening.rows.precision
        weights = to_namespace(w / w.sum() - 1 / w.size, self.values)

        def work(rows: slice) -> FloatArray:
            return to_numpy(xp.matmul(weights[rows], self._centred(rows)))

        return np.asarray(sum(in_blocks(self.values, work)), dtype=np.float64)

    def _scaled(self, whitening: Whitening, location: FloatArray) -> Array:
        """V, computed in blocks, so that each number is touched once while it is in the cache."""
        xp = array_namespace(self.values)
        V = xp.empty_like(self.values)
        root = to_namespace(np.sqrt(whitening.columns.precision), self.values)
        rows = whitening.rows
        of_rows = None if rows is None else to_namespace(np.sqrt(rows.precision), self.values)

        def work(part: slice) -> None:
            block = self._centred(part, location)
            block *= root
            if of_rows is not None:
                block *= of_rows[part, None]
            V[part, :] = block

        for _ in in_blocks(self.values, work):
            pass
        return V


def _in_order(parts: Iterable[tuple[np.ndarray, np.ndarray]]) -> tuple[FloatArray, FloatArray]:
    """Results for all rows in float64, from those of parts of the rows."""
    squares, forms = (np.concatenate(part) for part in zip(*parts, strict=True))
    return squares.astype(np.float64, copy=False), forms.astype(np.float64, copy=False)


def _products(V: Array, lag: int) -> Array:
    """Products of cells in a row at this distance."""
    return V[:, lag:] * V[:, :-lag]


def _total(V: Array, of_cells: Callable[[Array], Array]) -> FloatArray:
    """Sum over rows of a function of the cells."""
    xp = array_namespace(V)
    parts = in_blocks(V, lambda rows: to_numpy(xp.sum(of_cells(V[rows, :]), axis=0)))
    return np.asarray(sum(parts), dtype=np.float64)


def step_of_sample(n: int, p: int) -> int | None:
    """The step between the rows of a sample; None where rows are too few for one."""
    step = n // max(SAMPLE // p, 4 * FEWEST)
    return step if step >= 4 else None


@dataclass(frozen=True)
class CentredSums:
    """Means of the columns, Σ(x − mean)², and bounds on the largest absolute value."""

    mean: FloatArray
    squares: FloatArray
    bounds: tuple[float, float]

    def are_in(self, limits: tuple[float, float]) -> bool:
        """Whether the largest absolute value surely lies within the limits."""
        return limits[0] < self.bounds[0] and self.bounds[1] < limits[1]


def centred_sums(X: FloatArray) -> CentredSums:
    """`CentredSums` from one pass over the rows less the first one, so that any offset is harmless.

    A first row that is far from the others adds to the squares, but they lose no more digits than
    the number of rows has.
    """
    n, first = len(X), X[0].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        total, squares = _weighted_sums(X, first, np.ones(n))
        own = np.maximum(squares - total * (total / n), 0.0)
        largest, spread = float(np.abs(first).max()), np.sqrt(float(squares.max()))
    bounds = max(largest, spread / np.sqrt(n) / 2), largest + spread
    return CentredSums(first + total / n, own, bounds)


def _weighted_sums(X: FloatArray, mean: FloatArray, w: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Σw(x − mean) and Σw(x − mean)² of each column, with a thread for each share of the rows."""

    def work(share: slice) -> tuple[FloatArray, FloatArray]:
        return sums_of_centred(X[share], mean, w[share])

    total, squares = zip(*by_shares(work, len(X), cells_per_row=X.shape[1]), strict=True)
    return np.sum(total, axis=0), np.sum(squares, axis=0)


def is_float64(X: Array) -> bool:
    """Whether X is a NumPy array of float64."""
    return is_numpy_array(X) and X.dtype == np.float64


def mean_of(X: Array) -> FloatArray:
    """Means of the columns, accurate for any offset."""
    xp = array_namespace(X)
    shift = X[0, :]

    def work(rows: slice) -> FloatArray:
        return np.asarray(to_numpy(xp.sum(X[rows, :] - shift, axis=0)), dtype=np.float64)

    return np.asarray(to_numpy(shift) + sum(in_blocks(X, work)) / X.shape[0], dtype=np.float64)


def in_blocks(X: Array, work: Callable[[slice], T]) -> Iterator[T]:
    """Results of `work` for each block of rows, in order; threaded if X is a NumPy array."""
    parts = row_blocks(X)
    return in_turn(work, parts) if is_numpy_array(X) else map(work, parts)
